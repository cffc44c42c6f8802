import t from 'tap'
import { encodeInvoice, shortDescription } from '../../../src/lightning/codecs/bolt11-encode.ts'
import { issueCaveats } from '../../../src/lightning/l402/caveats.ts'
import {
  challengeBytes,
  descriptionRoom,
  largeHead,
  MAX_CHALLENGE_BYTES
} from '../../../src/lightning/codecs/challenge-size.ts'
import { readAuthorization } from '../../../src/lightning/codecs/credential.ts'
import { l402Challenge } from '../../../src/lightning/l402/l402-header.ts'
import {
  decodeMacaroonBase64,
  encodeIdentifier,
  macaroonToBase64,
  mintMacaroon
} from '../../../src/lightning/l402/macaroon.ts'
import { EMPTY_BODY_HASH, exactRequired, httpBinding, x402Header } from '../../../src/lightning/codecs/x402.ts'
import { MAX_REALM_CHARS, paymentChallenge } from '../../../src/lightning/payment-scheme/payment-challenge.ts'

// A provider's invoice without its description, with two routing hints.
const BARE_INVOICE = 450
const LONGEST_PATH = 1600
const HASH = 'ab'.repeat(32)
/** All other lines of a 402, as a gateway sends them to a client that is no browser. */
const OTHERS = `HTTP/1.1 402 Payment Required
Content-Type: application/json; charset=utf-8
Cache-Control: no-store
Content-Length: 1002
X-Correlation-Id: ad542e93-bcee-4ea4-8106-fdc6e15d2d47
X-API-Version: 1.0.0
Date: Fri, 27 Nov 2026 13:15:34 GMT
Connection: keep-alive

`
/** For a page of another origin. */
const CORS = `Access-Control-Allow-Origin: *
Access-Control-Expose-Headers: WWW-Authenticate, PAYMENT-REQUIRED, X-Correlation-Id, X-API-Version
`
const DIGEST = `sha-256=:${'A'.repeat(43)}=:`

// The longest ids and names that the schemas allow.
const LARGEST = {
  service: `${'s'.repeat(64)}:0`,
  realm: 'r'.repeat(MAX_REALM_CHARS),
  location: 'l'.repeat(32),
  merchantId: '9'.repeat(16),
  amountSats: 1_000_000_000
}

function lines(path: string, invoiceChars: number, terms: Partial<typeof LARGEST> = {}) {
  const { service, realm, location, merchantId, amountSats } = { ...LARGEST, ...terms }
  const invoice = 'lnbcrt10000000'.padEnd(invoiceChars, 'q')
  const caveats = issueCaveats({
    service,
    path,
    wildcard: true,
    merchantId,
    chargeId: HASH,
    amountSats,
    expires: 9_999_999_999
  })
  const macaroon = mintMacaroon(Buffer.alloc(32), location, encodeIdentifier(HASH, Buffer.alloc(32)), caveats)
  const payment = paymentChallenge(
    {
      realm,
      amountSats,
      expiresAt: 1_800_000_000,
      digest: DIGEST,
      invoice: {
        text: invoice,
        network: 'mainnet',
        amountMsat: BigInt(amountSats) * 1000n,
        paymentHash: HASH,
        expiresAt: 1_800_000_000
      }
    },
    Buffer.alloc(32)
  )
  return [l402Challenge(macaroonToBase64(macaroon), invoice), payment.header]
}

t.test('challenge size: both challenge lines stay below 8 KB for the longest path', async t => {
  for (const length of [1, 100, 500, 800, 1024, 1200, LONGEST_PATH]) {
    const room = descriptionRoom(length)
    const size = challengeBytes(lines('/'.padEnd(length, 'p'), BARE_INVOICE + Math.ceil(room * 1.6)))
    t.ok(size <= MAX_CHALLENGE_BYTES, `a path of ${length} with ${room} bytes of description: ${size} bytes`)
  }
  t.equal(descriptionRoom(1), 72)
  t.equal(descriptionRoom(LONGEST_PATH), 72, 'no path that can be sold cuts the description of an invoice made ahead')
  t.equal(descriptionRoom(2000), 0, 'never less than nothing')
})

t.test('challenge size: a 402 for a usual path stays below 4 KB with three routing hints', async t => {
  const usual = {
    service: 'boltgate:0',
    realm: 'api.example.com',
    location: 'l402',
    merchantId: '1234',
    amountSats: 1000
  }
  const invoice = BARE_INVOICE + 85 + Math.ceil(descriptionRoom(40) * 1.6)
  const values = lines('/l402/proxy/my-api-1a2b3c4d/v1/forecasts', invoice, usual)
  t.ok(challengeBytes(values) + 450 < 4096, `${challengeBytes(values)} bytes`)
  const headers = values.flatMap(value => ['WWW-Authenticate', value])
  t.ok((largeHead(headers) ?? 0) > 3584, 'operators are warned before it is too large')
  t.equal(largeHead(headers.slice(0, 2)), null)
})

t.test('challenge size: with two routing hints, two schemes stay below 4 KB and three below 4,900 bytes', async t => {
  const usual = {
    service: 'boltgate:0',
    realm: 'api.example.com',
    location: 'l402',
    merchantId: '1234',
    amountSats: 1000
  }
  const path = '/l402/proxy/my-api-1a2b3c4d/v1/forecasts'
  const hashed = BARE_INVOICE + 55
  const two = challengeBytes(lines(path, hashed, usual))
  t.ok(two + 450 < 4096, `${two + 450} bytes`)
  const invoice = encodeInvoice(
    {
      network: 'regtest',
      amountMsat: 1_000_000n,
      paymentHash: HASH,
      paymentSecret: HASH,
      timestamp: 1_700_000_000,
      expirySeconds: 600,
      description: '',
      descriptionHash: HASH
    },
    Buffer.alloc(32, 1)
  )
  const url = `https://api.example.com${path}`
  const binding = httpBinding({
    method: 'POST',
    url,
    bodyHash: EMPTY_BODY_HASH,
    headers: [['content-type', 'application/json']]
  })
  const header = x402Header(exactRequired(invoice, binding, null))
  // The hints that the invoice lacks are in it once, in base64.
  const others = OTHERS.replaceAll('\n', '\r\n').length
  const three =
    two + others + 'PAYMENT-REQUIRED: \r\n'.length + header.length + Math.ceil(((hashed - invoice.length) * 4) / 3)
  t.ok(three < 4900, `${three} bytes`)
  t.ok(three + CORS.length < 5120, `${three + CORS.length} bytes for a browser`)
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
