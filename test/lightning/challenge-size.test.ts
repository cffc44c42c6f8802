import t from 'tap'
import { encodeInvoice, shortDescription } from '../../src/lightning/bolt11.ts'
import { issueCaveats } from '../../src/lightning/caveats.ts'
import { challengeBytes, descriptionRoom, MAX_CHALLENGE_BYTES } from '../../src/lightning/challenge-size.ts'
import { readAuthorization } from '../../src/lightning/credential.ts'
import { l402Challenge } from '../../src/lightning/l402-header.ts'
import { decodeMacaroonBase64, encodeIdentifier, macaroonToBase64, mintMacaroon } from '../../src/lightning/macaroon.ts'
import { MAX_REALM_CHARS, paymentChallenge } from '../../src/lightning/payment-challenge.ts'

// A provider's invoice without its description, with two routing hints.
const BARE_INVOICE = 450
const LONGEST_PATH = 1600
const HASH = 'ab'.repeat(32)
const DIGEST = `sha-256=:${'A'.repeat(43)}=:`

// Everything as large as it may be: the ids and names are the longest that the schemas allow.
function lines(path: string, invoiceChars: number): string[] {
  const invoice = 'lnbcrt10000000'.padEnd(invoiceChars, 'q')
  const caveats = issueCaveats({
    service: `${'s'.repeat(64)}:0`,
    path,
    wildcard: true,
    merchantId: '9'.repeat(16),
    chargeId: HASH,
    amountSats: 1_000_000_000,
    expires: 9_999_999_999
  })
  const macaroon = mintMacaroon(Buffer.alloc(32), 'l'.repeat(32), encodeIdentifier(HASH, Buffer.alloc(32)), caveats)
  const payment = paymentChallenge(
    {
      realm: 'r'.repeat(MAX_REALM_CHARS),
      amountSats: 1_000_000_000,
      expiresAt: 1_800_000_000,
      digest: DIGEST,
      invoice: {
        text: invoice,
        network: 'mainnet',
        amountMsat: 1_000_000_000_000n,
        paymentHash: HASH,
        expiresAt: 1_800_000_000
      }
    },
    Buffer.alloc(32)
  )
  return [l402Challenge(macaroonToBase64(macaroon), invoice), payment.header]
}

t.test('whatever the path has, its description leaves both challenge lines under 8 KB together', async t => {
  for (const length of [1, 100, 500, 800, 1024, 1200, LONGEST_PATH]) {
    const room = descriptionRoom(length)
    const size = challengeBytes(lines('/'.padEnd(length, 'p'), BARE_INVOICE + Math.ceil(room * 1.6)))
    t.ok(size <= MAX_CHALLENGE_BYTES, `a path of ${length} with ${room} bytes of description: ${size} bytes`)
    if (room < 500) t.ok(size > MAX_CHALLENGE_BYTES * 0.97, `${size}: the room is not needlessly small`)
  }
  t.equal(descriptionRoom(1), 500)
  t.ok(descriptionRoom(LONGEST_PATH) >= 90)
  t.equal(descriptionRoom(2000), 0, 'never less than nothing')
})

t.test('an invoice of ours with a description of its room stays within its share', async t => {
  const text = encodeInvoice(
    {
      network: 'regtest',
      amountMsat: 1_000_000_000_001n,
      paymentHash: HASH,
      paymentSecret: HASH,
      timestamp: 1_800_000_000,
      expirySeconds: 86_400,
      minFinalCltvExpiry: 144,
      description: shortDescription('d'.repeat(500), descriptionRoom(LONGEST_PATH))
    },
    Buffer.alloc(32, 1)
  )
  // A routing hint of one hop takes 85 characters; a provider's invoice may have two.
  t.ok(
    text.length + 2 * 85 <= BARE_INVOICE + Math.ceil(descriptionRoom(LONGEST_PATH) * 1.6),
    `${text.length} characters`
  )
})

t.test('the credential for the longest path is accepted', async t => {
  const macaroon = /macaroon="([^"]*)"/.exec(lines('/'.padEnd(LONGEST_PATH, 'p'), 600)[0] ?? '')?.[1] ?? ''
  const credential = readAuthorization(`L402 ${macaroon}:${HASH}`)
  t.match(credential, { kind: 'classic', macaroon })
  t.equal(decodeMacaroonBase64(macaroon).caveats.length, 6)
})
