import * as fc from 'fast-check'
import t from 'tap'
import { soleAuthorization } from '../../../src/selling/verifying/token-cache.ts'
import { authorizationFault } from '../../../src/engine/listener/front-door.ts'
import { readCredential } from '../../../src/lightning/codecs/credential.ts'
import { addCaveat, encodeMacaroon, macaroonToBase64, mintMacaroon } from '../../../src/lightning/l402/macaroon.ts'
import { encodePaymentToken } from '../../../src/lightning/payment-scheme/payment-credential.ts'
import {
  credentialField,
  hasPaymentCredential,
  mayCarryPreimage,
  paymentScheme
} from '../../../src/engine/message/payment-headers.ts'
import { requestHeaders } from '../../../src/engine/upstream/header-policy.ts'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { contextOf } from '../upstream/harness.ts'

const PREIMAGE = 'ab'.repeat(32)
const MACAROON = mintMacaroon(Buffer.alloc(32), 'l402', Buffer.alloc(66, 250), ['services=x:0'])
const HEX = Buffer.from(encodeMacaroon(addCaveat(MACAROON, `preimage=${PREIMAGE}`))).toString('hex')

/** What a header can hold in a place where white space may be, and what is none to some readers. */
const blanks = fc.string({ unit: fc.constantFrom(' ', '\t', '\xa0', '\v', '\f', '\x01', '\x7f', '\x85'), maxLength: 3 })
const word = fc.constantFrom(
  'L402',
  'l402',
  'LSAT',
  'Lsat',
  'Payment',
  'PAYMENT',
  'payment',
  'Bearer',
  'Basic',
  'L402x',
  'Payments',
  ''
)
const rest = fc.oneof(
  fc.constantFrom(
    `${macaroonToBase64(MACAROON)}:${PREIMAGE}`,
    `QUJD:${PREIMAGE}`,
    encodePaymentToken({ id: 'x' }, PREIMAGE),
    `method="lightning", preimage="${PREIMAGE}"`,
    ''
  ),
  fc.string({ maxLength: 20 })
)
const authorization = fc.tuple(blanks, word, blanks, rest, blanks).map(parts => parts.join(''))
const macaroon = fc
  .tuple(
    blanks,
    fc.oneof(
      fc.constantFrom(HEX, HEX.toUpperCase(), Buffer.from(encodeMacaroon(MACAROON)).toString('hex')),
      fc.string({ maxLength: 20 })
    ),
    blanks
  )
  .map(parts => parts.join(''))
const field = fc.oneof(
  fc.tuple(fc.constantFrom('Authorization', 'authorization', 'AUTHORIZATION'), authorization),
  fc.tuple(fc.constantFrom('Macaroon', 'macaroon', 'Grpc-Metadata-Macaroon', 'GRPC-METADATA-MACAROON'), macaroon),
  fc.tuple(fc.constantFrom('Payment-Authorization', 'payment-authorization'), authorization),
  fc.tuple(fc.constantFrom('X-Other', 'Macaroons', 'Authorizations'), authorization)
)

/** Values of the fields that an upstream is sent, by lower-case name. */
function sent(headers: readonly string[]) {
  const pairs = requestHeaders(contextOf({ headers: [...headers] }), 'up.example', null, [])
  return pairs.flatMap((name, at) => (at % 2 === 0 && headers.includes(name) ? [pairs[at + 1] ?? ''] : []))
}

t.test('a credential is looked up in its fields, in any letter case', async t => {
  for (const [name, kind] of [
    ['authorization', 'authorization'],
    ['Payment-Authorization', 'payment'],
    ['Payment-Authorisation', null],
    ['Macaroon', 'macaroon'],
    ['Grpc-Metadata-Macaroon', 'macaroon'],
    ['Authorizatiom', null],
    ['Macaroom', null],
    ['Grpc-Metadata-Macaroom', null],
    ['Proxy-Authorization', null]
  ] as const)
    t.equal(credentialField(name), kind, name)
  for (const [headers, has] of [
    [['Authorization', 'Bearer x'], false],
    [['Authorization', 'Bearer x', 'authorization', 'LSAT x'], true],
    [['MACAROON', 'x'], true],
    [['grpc-metadata-macaroon', ''], true],
    [['X-Macaroon', 'x'], false]
  ] as const)
    t.equal(hasPaymentCredential(new HeaderList([...headers])), has, headers.join(' '))
  t.ok(mayCarryPreimage(HEX.toUpperCase()))
  t.notOk(mayCarryPreimage(Buffer.from(encodeMacaroon(MACAROON)).toString('hex')))
})

t.test('the forwarder removes what the verifier admits, or refuses as a payment', async t => {
  fc.assert(
    fc.property(field, ([name, value]) => {
      const headers = [name, value]
      const credential = readCredential(headers)
      if (credential.kind !== 'none' && sent(headers).includes(value))
        throw new Error(`${JSON.stringify(value)} is a ${credential.kind} credential, and was passed on`)
    }),
    { numRuns: 5_000 }
  )
  fc.assert(
    fc.property(fc.array(field, { maxLength: 4 }), fields => {
      const headers = fields.flat()
      const passed = sent(headers)
      const admitted = fields.filter(
        ([name, value]) => readCredential([name, value]).kind !== 'none' && passed.includes(value)
      )
      // The same text may be in an unrelated field.
      if (
        admitted.some(
          ([, value]) =>
            !fields.some(([name, other]) => other === value && readCredential([name, other]).kind === 'none')
        )
      )
        throw new Error(JSON.stringify(headers))
    }),
    { numRuns: 2_000 }
  )
  t.pass('for every field that was drawn')
})

t.test('the listener lets through two lines only where the verifier finds at most one payment in them', async t => {
  fc.assert(
    fc.property(authorization, authorization, (one, other) => {
      if (authorizationFault([one, other]) !== null) return
      const payments = [one, other].filter(value => readCredential(['Authorization', value]).kind !== 'none')
      const schemes = payments.map(paymentScheme)
      if (payments.length > 1 && !(schemes.includes('lsat') && schemes.includes('l402')))
        throw new Error(JSON.stringify([one, other]))
    }),
    { numRuns: 5_000 }
  )
  t.pass('for every two that were drawn')
})

t.test('a payment is found only where the cache of tokens says', async t => {
  fc.assert(
    fc.property(fc.array(field, { maxLength: 4 }), fields => {
      const sole = soleAuthorization(fields.flat())
      if (sole === null) return
      const elsewhere = fields.filter(
        ([name, value]) => value !== sole && readCredential([name, value]).kind !== 'none'
      )
      if (elsewhere.length > 0) throw new Error(JSON.stringify(fields))
    }),
    { numRuns: 5_000 }
  )
  t.pass('for all fields that were drawn')
})

t.test('a payment credential is known by its scheme', async t => {
  for (const value of [
    'L402 a:b',
    'l402 a:b',
    'LSAT a:b',
    'Payment eyJ',
    'PAYMENT x',
    'L402',
    'Payment\tx',
    '\xa0L402 a:b',
    ' Payment x',
    '\x7fPayment x',
    '\ufeffL402 a:b'
  ])
    t.ok(paymentScheme(value), value)
  for (const value of ['Bearer L402 a', 'Basic x', 'L4020 x', 'Payments x', '', 'Digest Payment', ' ', 'L40'])
    t.equal(paymentScheme(value), null, value)
})

t.test('a credential behind a space that HTTP does not allow is read, and reaches no upstream', async t => {
  const value = `\xa0L402 QUJD:${PREIMAGE}`
  t.match(readCredential(['Authorization', value]), { kind: 'classic' })
  t.same(sent(['Authorization', value]), [])
  t.equal(
    authorizationFault([`L402\tQUJD:${PREIMAGE}`, 'Payment abc']),
    'More than one payment credential in Authorization; send one.'
  )
})
