import fc from 'fast-check'
import t from 'tap'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { byFirst } from '../../../src/lightning/providers/payee.ts'
import { ProviderRefused, ProviderUnavailable } from '../../../src/lightning/provider-calls/errors.ts'
import { providerKinds } from '../../../src/lightning/kinds/kinds.ts'
import { readSlotKeys, SlotKeysError } from '../../../src/lightning/providers/slot-keys.ts'
import { startFakeCln } from '../../fakes/cln.ts'
import { startFakePhoenixd } from '../../fakes/phoenixd.ts'

const seat = (kind: string, name = kind) => {
  const found = providerKinds.find(known => known.name === kind)
  if (found === undefined) throw new TypeError(`${kind} is no kind`)
  return { name, kind, keyFault: found.keyFault }
}

/** Whose each key is, or what is said of a text. */
function read(text: string, ...kinds: readonly string[]) {
  try {
    return readSlotKeys(
      text,
      kinds.map(kind => seat(kind))
    ).map(({ seat: { kind }, key }) => [kind, key] as const)
  } catch (error) {
    if (error instanceof SlotKeysError) return error.message
    throw error
  }
}

t.test('the scope of each key', async t => {
  const [one, two] = [await startFakePhoenixd(), await startFakeCln()]
  t.teardown(() => Promise.all([one.close(), two.close()]))
  const [phoenixd, cln] = [one.key(), two.key()]

  await t.test('the only provider of a slot takes the whole text', async t => {
    t.same(read(' strike:a b\n', 'strike'), [['strike', ' strike:a b\n']])
  })

  await t.test('an address says it by its form, and their order is the account’s', async t => {
    for (const kinds of [
      ['phoenixd', 'cln', 'strike'],
      ['strike', 'cln', 'phoenixd']
    ]) {
      t.same(read(`  ${cln}\n${phoenixd} `, ...kinds), [
        ['cln', cln],
        ['phoenixd', phoenixd]
      ])
      t.same(read(`cln:${cln}`, ...kinds), [['cln', cln]])
      t.same(read('A1B2C3', ...kinds), [['strike', 'A1B2C3']], 'only one kind takes any text')
    }
  })

  await t.test('where two kinds accept any text the key names its kind', async t => {
    t.same(read('opennode:A1 strike:B2', 'strike', 'opennode'), [
      ['opennode', 'A1'],
      ['strike', 'B2']
    ])
    t.equal(
      read('A1', 'strike', 'opennode'),
      'Key 1 may be for strike or opennode: write strike: or opennode: before it.'
    )
  })

  await t.test(
    'an address with a mistake in it is sent to no provider, least of all to one that accepts any text',
    async t => {
      t.equal(
        read(phoenixd.replace('password', 'passwort'), 'phoenixd', 'strike'),
        'Key 1 has the form of none that is taken here: phoenixd, strike.'
      )
      t.equal(read(`${cln} ${cln}`, 'cln', 'strike'), 'Two of the keys are for cln; there may be one of each.')
      t.match(read('   ', 'cln', 'phoenixd'), /has the form of none/)
    }
  )

  await t.test('no key is part of its error message, and none is read for a missing kind', async () => {
    fc.assert(
      fc.property(fc.string({ minLength: 12, maxLength: 60 }), text => {
        const got = read(text, 'phoenixd', 'cln')
        const secret = new Secret(text).reveal().trim()
        return typeof got === 'string' ? secret.length < 12 || !got.includes(secret) : false
      })
    )
  })
})

t.test('every reachable maker is asked', async t => {
  interface Maker {
    readonly error?: Error
    readonly instead: Maker | null
  }
  const chain = (...errors: ReadonlyArray<Error | null>) =>
    errors.reduceRight<Maker | null>((instead, error) => ({ ...(error === null ? {} : { error }), instead }), null) ?? {
      instead: null
    }
  const asked: Maker[] = []
  const ask = async (first: Maker) => {
    asked.splice(0)
    return await byFirst(first, async maker => {
      asked.push(maker)
      if (maker.error !== undefined) throw maker.error
      return maker
    })
  }
  const away = (wait: number) => new ProviderUnavailable('x', wait, undefined, 'open')
  const badKey = new ProviderRefused('key', 'bad key')
  const badAmount = new ProviderRefused('request', 'too much')

  const good = chain(null, null)
  t.equal(await ask(good), good)
  t.equal(asked.length, 1)
  const third = chain(away(5), badKey, null)
  t.equal(await ask(third), third.instead?.instead)
  await t.rejects(ask(chain(badAmount, null)), { message: 'too much' }, 'another would say the same')
  t.equal(asked.length, 1)
  await t.rejects(ask(chain(away(9), away(3), away(7))), { retryAfter: 3 })
  await t.rejects(ask(chain(badKey, away(60))), { retryAfter: 60 }, 'what waiting helps comes first')
  await t.rejects(ask(chain(badKey, new ProviderRefused('scope', 'other'))), { message: 'bad key' })
  const bug = new TypeError('a bug')
  await t.rejects(ask(chain(bug, null)), bug)
})
