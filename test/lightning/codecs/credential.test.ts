import * as fc from 'fast-check'
import t from 'tap'
import { MAX_CREDENTIAL_CHARS, readAuthorization, readCredential } from '../../../src/lightning/codecs/credential.ts'
import { l402Challenge, lsatChallenge } from '../../../src/lightning/l402/l402-header.ts'
import { addCaveat, encodeMacaroon, macaroonToBase64, mintMacaroon } from '../../../src/lightning/l402/macaroon.ts'
import { encodePaymentToken } from '../../../src/lightning/payment-scheme/payment-credential.ts'

const PREIMAGE = 'ab'.repeat(32)
const OTHER = 'cd'.repeat(32)
const MACAROON = mintMacaroon(Buffer.alloc(32), 'l402', Buffer.alloc(66, 250), ['services=x:0'])
const BASE64 = macaroonToBase64(MACAROON)
const WITH_PREIMAGE = addCaveat(MACAROON, `preimage=${PREIMAGE}`)
const HEX = Buffer.from(encodeMacaroon(WITH_PREIMAGE)).toString('hex')
const TOKEN = encodePaymentToken({ id: 'x' }, PREIMAGE)
const LEGACY = `Payment method="lightning", preimage="${PREIMAGE}"`

const classic = { kind: 'classic', macaroon: BASE64, encoding: 'base64', preimage: PREIMAGE }
const authorization = (...values: string[]) => readCredential(values.flatMap(value => ['Authorization', value]))

t.test('the L402 challenge line has exactly the form that every client reads', async t => {
  t.equal(l402Challenge('QUJD', 'lnbcrt1x'), 'L402 macaroon="QUJD", invoice="lnbcrt1x", version="0", token="QUJD"')
  t.equal(lsatChallenge('QUJD', 'lnbcrt1x'), 'LSAT macaroon="QUJD", invoice="lnbcrt1x"')
  for (const bad of ['', 'a"b', 'a b', 'a-b', 'a\r\n'])
    t.throws(() => l402Challenge(bad, 'lnbcrt1x'), TypeError, JSON.stringify(bad))
  for (const bad of ['', 'LNBC1', 'ln"', 'lnbc1, x']) t.throws(() => lsatChallenge('QUJD', bad), TypeError, bad)
})

t.test('a classic credential is read under both scheme names in any case', async t => {
  for (const scheme of ['L402', 'l402', 'LSAT', 'lsat', 'Lsat']) {
    t.same(readAuthorization(`${scheme} ${BASE64}:${PREIMAGE}`), classic, scheme)
    t.same(authorization(`${scheme}   ${BASE64}:${PREIMAGE} `), classic, scheme)
  }
  t.same(readCredential(['Host', 'x', 'AUTHORIZATION', `L402 ${BASE64}:${PREIMAGE}`]), classic)
})

t.test('without a payment credential there is none', async t => {
  t.same(readCredential([]), { kind: 'none' })
  for (const value of [
    'Bearer abc',
    'Basic eDp5',
    '',
    '   ',
    'L402x abc',
    'Payments x',
    'L40 a:b',
    'Digest username="x", uri="/"'
  ]) {
    t.same(authorization(value), { kind: 'none' }, value)
    t.same(readAuthorization(value), { kind: 'none' }, value)
  }
  t.same(readCredential(['Macaroon-Like', HEX, 'X-Forwarded-Authority-22', HEX, 'Location', 'x']), { kind: 'none' })
})

t.test('a preimage that is not 64 lower-case hex is a 400', async t => {
  for (const preimage of [
    '',
    'ab',
    PREIMAGE.toUpperCase(),
    `0x${PREIMAGE}`,
    `0x${PREIMAGE.slice(2)}`,
    `${PREIMAGE}0`,
    `${PREIMAGE.slice(1)}g`,
    `${PREIMAGE}, L402 x:y`,
    ` ${PREIMAGE}`
  ]) {
    t.match(
      readAuthorization(`L402 ${BASE64}:${preimage}`),
      { kind: 'malformed', profile: 'classic', status: 400 },
      preimage
    )
  }
  t.match(readAuthorization(`L402 ${BASE64}`), { kind: 'malformed', status: 400 }, 'no preimage at all')
  t.match(readAuthorization('L402'), { kind: 'malformed', status: 400 })
})

t.test('a macaroon that cannot be decoded is left to the verifier', async t => {
  t.same(readAuthorization(`L402 {"a":1}:${PREIMAGE}`), {
    kind: 'malformed',
    profile: 'classic',
    status: 400,
    message: 'The preimage must be exactly 64 lower-case hex characters'
  })
  t.match(readAuthorization(`L402 !!:${PREIMAGE}`), { kind: 'classic', macaroon: '!!' })
  t.match(readAuthorization(`L402 :${PREIMAGE}`), { kind: 'classic', macaroon: '' })
})

t.test('two equal L402 credentials count as one, two that differ are refused', async t => {
  t.same(authorization(`LSAT ${BASE64}:${PREIMAGE}`, `L402 ${BASE64}:${PREIMAGE}`), classic)
  t.same(
    authorization(
      `LSAT ${BASE64}:${PREIMAGE}`,
      `L402 ${Buffer.from(BASE64, 'base64').toString('base64url')}:${PREIMAGE}`
    ),
    classic,
    'in another spelling'
  )
  const conflict = { kind: 'malformed', profile: 'request', status: 400 }
  t.match(authorization(`LSAT ${BASE64}:${PREIMAGE}`, `L402 ${BASE64}:${OTHER}`), conflict)
  t.match(authorization(`LSAT QUJD:${PREIMAGE}`, `L402 ${BASE64}:${PREIMAGE}`), conflict)
  t.match(authorization(`L402 ${BASE64}:x`, `L402 ${BASE64}:${PREIMAGE}`), conflict)
})

t.test('one unrelated scheme may be beside the credential, on either side', async t => {
  t.same(authorization('Bearer abc', `L402 ${BASE64}:${PREIMAGE}`), classic)
  t.same(authorization('Bearer abc', '', ' ', `L402 ${BASE64}:${PREIMAGE}`), classic, 'empty lines count for none')
  t.same(authorization(`L402 ${BASE64}:${PREIMAGE}`, 'Bearer abc'), classic)
  t.match(authorization('Bearer abc', TOKEN ? `Payment ${TOKEN}` : ''), { kind: 'modern', token: TOKEN })
  t.match(authorization('Bearer abc', 'Basic x', `L402 ${BASE64}:${PREIMAGE}`), { kind: 'malformed', status: 400 })
})

t.test('more than one payment credential is a 400', async t => {
  const conflict = { kind: 'malformed', profile: 'request', status: 400 }
  t.match(authorization(`Payment ${TOKEN}`, `Payment ${TOKEN}`), conflict)
  t.match(authorization(`Payment ${TOKEN}`, LEGACY), conflict)
  t.match(authorization(LEGACY, `L402 ${BASE64}:${PREIMAGE}`), conflict)
})

t.test('a hex macaroon with its preimage as a caveat is a credential', async t => {
  const expected = { kind: 'classic', macaroon: HEX, encoding: 'hex', preimage: PREIMAGE }
  t.same(readCredential(['grpc-metadata-macaroon', HEX]), expected)
  t.same(readCredential(['Macaroon', HEX]), expected)
  t.same(readCredential(['Macaroon', HEX, 'Grpc-Metadata-Macaroon', HEX]), expected)
  t.same(
    readCredential([
      'Authorization',
      `L402 ${macaroonToBase64(WITH_PREIMAGE)}:${PREIMAGE}`,
      'Grpc-Metadata-Macaroon',
      HEX
    ]).kind,
    'classic'
  )
  t.match(
    readCredential(['Authorization', `L402 ${BASE64}:${PREIMAGE}`, 'Macaroon', HEX]),
    { kind: 'malformed', status: 400 },
    'another token'
  )
  const short = Buffer.from(encodeMacaroon(addCaveat(MACAROON, 'preimage=ab'))).toString('hex')
  t.match(readCredential(['Macaroon', short]), { kind: 'malformed', profile: 'classic', status: 400 })
})

t.test('a macaroon header of another service is ignored', async t => {
  const foreign = Buffer.from(encodeMacaroon(MACAROON)).toString('hex')
  for (const value of [foreign, '', 'abc', 'zz', '0201', BASE64])
    t.same(readCredential(['Grpc-Metadata-Macaroon', value]), { kind: 'none' }, value)
  t.same(readCredential(['Macaroon', foreign, 'Authorization', `L402 ${BASE64}:${PREIMAGE}`]), classic)
})

t.test('the Payment profiles are distinguished', async t => {
  t.same(readAuthorization(`Payment ${TOKEN}`), { kind: 'modern', token: TOKEN })
  t.same(readAuthorization(`payment   ${TOKEN}==`), { kind: 'modern', token: `${TOKEN}==` })
  t.same(readAuthorization(LEGACY), { kind: 'legacy', preimage: PREIMAGE })
  t.same(readAuthorization(`PAYMENT preimage="${PREIMAGE}",method=lightning,extra="a, b"`), {
    kind: 'legacy',
    preimage: PREIMAGE
  })
  t.match(readAuthorization(`Payment method="lightning", preimage="${PREIMAGE.toUpperCase()}"`), {
    kind: 'malformed',
    profile: 'legacy',
    status: 402
  })
  t.match(readAuthorization(`Payment method="card", preimage="${PREIMAGE}"`), {
    kind: 'malformed',
    profile: 'legacy',
    status: 402
  })
  t.match(readAuthorization('Payment method="lightning"'), { kind: 'malformed', profile: 'legacy', status: 402 })
})

t.test('a malformed token is refused and never read as legacy', async t => {
  for (const value of [
    'Payment',
    'Payment ',
    `Payment ${TOKEN}===`,
    `Payment ${TOKEN}.x`,
    `Payment a=b`,
    `Payment ${TOKEN} ${TOKEN}`,
    `Payment ${TOKEN}, ${LEGACY.slice(8)}`,
    `Payment method="lightning", method="lightning", preimage="${PREIMAGE}"`,
    `Payment method="lightning" preimage="${PREIMAGE}"`,
    'Payment "x"'
  ]) {
    t.match(readAuthorization(value), { kind: 'malformed', profile: 'modern', status: 402 }, value.slice(0, 40))
  }
})

t.test('4 KB are accepted, more than 64 KB are refused', async t => {
  t.equal(readAuthorization(`Payment ${'A'.repeat(4096)}`).kind, 'modern')
  t.equal(readAuthorization(`Payment ${'A'.repeat(MAX_CREDENTIAL_CHARS - 8)}`).kind, 'modern')
  t.match(readAuthorization(`Payment ${'A'.repeat(MAX_CREDENTIAL_CHARS)}`), { kind: 'malformed', status: 400 })
  t.match(readAuthorization(`L402 ${'A'.repeat(MAX_CREDENTIAL_CHARS)}:${PREIMAGE}`), { kind: 'malformed', status: 400 })
  t.equal(readAuthorization(`Bearer ${'A'.repeat(MAX_CREDENTIAL_CHARS)}`).kind, 'none')
})

t.test('no headers make the reader throw', async () => {
  const name = fc.constantFrom('Authorization', 'authorization', 'Macaroon', 'Grpc-Metadata-Macaroon', 'Host')
  const scheme = fc.constantFrom('L402 ', 'LSAT ', 'Payment ', 'Bearer ', '')
  const rest = fc.oneof(
    fc.string(),
    fc.constantFrom(`${BASE64}:${PREIMAGE}`, HEX, TOKEN, LEGACY.slice(8)),
    fc.stringMatching(/^[a-z0-9=", ]{0,40}$/)
  )
  const pair = fc.tuple(
    name,
    fc.tuple(scheme, rest).map(parts => parts.join(''))
  )
  fc.assert(
    fc.property(fc.array(pair, { maxLength: 4 }), pairs => {
      const credential = readCredential(pairs.flat())
      return ['none', 'classic', 'legacy', 'modern', 'malformed'].includes(credential.kind)
    }),
    { numRuns: 1500 }
  )
})
