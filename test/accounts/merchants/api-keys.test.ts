import { testMerchants } from '../../support/merchants.ts'
import t from 'tap'
import { ApiKeys, KeyUses, MAX_KEYS } from '../../../src/accounts/merchants/api-keys.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { eachDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'

let accounts = 0

async function opened(database: Database) {
  const clock = new ManualClock()
  const uses = new KeyUses({ database, clock, log: silentLog })
  const merchants = testMerchants(database, clock, {
    keyUsed: keyId => {
      uses.note(keyId)
    }
  })
  const keys = new ApiKeys({ database, clock })
  const account = async () => {
    const { merchant, apiKey } = await merchants.create({ name: 'a', email: `a${++accounts}@example.com` })
    return { id: merchant.id, apiKey: apiKey.reveal() }
  }
  const holder = async (key: string) => {
    const found = await merchants.holderOf(key)
    return found === null ? null : `${found.merchant.id}${found.isReadOnly ? ' reads' : ''}`
  }
  return { clock, uses, merchants, keys, account, holder }
}

await eachDatabase(t, 'further keys act for their account alone, as what they were made for', async (t, database) => {
  const { keys, account, holder, merchants, uses, clock } = await opened(database)
  const [own, other] = [await account(), await account()]
  const full = await keys.create(own.id, { name: 'shop', isReadOnly: false })
  await clock.advance(1)
  const reader = await keys.create(own.id, { name: 'books <script>', isReadOnly: true })
  t.equal(await holder(own.apiKey), `${own.id}`)
  t.equal(await holder(full.apiKey.reveal()), `${own.id}`)
  t.equal(await holder(reader.apiKey.reveal()), `${own.id} reads`)
  t.equal(await holder(full.apiKey.reveal().replace(/.$/, last => (last === 'A' ? 'B' : 'A'))), null)
  await uses.drained()
  const listed = await keys.list(own.id)
  t.match(listed, [
    { name: 'First key', isFirst: true, isReadOnly: false, usedAt: clock.now() },
    { name: 'shop', isFirst: false, usedAt: clock.now() },
    { name: 'books <script>', isReadOnly: true, endsAt: null }
  ])
  t.notOk(JSON.stringify(listed).includes(full.apiKey.reveal().slice(14)), 'no secret of it is listed')
  t.same(await keys.list(other.id).then(all => all.length), 1)
  await t.rejects(keys.remove(other.id, full.key.keyId), { status: 404 }, "another's key cannot be removed")
  await t.rejects(keys.rotate(other.id, full.key.keyId, 0), { status: 404 })
  await t.rejects(keys.remove(own.id, listed[0]?.keyId ?? ''), { status: 409 })
  await keys.remove(own.id, full.key.keyId)
  t.equal(await holder(full.apiKey.reveal()), null, 'a removed key is refused immediately')
  await merchants.deactivate(own.id)
  t.equal(await holder(reader.apiKey.reveal()), null, "a deactivated account's keys are all refused")
})

await eachDatabase(t, 'a replaced key stays valid for its overlap, the first one too', async (t, database) => {
  const { keys, account, holder, clock, merchants } = await opened(database)
  const own = await account()
  const [first] = await keys.list(own.id)
  const again = await keys.rotate(own.id, first?.keyId ?? '', 60_000)
  t.match(again.key, { isFirst: true, isReadOnly: false })
  t.equal(await holder(own.apiKey), `${own.id}`)
  t.equal(await holder(again.apiKey.reveal()), `${own.id}`)
  t.match(await keys.list(own.id), [{ isFirst: true }, { name: 'First key, replaced', endsAt: clock.now() + 60_000 }])
  await clock.advance(60_000)
  t.equal(await holder(own.apiKey), null)
  t.equal((await keys.list(own.id)).length, 1)

  const reader = await keys.create(own.id, { name: 'books', isReadOnly: true })
  const next = await keys.rotate(own.id, reader.key.keyId, 60_000)
  t.match(next.key, { name: 'books', isReadOnly: true })
  t.equal(await holder(reader.apiKey.reveal()), `${own.id} reads`)
  await t.rejects(
    keys.rotate(own.id, reader.key.keyId, 60_000),
    { status: 404 },
    'a key that already ends is not replaced'
  )
  const last = await keys.rotate(own.id, next.key.keyId, 0)
  t.equal(await holder(next.apiKey.reveal()), null, 'without an overlap it ends immediately')
  t.equal(await holder(last.apiKey.reveal()), `${own.id} reads`)

  const regenerated = await merchants.regenerateKey(own.id)
  t.equal(await holder(again.apiKey.reveal()), null, "the contract's own way has no overlap")
  t.equal(await holder(regenerated?.apiKey.reveal() ?? ''), `${own.id}`)
})

await eachDatabase(t, 'api keys: regenerating ends every replaced key immediately', async (t, database) => {
  const { keys, account, holder, merchants, clock } = await opened(database)
  for (const end of [
    (id: number) => merchants.regenerateKey(id),
    (id: number) => database.transaction(tx => merchants.within(tx).regenerateKey(id)),
    async (id: number) => await keys.rotate(id, (await keys.list(id))[0]?.keyId ?? '', 0)
  ]) {
    const [own, other] = [await account(), await account()]
    const named = await keys.create(own.id, { name: 'shop', isReadOnly: false })
    const second = await keys.rotate(own.id, (await keys.list(own.id))[0]?.keyId ?? '', 7 * 86_400_000)
    const third = await keys.rotate(own.id, second.key.keyId, 3_600_000)
    const replaced = await keys.rotate(own.id, named.key.keyId, 3_600_000)
    await keys.rotate(other.id, (await keys.list(other.id))[0]?.keyId ?? '', 3_600_000)
    t.equal(await holder(own.apiKey), `${own.id}`, 'the overlap holds until then')

    const fresh = await end(own.id)
    for (const key of [own.apiKey, second.apiKey.reveal(), third.apiKey.reveal(), named.apiKey.reveal()])
      t.equal(await holder(key), null)
    t.equal(await holder(fresh?.apiKey.reveal() ?? ''), `${own.id}`)
    t.equal(await holder(replaced.apiKey.reveal()), `${own.id}`, 'a named key that was not replaced stays')
    t.equal(await holder(other.apiKey), `${other.id}`, 'other accounts keep their overlaps')
    await clock.advance(1)
  }
})

await eachDatabase(t, 'api keys: a rotation beside a regeneration leaves no old key behind', async (t, database) => {
  const { keys, account, holder, merchants } = await opened(database)
  for (let round = 0; round < 8; round++) {
    const own = await account()
    const keyId = (await keys.list(own.id))[0]?.keyId ?? ''
    const [, regenerated] = await Promise.all([
      keys.rotate(own.id, keyId, 3_600_000).catch((error: unknown) => error),
      merchants.regenerateKey(own.id)
    ])
    t.equal(await holder(own.apiKey), null)
    // The rotation came second where it was refused or replaced the new key: then that one is in its overlap.
    t.ok((await holder(regenerated?.apiKey.reveal() ?? '')) !== null)
  }
})

await eachDatabase(
  t,
  'an account has a maximum number of keys, also with concurrent creations',
  async (t, database) => {
    const { keys, account } = await opened(database)
    const own = await account()
    const made = await Promise.allSettled(
      Array.from({ length: MAX_KEYS + 4 }, () => keys.create(own.id, { name: 'a', isReadOnly: true }))
    )
    t.equal(made.filter(({ status }) => status === 'fulfilled').length, MAX_KEYS)
    t.equal((await keys.list(own.id)).length, MAX_KEYS + 1)
  }
)

await eachDatabase(
  t,
  'a use is recorded once a minute, and an unavailable database locks no key out',
  async (t, database) => {
    const { keys, account, holder, clock, uses } = await opened(database)
    const own = await account()
    const begun = clock.now()
    for (let i = 0; i < 5; i++) await holder(own.apiKey)
    await uses.drained()
    await clock.advance(59_999)
    await holder(own.apiKey)
    await uses.drained()
    t.equal((await keys.list(own.id))[0]?.usedAt, begun)
    await clock.advance(1)
    await holder(own.apiKey)
    await uses.drained()
    t.equal((await keys.list(own.id))[0]?.usedAt, begun + 60_000)

    const broken = new KeyUses({
      // Only its handle is asked for, and it throws as one of a lost connection does.
      database: { sql: () => Promise.reject(new Error('away')) } as unknown as Database,
      clock,
      log: silentLog
    })
    broken.note('k')
    await broken.drained()
    t.pass('no error')
  }
)
