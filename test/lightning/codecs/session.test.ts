import * as fc from 'fast-check'
import t from 'tap'
import { sessionPlace } from '../../../src/selling/offers/accept-payment.ts'
import { decodeBech32, encodeBech32 } from '../../../src/lightning/codecs/bech32.ts'
import { decodeInvoice, InvoiceError, type InvoiceNetwork } from '../../../src/lightning/codecs/bolt11.ts'
import { canonicalize } from '../../../src/lightning/payment-scheme/jcs.ts'
import { matchPaymentId, PaymentChallengeError } from '../../../src/lightning/payment-scheme/payment-challenge.ts'
import { encodePaymentToken, parsePaymentToken } from '../../../src/lightning/payment-scheme/payment-credential.ts'
import { paymentHashOf } from '../../../src/lightning/codecs/hmac.ts'
import { TokenKeyRing } from '../../../src/lightning/l402/root-key.ts'
import {
  depositSats,
  encodeSessionRequest,
  sessionChallenge,
  type SessionChallengeTerms,
  closedBody,
  encodeSessionReceipt,
  receiptEvent,
  shortageEvent,
  TOPPED_UP
} from '../../../src/lightning/payment-scheme/session-challenge.ts'
import { checkReturnInvoice, parseSessionToken } from '../../../src/lightning/payment-scheme/session-credential.ts'
import { newInvoice } from '../../support/invoices.ts'

const PREIMAGE = 'ab'.repeat(32)
const HASH = paymentHashOf(PREIMAGE)
const NOW = 1_800_000_000
const RING = new TokenKeyRing(Buffer.alloc(32, 2), [Buffer.alloc(32, 1)])
const KEY = RING.paymentIdKeys[0].key

function invoiceText(amountMsat: bigint | null, network: InvoiceNetwork = 'regtest') {
  return newInvoice({ at: NOW * 1000, network, amountMsat, paymentHash: HASH }).invoice
}

const TERMS: SessionChallengeTerms = {
  realm: 'api.example.com',
  invoice: decodeInvoice(invoiceText(500_000n)),
  unitSats: 2,
  unitType: 'token',
  idleSeconds: 300,
  description: null,
  expiresAt: NOW + 300
}

const parameters = (header: string) =>
  Object.fromEntries([...header.matchAll(/([a-z]+)="([^"]*)"/g)].map(match => [match[1] ?? '', match[2] ?? '']))
const wire = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const json = (base64url: string) => JSON.parse(Buffer.from(base64url, 'base64url').toString())

t.test("the challenge has the draft's parameters in order, and its request the eight members", async t => {
  const { header, request, expires } = sessionChallenge({ ...TERMS, description: 'Tokens & more' }, KEY)
  t.match(
    header,
    /^Payment id="[\w-]{43}", realm="api\.example\.com", method="lightning", intent="session", request="[\w-]+", expires="2027-01-15T08:05:00Z"$/
  )
  t.equal(expires, '2027-01-15T08:05:00Z')
  t.same(json(request), {
    amount: '2',
    currency: 'sat',
    depositAmount: '500',
    depositInvoice: TERMS.invoice.text,
    description: 'Tokens & more',
    idleTimeout: '300',
    paymentHash: HASH,
    unitType: 'token'
  })
  t.equal(sessionChallenge({ ...TERMS, expiresAt: NOW + 9_999 }, KEY).expires, '2027-01-15T08:10:00Z', 'of the invoice')
})

t.test("the request is canonical JSON, which the vector of Aperture's own tests shows", async t => {
  const request = encodeSessionRequest(
    { unitSats: 3, unitType: 'token', idleSeconds: 900, description: null },
    { invoice: 'lnbc500n1p', sats: 5000, paymentHash: 'aa11bb22' }
  )
  t.equal(
    Buffer.from(request, 'base64url').toString(),
    '{"amount":"3","currency":"sat","depositAmount":"5000","depositInvoice":"lnbc500n1p","idleTimeout":"900","paymentHash":"aa11bb22","unitType":"token"}'
  )
  fc.assert(
    fc.property(fc.string(), fc.string(), (unitType, description) => {
      const made = sessionChallenge({ ...TERMS, unitType, description }, KEY).request
      const said = Buffer.from(made, 'base64url').toString()
      // A client parses it and writes it again before it echoes it.
      t.equal(canonicalize(JSON.parse(said) as Record<string, string>), said) // All its members are texts.
    }),
    { numRuns: 100 }
  )
})

t.test('a deposit is what is configured, else twenty units, and never less than a unit', async t => {
  t.equal(depositSats(2, 500), 500)
  t.equal(depositSats(2, null), 40)
  t.equal(depositSats(600, 500), 600)
})

t.test('a challenge that does not fit its invoice is not made', async t => {
  const bad: Record<string, Partial<SessionChallengeTerms>> = {
    'a deposit below a unit': { unitSats: 501 },
    'a unit for nothing': { unitSats: 0 },
    'part of a satoshi': { unitSats: 1.5 },
    'no idle timeout': { idleSeconds: 0 },
    'no amount': { invoice: decodeInvoice(invoiceText(null)) },
    'millisatoshis more': { invoice: decodeInvoice(invoiceText(500_001n)) },
    testnet: { invoice: decodeInvoice(invoiceText(500_000n, 'testnet')) },
    realm: { realm: 'a|b' }
  }
  for (const [what, terms] of Object.entries(bad))
    t.throws(() => sessionChallenge({ ...TERMS, ...terms }, KEY), PaymentChallengeError, what)
  t.ok(sessionChallenge({ ...TERMS, unitSats: 1, invoice: decodeInvoice(invoiceText(1_000n)) }, KEY), 'the least')
})

const CHALLENGE = parameters(sessionChallenge(TERMS, KEY).header)
const token = (payload: unknown, edit: object = {}) => wire({ challenge: { ...CHALLENGE, ...edit }, payload })
const OPEN = { action: 'open', preimage: PREIMAGE, returnInvoice: 'lnbcrt1p5abc' }

t.test('each action is read, with unknown members and with what the draft lets a client leave out', async t => {
  const bare = { expires: undefined, request: wire({ amount: '2', currency: 'sat', paymentHash: HASH }) }
  for (const [payload, edit] of [
    [OPEN, {}],
    [{ action: 'bearer', sessionId: HASH, preimage: PREIMAGE }, bare],
    [{ action: 'bearer', sessionId: HASH, preimage: PREIMAGE }, {}],
    [{ action: 'topUp', sessionId: HASH, topUpPreimage: PREIMAGE }, { expires: undefined }],
    [{ action: 'close', sessionId: HASH, preimage: PREIMAGE, returnInvoice: null }, bare],
    [{ action: 'close', sessionId: HASH, preimage: PREIMAGE, returnInvoice: 'lnbcrt1p5abc' }, bare]
  ] as const) {
    const sent = Object.fromEntries(Object.entries(payload).filter(([, value]) => value !== null))
    const parsed = parseSessionToken(`${token({ ...sent, more: [] }, edit)}`)
    if (parsed === null || !parsed.ok) throw new Error(JSON.stringify(parsed))
    t.same(parsed.credential.payload, payload)
    t.equal(parsed.credential.request.paymentHash, HASH)
    t.equal(parsed.credential.request.unitSats, 2)
    t.equal(parsed.credential.expiresAt, 'expires' in edit ? null : NOW + 300)
  }
})

t.test('an echoed challenge verifies under a live key, and no edit does', async t => {
  const parsed = parseSessionToken(token(OPEN))
  if (parsed === null || !parsed.ok) throw new Error(JSON.stringify(parsed))
  const { echo } = parsed.credential
  const slots = { ...echo, expires: echo.expires ?? '' }
  t.ok(matchPaymentId(echo.id, slots, RING.paymentIdKeys))
  for (const name of ['realm', 'method', 'intent', 'request', 'expires', 'digest', 'opaque'] as const)
    t.equal(matchPaymentId(echo.id, { ...slots, [name]: `${slots[name] ?? ''}x` }, RING.paymentIdKeys), null, name)
})

t.test('a charge, and what cannot be decoded, is no session, and a session is never a charge', async t => {
  for (const text of [
    '',
    '!',
    'AAAA',
    wire([]),
    wire({}),
    encodePaymentToken({ ...CHALLENGE, intent: 'charge' }, PREIMAGE)
  ])
    t.equal(parseSessionToken(text), null, text.slice(0, 20))
  t.equal(parseSessionToken(token(OPEN, { method: 'tempo' })), null)
  t.match(parsePaymentToken(token(OPEN)), { ok: false, slug: 'verification-failed' })
})

t.test('an invalid credential is reported with its fault', async t => {
  const request = (edit: object) => ({ request: wire({ amount: '2', currency: 'sat', paymentHash: HASH, ...edit }) })
  const bearer = { action: 'bearer', sessionId: HASH, preimage: PREIMAGE }
  const cases: Array<[what: RegExp, payload: unknown, edit?: object]> = [
    [/no id/, bearer, { id: '' }],
    [/no realm/, bearer, { realm: 1 }],
    [/no request/, bearer, { request: undefined }],
    [/expires/, bearer, { expires: 'tomorrow' }],
    [/digest or opaque/, bearer, { digest: 1 }],
    [/base64url of a JSON object/, bearer, { request: 'AAAA' }],
    [/currency/, bearer, request({ currency: 'usd' })],
    [/amount must/, bearer, request({ amount: '0' })],
    [/amount must/, bearer, request({ amount: 2 })],
    [/payment hash/, bearer, request({ paymentHash: HASH.toUpperCase() })],
    [/depositInvoice must/, bearer, request({ depositInvoice: 5 })],
    [/depositAmount must/, bearer, request({ depositAmount: '-5' })],
    [/depositAmount must/, bearer, request({ depositAmount: {} })],
    [/must have its depositInvoice/, OPEN, request({})],
    [/must have its depositInvoice/, { action: 'topUp', sessionId: HASH, topUpPreimage: PREIMAGE }, request({})],
    [/action must/, {}],
    [/action must/, undefined],
    [/action must/, { ...bearer, action: 'Bearer' }],
    [/preimage/, { ...OPEN, preimage: PREIMAGE.toUpperCase() }],
    [/no returnInvoice/, { ...OPEN, returnInvoice: 5 }],
    [/sessionId/, { ...bearer, sessionId: undefined }],
    [/preimage/, { ...bearer, preimage: null }],
    [/sessionId/, { ...bearer, action: 'close', sessionId: 'x' }],
    [/sessionId/, { action: 'topUp', topUpPreimage: PREIMAGE }],
    [/topUpPreimage/, { action: 'topUp', sessionId: HASH, preimage: PREIMAGE }]
  ]
  for (const [detail, payload, edit] of cases)
    t.match(
      parseSessionToken(token(payload, edit)),
      { ok: false, slug: 'lightning/malformed-credential', detail },
      String(detail)
    )
})

t.test('no bytes make the reader throw', async () => {
  fc.assert(
    fc.property(fc.json(), fc.json(), (challenge, payload) => {
      parseSessionToken(wire({ challenge: JSON.parse(challenge) as unknown, payload: JSON.parse(payload) as unknown }))
      parseSessionToken(token(JSON.parse(payload)))
      parseSessionToken(token(OPEN, { request: wire(JSON.parse(challenge)) }))
    }),
    { numRuns: 200 }
  )
})

t.test('a return invoice is BOLT 11 of the same network, with no amount or zero, and unexpired', async t => {
  const open = invoiceText(null)
  t.equal(checkReturnInvoice(open, 'regtest', NOW), null)
  t.equal(checkReturnInvoice(open.toUpperCase(), 'regtest', NOW), null)
  const zero = encodeBech32('lnbcrt0', [...decodeBech32(open).words])
  t.equal(decodeInvoice(zero, { zeroAmount: true }).amountMsat, null)
  t.throws(() => decodeInvoice(zero), InvoiceError, 'nowhere else')
  t.equal(checkReturnInvoice(zero, 'regtest', NOW), null)
  t.match(checkReturnInvoice(open, 'mainnet', NOW), 'is of regtest')
  t.match(checkReturnInvoice(invoiceText(1000n), 'regtest', NOW), 'must have no amount')
  t.match(checkReturnInvoice(invoiceText(1n), 'regtest', NOW), 'must have no amount')
  t.match(checkReturnInvoice(open, 'regtest', NOW + 600), 'expired')
  t.match(checkReturnInvoice('lnbcrt1p5abc', 'regtest', NOW), 'not BOLT 11')
  t.match(checkReturnInvoice('alice@example.com', 'regtest', NOW), 'not BOLT 11')
})

t.test('receipts, bodies and events have the members of the draft', async t => {
  const at = Date.UTC(2026, 2, 10, 21) / 1000
  const receipt = { method: 'lightning', reference: HASH, status: 'success', timestamp: '2026-03-10T21:00:00Z' }
  t.same(json(encodeSessionReceipt(HASH, at)), receipt)
  const refund = { refundSats: 140, refundStatus: 'succeeded' } as const
  const closed = encodeSessionReceipt(HASH, at, refund)
  t.same(json(closed), { ...receipt, ...refund })
  t.equal(Buffer.from(closed, 'base64url').toString(), canonicalize({ ...receipt, ...refund }))
  t.same(closedBody(refund), { status: 'closed', refundSats: 140, refundStatus: 'succeeded' })
  t.same(TOPPED_UP, { status: 'ok' })
  t.same(shortageEvent('payment-need-topup', { sessionId: HASH, balanceSpent: 300, balanceRequired: 2 }), {
    event: 'payment-need-topup',
    data: `{"sessionId":"${HASH}","balanceSpent":300,"balanceRequired":2}`
  })
  t.same(receiptEvent(HASH, at, 202, 101), {
    event: 'payment-receipt',
    data: `{"method":"lightning","reference":"${HASH}","status":"success","timestamp":"2026-03-10T21:00:00Z","spent":202,"units":101}`
  })
  t.throws(() => encodeSessionReceipt(PREIMAGE.slice(1), at), TypeError)
})

t.test('Accept-Payment puts a session first, or nowhere, only where it names it', async t => {
  const cases: Array<[string | null, ReturnType<typeof sessionPlace>]> = [
    [null, 'after'],
    ['', 'after'],
    ['lightning/charge', 'after'],
    ['lightning/*', 'after'],
    ['lightning/session', 'first'],
    ['Lightning/Session', 'first'],
    ['lightning/session, lightning/charge', 'after'],
    ['lightning/session, lightning/charge;q=0.5', 'first'],
    ['lightning/session;q=0.5, lightning/charge', 'after'],
    ['lightning/session;q=0.5, lightning/*;q=0.1', 'first'],
    ['lightning/session;q=0.5, lightning/charge;q=0', 'first'],
    ['lightning/*;q=0', 'nowhere'],
    ['lightning/session;q=0, */*', 'nowhere'],
    ['lightning/session;q=2', 'after'],
    ['lightning', 'after']
  ]
  for (const [value, expected] of cases) t.equal(sessionPlace(value), expected, String(value))
})
