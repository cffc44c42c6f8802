import tap from 'tap'
import { SqlPasskeyStore, type StoredPasskey } from '../../../src/web/sign-in/passkeys/store.ts'
import { SqlSignInStore } from '../../../src/web/sign-in/store.ts'
import { digestOf } from '../../../src/web/sign-in/cookie.ts'
import { verifyCreation } from '../../../src/web/sign-in/passkeys/webauthn.ts'
import { openAnyDatabase } from '../../support/database.ts'

const NOW = Date.parse('2026-11-23T10:00:00.000Z')

tap.test('passkeys in the database', async t => {
  const database = await openAnyDatabase(t)
  const { sql } = database
  const store = new SqlPasskeyStore(database)
  const people = new SqlSignInStore(database)
  let made = 0
  const person = async () => await database.transaction(tx => people.person(tx, `holder-${++made}@example.com`, NOW))
  const passkeyOf = (personId: number, more: Partial<StoredPasskey> = {}) => ({
    id: `passkey-${++made}`,
    personId,
    credentialId: `credential-${made}`,
    publicKey: new Uint8Array([1, 2, 3]),
    counter: 0,
    transports: ['internal', 'hybrid'],
    isSynced: false,
    name: 'Phone 🦊',
    createdAt: NOW + made,
    usedAt: null,
    ...more
  })
  const insert = async (passkey: StoredPasskey) => await database.transaction(tx => store.insert(tx, passkey))
  const use = async (id: string, counter: number) =>
    await database.transaction(tx => store.used(tx, id, counter, true, NOW))

  await t.test('a ceremony is valid once, before it expires, and for its own purpose', async t => {
    const { id } = await person()
    const digest = digestOf('a')
    await store.begin(digest, null, NOW + 1000)
    t.equal(await store.take(digest, id, NOW), false, 'begun for signing in, and not for adding')
    t.equal(await store.take(digestOf('b'), null, NOW), false)
    t.equal(await store.take(digest, null, NOW + 1000), false, 'over')
    const taken = await Promise.all([1, 2, 3, 4].map(() => store.take(digest, null, NOW)))
    t.same(taken.toSorted(), [false, false, false, true], 'of many concurrent ones one')
    await store.begin(digest, id, NOW + 1000)
    t.equal(await store.take(digest, null, NOW), false, 'begun for adding, and not for signing in')
    t.equal(await store.take(digest, (await person()).id, NOW), false, "another person's")
    t.equal(await store.take(digest, id, NOW), true)
    await store.begin(digest, null, NOW)
    await people.purge(NOW + 1)
    t.same(await sql`select 1 from passkey_ceremonies`, [])
  })

  await t.test('a credential is of one person, who alone can remove it', async t => {
    const [mine, other] = [await person(), await person()]
    const passkey = passkeyOf(mine.id)
    t.equal(await insert(passkey), true)
    t.equal(await insert(passkeyOf(other.id, { credentialId: passkey.credentialId })), false)
    t.match(await store.find(passkey.credentialId), { id: passkey.id, email: mine.email, publicKey: passkey.publicKey })
    t.not(await store.handleOf(mine.id), await store.handleOf(other.id))
    t.equal(await store.remove(other.id, passkey.id), false)
  })

  await t.test('a counter only goes up, save for authenticators that do not count', async t => {
    const { id: personId } = await person()
    const [counting, not] = [passkeyOf(personId, { counter: 5 }), passkeyOf(personId)]
    await insert(counting)
    await insert(not)
    t.equal(await use(counting.id, 5), false, 'a copy has counted as far')
    t.equal(await use(counting.id, 4), false)
    t.equal(await use(counting.id, 0), false, 'one that counted does not stop')
    t.equal(await use(counting.id, 4_000_000_000), true)
    t.match(await store.find(counting.credentialId), { counter: 4_000_000_000, isSynced: true, usedAt: NOW })
    t.equal(await use(not.id, 0), true)
    t.equal(await use(not.id, 0), true)
    t.equal(await use(not.id, 1), true)
    t.equal(await use('nothing', 9), false)
  })
})

tap.test('passkeys: what a frame made, or what came with a certificate, is refused unread', async t => {
  const made = async (attestation: string, clientData = {}) =>
    await verifyCreation(
      {
        id: 'a',
        rawId: 'a',
        type: 'public-key',
        clientExtensionResults: {},
        response: {
          clientDataJSON: Buffer.from(JSON.stringify(clientData)).toString('base64url'),
          attestationObject: Buffer.from(attestation, 'hex').toString('base64url')
        }
      },
      { challenge: 'c', origin: 'https://gate.example.com', rpId: 'gate.example.com' }
    )
  // CBOR: { fmt, attStmt, authData: h'' }.
  const attestation = (format: string, statement: string) =>
    `a363666d74${(0x60 + format.length).toString(16)}${Buffer.from(format).toString('hex')}6761747453746d74${statement}68617574684461746140`
  const certified = { message: /attestation certificate/ }
  await t.rejects(made(attestation('packed', 'a163783563814100')), certified)
  await t.rejects(made(attestation('tpm', 'a0')), certified)
  for (const plain of [attestation('none', 'a0'), attestation('packed', 'a0')]) {
    await t.rejects(made(plain), { message: 'the response is no proof' })
    await t.rejects(made(plain, { crossOrigin: true }), { message: /frame of another site/ })
  }
})
