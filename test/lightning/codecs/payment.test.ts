import * as fc from 'fast-check'
import t from 'tap'
import { decodeInvoice, type InvoiceNetwork } from '../../../src/lightning/codecs/bolt11.ts'
import { canonicalize } from '../../../src/lightning/payment-scheme/jcs.ts'
import {
  checkRealm,
  encodeRequest,
  matchPaymentId,
  MAX_REALM_CHARS,
  paymentChallenge,
  PaymentChallengeError,
  paymentId,
  paymentNetwork,
  type PaymentChallengeTerms,
  type PaymentIdSlots
} from '../../../src/lightning/payment-scheme/payment-challenge.ts'
import {
  encodePaymentToken,
  parsePaymentObject,
  parsePaymentToken,
  decodeReceipt,
  encodeReceipt
} from '../../../src/lightning/payment-scheme/payment-credential.ts'
import { paymentProblem } from '../../../src/lightning/payment-scheme/payment-problem.ts'
import { isHex32, paymentHashOf, preimageMatches } from '../../../src/lightning/codecs/hmac.ts'
import { TokenKeyRing } from '../../../src/lightning/l402/root-key.ts'
import { newInvoice } from '../../support/invoices.ts'

const KEY = Buffer.from('mpp-gateway-test-secret-0123456789abcdef')
const PREIMAGE = 'ab'.repeat(32)
const HASH = paymentHashOf(PREIMAGE)
const DIGEST = 'sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:'
const RING = new TokenKeyRing(Buffer.alloc(32, 2), [Buffer.alloc(32, 1)])

function invoiceOf(amountMsat: bigint | null, network: InvoiceNetwork = 'regtest') {
  const { invoice } = newInvoice({ at: 1_800_000_000_000, network, amountMsat, paymentHash: HASH })
  return decodeInvoice(invoice, { signature: 'none' })
}

const TERMS: PaymentChallengeTerms = {
  realm: 'api.example.com',
  invoice: invoiceOf(100_000n),
  amountSats: 100,
  expiresAt: 1_800_000_300,
  digest: null
}

const parameters = (header: string) =>
  Object.fromEntries([...header.matchAll(/([a-z]+)="([^"]*)"/g)].map(match => [match[1] ?? '', match[2] ?? '']))

t.test('the request parameter is the canonical JSON of its members, whatever they hold', async t => {
  fc.assert(
    fc.property(fc.string(), fc.string(), fc.string(), fc.string(), (amount, invoice, network, paymentHash) => {
      const json = canonicalize({ methodDetails: { paymentHash, network, invoice }, currency: 'sat', amount })
      t.equal(encodeRequest(amount, invoice, network, paymentHash), Buffer.from(json).toString('base64url'))
    }),
    { numRuns: 100 }
  )
})

t.test('the id vectors, without and with a digest and a header', async t => {
  const request = encodeRequest(
    '100',
    'lnbc1u1example',
    'mainnet',
    '66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925'
  )
  t.equal(
    Buffer.from(request, 'base64url').toString(),
    '{"amount":"100","currency":"sat","methodDetails":{"invoice":"lnbc1u1example","network":"mainnet","paymentHash":"66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925"}}'
  )
  const slots: PaymentIdSlots = {
    realm: 'api.example.com',
    method: 'lightning',
    intent: 'charge',
    request,
    expires: '2027-01-15T12:05:00Z',
    digest: null,
    opaque: null
  }
  t.equal(paymentId(slots, KEY), 'xrU3hGW_WODGvesh6DW8WVHYSCuryUNSqCXFjeP3Wh8')
  t.equal(paymentId({ ...slots, digest: DIGEST }, KEY), '35f5r6X6GShCRYOMY1M7ucZNNbRtTRrEMNp_NWhx9bU')
  // draft-httpauth-payment-01: `header` is an eighth slot where it is present, so that other ids stay as they were.
  const header = 'Payment-Authorization'
  t.equal(paymentId({ ...slots, header }, KEY), 'LuhYUVSSuV8b9dDVfYooSWsVTepj_ZBEUMZWHzqmoIg')
  t.equal(paymentId({ ...slots, digest: DIGEST, header }, KEY), 'GWqExqbp7BOgjhvNaixx8-yg5UliXYu9VYG7OZ9lpRQ')
})

t.test('the challenge has its parameters in order, each quoted, none twice', async t => {
  const plain = paymentChallenge(TERMS, KEY)
  t.match(
    plain.header,
    /^Payment id="[\w-]{43}", realm="api\.example\.com", method="lightning", intent="charge", request="[\w-]+", expires="2027-01-15T08:05:00Z", invoice="lnbcrt1u1[a-z0-9]+", amount="100", currency="sat"$/
  )
  const bound = paymentChallenge({ ...TERMS, digest: DIGEST }, KEY)
  t.same(Object.keys(parameters(bound.header)), [
    'id',
    'realm',
    'method',
    'intent',
    'request',
    'expires',
    'digest',
    'invoice',
    'amount',
    'currency'
  ])
  t.not(bound.id, plain.id)
  t.equal(parameters(bound.header).digest, DIGEST)
  t.same(JSON.parse(Buffer.from(plain.request, 'base64url').toString()), {
    amount: '100',
    currency: 'sat',
    methodDetails: { invoice: TERMS.invoice.text, network: 'regtest', paymentHash: HASH }
  })
})

t.test('a challenge never outlives its invoice', async t => {
  t.equal(paymentChallenge({ ...TERMS, expiresAt: 1_900_000_000 }, KEY).expires, '2027-01-15T08:10:00Z')
  t.equal(paymentChallenge({ ...TERMS, expiresAt: 1_800_000_300.9 }, KEY).expires, '2027-01-15T08:05:00Z')
})

t.test('a challenge that does not fit its invoice is not made', async t => {
  const bad: Record<string, Partial<PaymentChallengeTerms>> = {
    'other amount': { amountSats: 101 },
    'millisatoshis more': { invoice: invoiceOf(100_001n) },
    'no amount': { invoice: invoiceOf(null) },
    zero: { amountSats: 0, invoice: invoiceOf(null) },
    testnet: { invoice: invoiceOf(100_000n, 'testnet') },
    realm: { realm: 'a"b' },
    digest: { digest: 'sha-512=:AAAA:' }
  }
  for (const [what, terms] of Object.entries(bad))
    t.throws(() => paymentChallenge({ ...TERMS, ...terms }, KEY), PaymentChallengeError, what)
  t.ok(paymentChallenge({ ...TERMS, amountSats: 1, invoice: invoiceOf(1_000n) }, KEY), 'the least')
  t.same((['mainnet', 'testnet', 'signet', 'regtest'] as const).map(paymentNetwork), [
    'mainnet',
    null,
    'signet',
    'regtest'
  ])
})

t.test('a realm that would break a slot or a header is refused with its place', async t => {
  for (const good of ['boltgate.local', 'api.example.com:8443', 'My API']) t.equal(checkRealm(good), null, good)
  for (const bad of ['', 'a|b', 'a"b', 'a\\b', 'a,b', 'a\nb', 'é', 'a\x7f', 'x'.repeat(MAX_REALM_CHARS + 1)])
    t.type(checkRealm(bad), 'string', JSON.stringify(bad))
  t.match(checkRealm('ab,c'), 'character 3')
})

t.test('an echoed challenge verifies under every live generation, and no edit does', async t => {
  const [current, previous] = RING.paymentIdKeys
  for (const { generation, key } of [current, previous ?? current]) {
    const made = paymentChallenge({ ...TERMS, digest: DIGEST }, key)
    const parsed = parsePaymentToken(encodePaymentToken(parameters(made.header), PREIMAGE))
    if (!parsed.ok) throw new Error(parsed.detail)
    const echo = parsed.credential
    t.equal(matchPaymentId(echo.id, echo, RING.paymentIdKeys), generation)
    for (const name of ['realm', 'method', 'intent', 'request', 'expires', 'digest', 'opaque'] as const) {
      t.equal(matchPaymentId(echo.id, { ...echo, [name]: `${echo[name] ?? ''}x` }, RING.paymentIdKeys), null, name)
    }
    for (const id of ['', 'x', `${echo.id}=`, echo.id.slice(1), `${echo.id}A`, echo.id.toLowerCase()])
      t.equal(matchPaymentId(id, echo, RING.paymentIdKeys), null, id)
    t.equal(matchPaymentId(echo.id, echo, new TokenKeyRing(Buffer.alloc(32, 9)).paymentIdKeys), null, 'another key')
  }
})

t.test('a client that echoes only the six parameters is read, its digest to be taken from the store', async t => {
  const { id, realm, method, intent, request, expires } = parameters(
    paymentChallenge({ ...TERMS, digest: DIGEST }, RING.paymentIdKeys[0].key).header
  )
  const parsed = parsePaymentToken(
    encodePaymentToken({ id, realm, method, intent, request, expires } as Record<string, string>, PREIMAGE)
  ) // all six are there, by the test above
  if (!parsed.ok) throw new Error(parsed.detail)
  const echo = parsed.credential
  t.equal(echo.digest, null)
  t.equal(matchPaymentId(echo.id, echo, RING.paymentIdKeys), null)
  t.ok(matchPaymentId(echo.id, { ...echo, digest: DIGEST }, RING.paymentIdKeys))
})

const challenge = (edit: object = {}) => ({ ...parameters(paymentChallenge(TERMS, KEY).header), ...edit })
const token = (value: unknown) =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')
const requestOf = (value: unknown) => token(value)
const REQUEST = {
  amount: '100',
  currency: 'sat',
  methodDetails: { invoice: 'lnbc1', network: 'regtest', paymentHash: HASH }
}

t.test('a modern token is read with padding, in any key order, with unknown fields', async t => {
  const base = Buffer.from(
    JSON.stringify({
      source: 'did:x',
      payload: { preimage: PREIMAGE, more: 1 },
      extra: [],
      challenge: { ...challenge(), colour: 'red', digest: null }
    })
  )
  for (const text of [base.toString('base64url'), base.toString('base64').replaceAll('+', '-').replaceAll('/', '_')]) {
    const parsed = parsePaymentToken(text)
    t.match(parsed, {
      ok: true,
      credential: {
        realm: 'api.example.com',
        preimage: PREIMAGE,
        expiresAt: 1_800_000_300,
        digest: null,
        charge: { amountSats: 100, network: 'regtest', paymentHash: HASH }
      }
    })
  }
})

t.test('a credential in a JSON-RPC message is that of a header, with its request as object or as text', async t => {
  const credential = { challenge: challenge(), payload: { preimage: PREIMAGE } }
  const parsed = parsePaymentToken(token(credential))
  t.same(parsePaymentObject(credential), parsed)
  const request: unknown = JSON.parse(Buffer.from(String(credential.challenge.request), 'base64url').toString())
  t.same(parsePaymentObject({ ...credential, challenge: challenge({ request }) }), parsed)
  for (const bad of [null, [], {}, { ...credential, challenge: challenge({ request: { amount: '\ud800' } }) }])
    t.match(parsePaymentObject(bad), { ok: false, slug: 'invalid-challenge' })
})

t.test('an undecodable challenge is invalid-challenge', async t => {
  const payload = { preimage: PREIMAGE }
  const bad: Record<string, string> = {
    'not base64url': 'a.b',
    empty: '',
    'not JSON': token('{'),
    'not UTF-8': Buffer.of(0x22, 0xff, 0x22).toString('base64url'),
    'not an object': token([1]),
    null: token(null),
    'no challenge': token({ payload }),
    'inherited challenge': token('{"__proto__":{"challenge":{}}}'),
    'no id': token({ challenge: challenge({ id: undefined }), payload }),
    'number as id': token({ challenge: challenge({ id: 1 }), payload }),
    'no realm': token({ challenge: challenge({ realm: '' }), payload }),
    'no method': token({ challenge: challenge({ method: null }), payload }),
    'no request': token({ challenge: challenge({ request: undefined }), payload }),
    'request as object': token({ challenge: challenge({ request: REQUEST }), payload }),
    'no expires': token({ challenge: challenge({ expires: undefined }), payload }),
    'expires in words': token({ challenge: challenge({ expires: 'tomorrow' }), payload }),
    'expires that is no date': token({ challenge: challenge({ expires: '2027-02-31T00:00:00Z' }), payload }),
    'digest as number': token({ challenge: challenge({ digest: 1 }), payload }),
    'request not JSON': token({ challenge: challenge({ request: token('x') }), payload }),
    'other currency': token({ challenge: challenge({ request: requestOf({ ...REQUEST, currency: 'usd' }) }), payload }),
    'amount as number': token({ challenge: challenge({ request: requestOf({ ...REQUEST, amount: 100 }) }), payload }),
    'amount zero': token({ challenge: challenge({ request: requestOf({ ...REQUEST, amount: '0' }) }), payload }),
    'no payment hash': token({
      challenge: challenge({ request: requestOf({ ...REQUEST, methodDetails: {} }) }),
      payload
    }),
    'bad payment hash': token({
      challenge: challenge({ request: requestOf({ ...REQUEST, methodDetails: { paymentHash: HASH.toUpperCase() } }) }),
      payload
    })
  }
  for (const [what, text] of Object.entries(bad))
    t.match(parsePaymentToken(text), { ok: false, slug: 'invalid-challenge' }, what)
})

t.test(
  'an echo of invoice, amount or currency that was edited is invalid-challenge; one that is left out, null or true is not',
  async t => {
    const payload = { preimage: PREIMAGE }
    const sent = challenge()
    for (const [name, edits] of Object.entries({
      invoice: ['lnbcrt1x', '', `${sent.invoice} `, `${sent.invoice}`.toUpperCase(), 1, {}, ['lnbc1']],
      amount: ['1', '0100', '100.0', '', 100, [100]],
      currency: ['usd', 'SAT', '', 0, false, {}]
    })) {
      for (const edit of edits) {
        t.match(
          parsePaymentToken(token({ challenge: challenge({ [name]: edit }), payload })),
          { ok: false, slug: 'invalid-challenge', detail: `The challenge's ${name} is not the one that was sent` },
          `${name}: ${JSON.stringify(edit)}`
        )
      }
      for (const kept of [undefined, null, sent[name]])
        t.equal(
          parsePaymentToken(token({ challenge: challenge({ [name]: kept }), payload })).ok,
          true,
          `${name}: ${kept}`
        )
    }
  }
)

t.test('another method or a bad preimage is verification-failed', async t => {
  const slug = { ok: false, slug: 'verification-failed' }
  t.match(parsePaymentToken(token({ challenge: challenge({ method: 'card' }), payload: { preimage: PREIMAGE } })), slug)
  t.match(
    parsePaymentToken(token({ challenge: challenge({ intent: 'session' }), payload: { preimage: PREIMAGE } })),
    slug
  )
  for (const payload of [
    undefined,
    null,
    {},
    { preimage: PREIMAGE.toUpperCase() },
    { preimage: `0x${PREIMAGE}` },
    { preimage: 1 }
  ]) {
    t.match(parsePaymentToken(token({ challenge: challenge(), payload })), slug, JSON.stringify(payload))
  }
})

t.test('no token makes the parser throw', async () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.json().map(token),
        fc.uint8Array().map(bytes => Buffer.from(bytes).toString('base64url'))
      ),
      text => {
        parsePaymentToken(text)
      }
    ),
    { numRuns: 800 }
  )
  const edit = fc.dictionary(
    fc.constantFrom('id', 'realm', 'method', 'request', 'expires', 'digest', 'opaque'),
    fc.jsonValue()
  )
  fc.assert(
    fc.property(edit, fc.jsonValue(), (fields, payload) => {
      parsePaymentToken(token({ challenge: challenge(fields), payload }))
    }),
    { numRuns: 300 }
  )
})

t.test('a receipt holds the five members in order, and no preimage', async t => {
  const text = encodeReceipt('id-1', HASH, 1_800_000_000)
  t.equal(
    Buffer.from(text, 'base64url').toString(),
    `{"challengeId":"id-1","method":"lightning","reference":"${HASH}","status":"success","timestamp":"2027-01-15T08:00:00Z"}`
  )
  t.match(decodeReceipt(text), { challengeId: 'id-1', reference: HASH })
  t.throws(() => encodeReceipt('id-1', 'short', 1), TypeError)
  for (const bad of ['', '?', token('x'), token([]), token(null)]) t.equal(decodeReceipt(bad), null, bad)
  const receipt = decodeReceipt(text)
  for (const name of Object.keys(receipt ?? {})) t.equal(decodeReceipt(token({ ...receipt, [name]: 1 })), null, name)
})

t.test('a problem has its type under that of the scheme', async t => {
  t.same(paymentProblem('verification-failed', 'Already redeemed', 'id-1'), {
    type: 'https://paymentauth.org/problems/verification-failed',
    title: 'Verification Failed',
    status: 402,
    detail: 'Already redeemed',
    challengeId: 'id-1'
  })
  t.equal(
    JSON.stringify(paymentProblem('payment-required', 'Pay')),
    '{"type":"https://paymentauth.org/problems/payment-required","title":"Payment Required","status":402,"detail":"Pay"}'
  )
})

t.test('a preimage matches its own payment hash only, in its one spelling', async t => {
  t.equal(paymentHashOf('00'.repeat(32)), '66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925')
  t.ok(preimageMatches(PREIMAGE, HASH))
  t.notOk(preimageMatches(PREIMAGE, '00'.repeat(32)))
  t.notOk(preimageMatches(PREIMAGE.toUpperCase(), HASH))
  t.notOk(preimageMatches(PREIMAGE, HASH.toUpperCase()))
  t.notOk(preimageMatches('', ''))
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary', minLength: 60, maxLength: 68 }),
      text => isHex32(text) === /^[0-9a-f]{64}$/.test(text)
    )
  )
  fc.assert(
    fc.property(
      fc.stringMatching(/^[0-9a-gA-F:@`/]{63,65}$/),
      text => isHex32(text) === /^[0-9a-f]{64}$/.test(text) && !text.includes('\n')
    )
  )
})
