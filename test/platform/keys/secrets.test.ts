import { inspect } from 'node:util'
import { assert, property, string } from 'fast-check'
import t from 'tap'
import { generateApiKey, matchesApiKey, parseApiKey } from '../../../src/platform/keys/api-key.ts'
import { KeyRing, Sealer, Secret, UnsealError } from '../../../src/platform/keys/secrets.ts'
import type { Random } from '../../../src/platform/system/ids.ts'

const master = new Secret('first master secret of 32 bytes or more')
const next = new Secret('second master secret of 32 bytes or more')
const place = { table: 'merchants', column: 'provider_key', row: '7' }

/** Bytes that count up, so that what is made is the same in every run. */
function countingRandom(): Random {
  let byte = 0
  return length => Uint8Array.from({ length }, () => byte++ % 256)
}

await t.test('a secret is redacted in every output', async t => {
  const secret = new Secret('sk-12345')
  t.equal(`${secret}`, '[redacted]')
  t.equal(`x${String(secret)}`, 'x[redacted]')
  t.equal(secret.toString(), '[redacted]')
  t.equal(JSON.stringify({ secret }), '{"secret":"[redacted]"}')
  t.equal(inspect({ deep: { secret } }, { depth: 9, showHidden: true }), '{ deep: { secret: [redacted] } }')
  t.same(Object.keys(secret), [])
  t.equal(secret.reveal(), 'sk-12345')
})

await t.test('a sealed value opens again, and only in its own place', async t => {
  const sealer = new Sealer(new KeyRing(master))
  assert(
    property(string({ unit: 'binary' }), text => {
      const sealed = sealer.seal(text.toWellFormed(), place)
      return sealer.open(sealed, place).reveal() === text.toWellFormed()
    })
  )
  const sealed = sealer.seal('sk-12345', place)
  t.match(sealed, /^v1\.[\w-]{8}\.[\w-]{16}\.[\w-]+\.[\w-]{22}$/)
  t.notOk(sealed.includes('sk-12345'))
  t.not(sealer.seal('sk-12345', place), sealed, 'each sealing has its own nonce')
  for (const other of [
    { ...place, row: '8' },
    { ...place, column: 'webhook_secret' },
    { ...place, table: 'proxies' },
    { table: 'merchants","provider_key', column: '7', row: '' }
  ]) {
    t.throws(() => sealer.open(sealed, other), UnsealError)
  }
})

await t.test('a ciphertext that was changed anywhere does not open', async t => {
  const sealer = new Sealer(new KeyRing(master))
  const sealed = sealer.seal('sk-12345', place)
  const parts = sealed.split('.')
  for (let part = 2; part < 5; part++) {
    const bytes = Buffer.from(parts[part] ?? '', 'base64url')
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const changed = Buffer.from(bytes)
      changed.writeUInt8(changed.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3)
      t.throws(() => sealer.open(parts.with(part, changed.toString('base64url')).join('.'), place), UnsealError)
    }
  }
  const shortTag = parts
    .with(
      4,
      Buffer.from(parts[4] ?? '', 'base64url')
        .subarray(0, 4)
        .toString('base64url')
    )
    .join('.')
  for (const bad of [
    '',
    'v1',
    'v1.x.y.z',
    parts.slice(0, 4).join('.'),
    sealed.replace('v1', 'v2'),
    `${sealed}.more`,
    shortTag,
    parts.with(1, 'AAAAAAAA').join('.')
  ]) {
    const error: unknown = (() => {
      try {
        return sealer.open(bad, place)
      } catch (error) {
        return error
      }
    })()
    t.match(error, { name: 'UnsealError', code: 'BG_UNSEAL' })
    t.notMatch(String(error), /sk-12345/)
  }
})

await t.test('after a rotation the previous master still opens, and what it sealed is stale', async t => {
  const before = new Sealer(new KeyRing(master))
  const after = new Sealer(new KeyRing(next, [master]))
  const sealed = before.seal('sk-12345', place)
  t.equal(after.open(sealed, place).reveal(), 'sk-12345')
  t.equal(after.isStale(sealed), true)
  t.equal(after.isStale(after.seal('x', place)), false)
  t.throws(() => new Sealer(new KeyRing(next)).open(sealed, place), /neither secrets.master nor secrets.previous/)
})

await t.test('each purpose has its own key, the same in every process', async t => {
  const ring = new KeyRing(master)
  t.same(ring.deriveAll('macaroon')[0], new KeyRing(master).deriveAll('macaroon')[0])
  t.notSame(ring.deriveAll('macaroon')[0], ring.deriveAll('payment-id')[0])
  t.equal(ring.deriveAll('macaroon')[0].length, 32)
  const [current, previous] = new KeyRing(next, [master]).deriveAll('macaroon')
  t.same(current, new KeyRing(next).deriveAll('macaroon')[0])
  t.same(previous, ring.deriveAll('macaroon')[0])
  // From an independent HKDF (RFC 5869): salt "boltgate", info "macaroon". A change would void every macaroon in the
  // field.
  t.equal(
    ring.deriveAll('macaroon')[0].toString('hex'),
    '64c3f32e8986463cea5a29d5b6a4e75f45b5d2bcddb835ec05fef7a7f568df42'
  )
})

await t.test('a short master is refused by name, without being shown', async t => {
  t.ok(new KeyRing(new Secret('x'.repeat(32))))
  t.throws(() => new KeyRing(new Secret('x'.repeat(31))), { code: 'BG_MASTER_SECRET' })
  const error: unknown = (() => {
    try {
      return new KeyRing(master, [new Secret('too short')])
    } catch (error) {
      return error
    }
  })()
  t.match(String(error), /secrets\.previous\[0\] has 9 bytes/)
  t.notMatch(String(error), /too short/)
})

await t.test('an API key has its form, is found by its id, and matches its own digest alone', async t => {
  const made = generateApiKey()
  t.match(made.key.reveal(), /^bg_[0-9a-z]{10}_[\w-]{43}$/)
  const parsed = parseApiKey(made.key.reveal())
  if (parsed === null) throw new Error('not parsed')
  t.equal(parsed.id, made.id)
  t.equal(matchesApiKey(parsed, made.digest), true)
  t.equal(matchesApiKey(parsed, generateApiKey().digest), false)
  t.equal(matchesApiKey(parsed, made.digest.subarray(0, 31)), false)
  for (const bad of [
    '',
    'bg_',
    made.id,
    `${made.key.reveal()}x`,
    made.key.reveal().slice(0, -1),
    ` ${made.key.reveal()}`,
    `${made.key.reveal()}\n`
  ]) {
    t.equal(parseApiKey(bad), null, JSON.stringify(bad))
  }
  t.equal(
    generateApiKey(countingRandom()).key.reveal(),
    generateApiKey(countingRandom()).key.reveal(),
    'randomness is injected'
  )
  let draws = 0
  const highest = (length: number) => new Uint8Array(length).fill(251).fill(252, 0, draws++ === 0 ? 1 : 0)
  t.equal(generateApiKey(highest).id, 'z'.repeat(10), 'a byte that would make some letters likelier is drawn again')
})
