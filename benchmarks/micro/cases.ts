import type { RequestBody } from '../../src/engine/message/context.ts'
import { Chain } from '../../src/engine/pipeline/chain.ts'
import { Context, NO_ROUTE } from '../../src/engine/message/context.ts'
import { HeaderList } from '../../src/engine/message/headers.ts'
import { InternalUpstream } from '../../src/engine/pipeline/internal.ts'
import { defineOperation } from '../../src/engine/operations/operation.ts'
import type { Head, Outcome } from '../../src/engine/message/reply.ts'
import { admit } from '../../src/engine/listener/front-door.ts'
import { decodeInvoice } from '../../src/lightning/codecs/bolt11.ts'
import { encodeInvoice, type InvoiceTerms } from '../../src/lightning/codecs/bolt11-encode.ts'
import { checkGrant, issueCaveats, readGrant } from '../../src/lightning/l402/caveats.ts'
import { readAuthorization } from '../../src/lightning/codecs/credential.ts'
import {
  decodeIdentifier,
  decodeMacaroonBase64,
  encodeIdentifier,
  macaroonToBase64,
  mintMacaroon,
  verifySignature
} from '../../src/lightning/l402/macaroon.ts'
import { paymentChallenge } from '../../src/lightning/payment-scheme/payment-challenge.ts'
import { paymentHashOf, preimageMatches } from '../../src/lightning/codecs/hmac.ts'
import { Secret, KeyRing as Masters } from '../../src/platform/keys/secrets.ts'
import { requestHeaders } from '../../src/engine/upstream/header-policy.ts'
import { responseHeaders } from '../../src/engine/upstream/response-policy.ts'
import { Type } from 'typebox'

/** One small piece of a request's way. */
export interface MicroCase {
  readonly id: string
  readonly text: string
  /** Does it once. What it answers is kept, so that nothing is left out as unused. */
  run(): unknown
}

const preimage = '11'.repeat(32)
const paymentHash = paymentHashOf(preimage)
const rootKey = new Masters(new Secret('a master secret of at least thirty-two bytes')).deriveAll('macaroon')[0]
const terms = {
  service: 'boltgate:0',
  path: '/v1/quotes/today',
  wildcard: false,
  merchantId: null,
  chargeId: 'sbx_0190d2f2',
  amountSats: 10,
  expires: 4_000_000_000
}
const identifier = encodeIdentifier(paymentHash, new Uint8Array(32).fill(7))
const token = macaroonToBase64(mintMacaroon(rootKey, 'l402', identifier, issueCaveats(terms)))
const authorization = `L402 ${token}:${preimage}`
const rawHeaders = [
  'Host',
  'api.example.com',
  'User-Agent',
  'agent/1.0',
  'Accept',
  'application/json',
  'Accept-Encoding',
  'gzip, br',
  'Authorization',
  authorization,
  'X-Request-Id',
  '0190d2f2-6c1e-7a3b-9f00-1234567890ab',
  'Cookie',
  'theme=dark',
  'Connection',
  'keep-alive'
]
const rules = { headerCount: 200, upgrading: false, takesAnySegment: () => false }
const noBody: RequestBody = {
  length: 0,
  limit: Infinity,
  collected: null,
  bytes: async () => new Uint8Array(),
  stream: () => null
} as unknown as RequestBody // never read here

function contextOf(headers: HeaderList): Context {
  return new Context(
    {
      method: 'GET',
      target: '/v1/quotes/today?all=1',
      headers,
      host: 'api.example.com',
      body: noBody,
      peerAddress: '192.0.2.1',
      clientAddress: '192.0.2.1',
      secure: false,
      httpVersion: '1.1',
      upgrade: null,
      expectsContinue: false,
      correlationId: '0190d2f2-6c1e-7a3b-9f00-1234567890ab',
      now: 1_800_000_000_000,
      startedAt: 0
    },
    NO_ROUTE
  )
}

const context = contextOf(new HeaderList(rawHeaders))
const answered = [
  'Date',
  'Sat, 21 Nov 2026 12:00:00 GMT',
  'Content-Type',
  'application/json',
  'Content-Length',
  '1024',
  'Connection',
  'keep-alive',
  'Server',
  'upstream',
  'ETag',
  '"1"'
]
const nodeKey = Buffer.alloc(32, 3)
const invoiceTerms: InvoiceTerms = {
  network: 'regtest',
  amountMsat: 10_000n,
  paymentHash,
  paymentSecret: '22'.repeat(32),
  timestamp: 1_800_000_000,
  expirySeconds: 600,
  description: 'A quote'
}
const invoiceText = encodeInvoice(invoiceTerms, nodeKey)
const invoice = decodeInvoice(invoiceText)

const chain = new Chain(
  [
    ...Array.from({ length: 8 }, () => ({ request: () => {}, response: () => {}, done: () => {} })),
    { handle: () => {} }
  ],
  0
)
const head = { status: 200, headers: new HeaderList([]), source: 'upstream' } as unknown as Head // only passed on
const outcome = { status: 200 } as unknown as Outcome // only passed on

const operations = new InternalUpstream([
  defineOperation({
    id: 'quote',
    method: 'GET',
    path: '/v1/quotes/:day',
    summary: 'A quote',
    tag: 'demo',
    access: 'public',
    params: Type.Object({ day: Type.String() }),
    responses: {
      200: {
        description: 'It',
        schema: Type.Object({
          quote: Type.String(),
          author: Type.String(),
          amountSats: Type.Integer(),
          paid: Type.Boolean()
        })
      }
    },
    handle: () => ({
      status: 200,
      body: { quote: 'Money is a matter of functions four', author: 'nobody', amountSats: 10, paid: true }
    })
  })
])

/** Every case, in the order of a request's way. */
export const cases: readonly MicroCase[] = [
  {
    id: 'header-parsing',
    text: 'the front door reads the headers of a request',
    run: () => admit({ method: 'GET', url: '/v1/quotes/today?all=1', httpVersion: '1.1', rawHeaders }, rules)
  },
  { id: 'context', text: 'the context of a request is made', run: () => contextOf(context.headers as HeaderList) },
  {
    id: 'chain-walk',
    text: 'eight synchronous plugins, down, up and done',
    run() {
      const progress = { next: 0, stopped: false }
      chain.enter(context, progress)
      void chain.leave(context, head, progress)
      chain.settle(context, outcome, progress, () => {})
      return progress
    }
  },
  {
    id: 'macaroon-verify',
    text: 'a token that was not seen before: read, preimage, signature, caveats, all compared',
    run() {
      const credential = readAuthorization(authorization)
      if (credential.kind !== 'classic') throw new Error('no classic credential')
      const macaroon = decodeMacaroonBase64(credential.macaroon)
      const { paymentHash: hash } = decodeIdentifier(macaroon.identifier)
      if (!preimageMatches(credential.preimage, hash) || !verifySignature(macaroon, rootKey))
        throw new Error('it does not verify')
      return checkGrant(
        readGrant(macaroon.caveats, credential.preimage),
        { service: terms.service, path: terms.path, merchantId: null, chargeId: null, amountSats: 10 },
        1_800_000_000
      )
    }
  },
  {
    id: 'challenge-mint',
    text: 'macaroon and Payment challenge for an invoice that is there',
    run: () => [
      macaroonToBase64(mintMacaroon(rootKey, 'l402', identifier, issueCaveats(terms))),
      paymentChallenge(
        { realm: 'api.example.com', invoice, amountSats: 10, expiresAt: invoice.expiresAt, digest: null },
        rootKey
      )
    ]
  },
  {
    id: 'invoice-sign',
    text: 'an invoice of the sandbox is written and signed',
    run: () => encodeInvoice(invoiceTerms, nodeKey)
  },
  {
    id: 'invoice-read',
    text: "a provider's invoice is read, and its signature checked",
    run: () => decodeInvoice(invoiceText)
  },
  {
    id: 'request-headers',
    text: 'the headers of the request that is forwarded',
    run: () => requestHeaders(context, 'internal.example:8443', null, [])
  },
  {
    id: 'response-headers',
    text: 'the headers of the answer that came back',
    run: () => responseHeaders(answered, 200, null)
  },
  {
    id: 'json-output',
    text: 'an operation of our own answers through its schema',
    run: () => operations.handle(context)
  }
]
