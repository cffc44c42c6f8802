import { nullableText } from '../../engine/formats/text-patterns.ts'
import { Type } from 'typebox'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import { defineOperation, type OperationResponse, type AnyOperation } from '../../engine/operations/operation.ts'
import type { ReadonlyHeaders } from '../../engine/message/headers.ts'
import type { ValidationError } from '../../engine/operations/errors.ts'
import { merchantOf } from '../../accounts/merchants/principal.ts'
import { priceList } from './pricing.ts'
import {
  invalidInput,
  ChallengeInput,
  ChallengePage,
  ChallengeQuery,
  ChallengeView,
  CreatedChallenge,
  CredentialInput,
  VerifyCredentialView,
  EndpointPage,
  EndpointQuery,
  PriceList,
  RetireInput,
  TokenInput,
  TokenStatus,
  TokenVerdict
} from './schema.ts'
import { Producer, type ProducerDependencies } from './producer.ts'
import { ProducerVerifier, type ProducerVerifierDependencies } from './producer-verify.ts'

interface ChallengeOperationDependencies extends ProducerDependencies, ProducerVerifierDependencies {
  config(): GatewayConfig
}

const Problem = Type.Object(
  {
    type: Type.String({ description: 'Stable address of this kind of problem.' }),
    title: Type.String(),
    status: Type.Integer(),
    detail: Type.String(),
    error: Type.String({ description: 'The title again.' }),
    errors: Type.Optional(
      Type.Record(Type.String(), Type.Array(Type.String()), {
        description: 'Messages by field, where fields are wrong.'
      })
    )
  },
  { title: 'L402Problem' }
)

const Capped = Type.Object(
  {
    ...Problem.properties,
    limit: Type.Integer(),
    current: Type.Integer(),
    requested: Type.Integer(),
    current_plan: nullableText(),
    required_plan: nullableText(),
    action_required: Type.String()
  },
  { title: 'L402PlanCapProblem' }
)

const mediaType = 'application/problem+json'

function problem(description: string, schema: OperationResponse['schema'] = Problem): OperationResponse {
  return schema === undefined ? { description, mediaType } : { description, mediaType, schema }
}

const invalid = problem('Something in the request is not valid; the type says what.')
const unavailable = problem('A required component is down; nothing was done. Retry-After says when to retry.')

/** The idempotency key in the headers, the standard name first (decision 20). */
function headerKey(headers: ReadonlyHeaders): string | null {
  return headers.get('idempotency-key') ?? headers.get('x-idempotency-key') ?? null
}

/** Producer API, price list, token status and ping (contract, Pay-per-request gating). */
export function challengeOperations(dependencies: ChallengeOperationDependencies): AnyOperation[] {
  const producer = new Producer(dependencies)
  const verifier = new ProducerVerifier(dependencies)
  const refuse = (error: ValidationError) => invalidInput(producer.problemBase, error)
  return [
    ...producerRows(producer, refuse),
    ...verifications(verifier, refuse),
    ...publicOperations(dependencies, verifier)
  ]
}

type Refuse = NonNullable<AnyOperation['refuse']>

function producerRows(producer: Producer, refuse: Refuse): AnyOperation[] {
  const mount = { use: 'merchant-api', chain: 'producer' } as const
  const common = { tag: 'Producer', access: 'merchant', mount, refuse } as const
  return [
    defineOperation({
      ...common,
      id: 'createChallenge',
      unaudited: true,
      method: 'POST',
      path: '/api/l402/challenges',
      summary: 'Create a challenge for a resource that you serve yourself',
      description:
        'For an API that is served elsewhere: answer your client with 402 and these values, then verify the credential that it returns. ' +
        "The first challenge for a resource takes a place under the plan's cap of endpoints.",
      headers: {
        'Idempotency-Key': {
          description:
            'At most 200 characters. While the invoice lives, the same key with the same resource and price gives the same challenge.',
          pattern: '\\S'
        },
        'X-Idempotency-Key': { description: 'Alias of Idempotency-Key, which takes precedence.', pattern: '\\S' }
      },
      body: ChallengeInput,
      responses: {
        200: {
          description:
            'The challenge. With X-Idempotency-Replayed: true it was made by an earlier request with the same key.',
          schema: CreatedChallenge
        },
        400: invalid,
        402: problem(
          'A limit of the plan was reached. Paying an invoice does not help, so there is no WWW-Authenticate.',
          Capped
        ),
        409: problem('The idempotency key is bound to another live challenge, or the resource was retired.'),
        503: problem('No invoice could be created, or the challenge could not be stored. No challenge was issued.')
      },
      handle: async ({ ctx, body }) => {
        const created = await producer.create(merchantOf(ctx), body, headerKey(ctx.headers))
        const response = { status: 200, body: created.body }
        return created.replayed ? { ...response, headers: ['X-Idempotency-Replayed', 'true'] } : response
      }
    }),
    defineOperation({
      ...common,
      id: 'listChallenges',
      method: 'GET',
      path: '/api/l402/challenges',
      summary: 'List the challenges created through this API, newest first',
      description:
        'paid means that a credential was verified: an invoice that was paid and never used reads as unpaid, and later as expired.',
      query: ChallengeQuery,
      responses: {
        200: { description: 'One page; X-Total-Count has the total without paging.', schema: ChallengePage },
        400: invalid,
        503: unavailable
      },
      handle: async ({ ctx, query }) => {
        const page = await producer.list(merchantOf(ctx), query)
        return { status: 200, body: page, headers: ['X-Total-Count', String(page.total)] }
      }
    }),
    defineOperation({
      ...common,
      id: 'getChallenge',
      method: 'GET',
      path: '/api/l402/challenges/:paymentHash',
      summary: 'One challenge',
      description: 'The state of one challenge, by the payment hash of its invoice.',
      responses: {
        200: { description: 'The challenge, without macaroon and preimage.', schema: ChallengeView },
        404: problem("There is no such challenge, or it is another account's."),
        503: unavailable
      },
      params: Type.Object({ paymentHash: Type.String({ 'x-judged': true }) }),
      handle: async ({ ctx, params }) => ({
        status: 200,
        body: await producer.get(merchantOf(ctx), params.paymentHash)
      })
    }),
    defineOperation({
      ...common,
      id: 'listEndpoints',
      method: 'GET',
      path: '/api/l402/endpoints',
      summary: 'List the resources with challenges, newest first',
      description: "Those that are not retired count for the plan's cap, together with the account's proxies.",
      query: EndpointQuery,
      responses: {
        200: { description: 'One page, retired ones included.', schema: EndpointPage },
        400: invalid,
        503: unavailable
      },
      handle: async ({ ctx, query }) => {
        const page = await producer.endpoints(merchantOf(ctx), query)
        return { status: 200, body: page, headers: ['X-Total-Count', String(page.total)] }
      }
    }),
    defineOperation({
      ...common,
      id: 'retireEndpoint',
      method: 'POST',
      path: '/api/l402/endpoints/retire',
      summary: "Retire a resource, which frees its place under the plan's cap",
      description:
        'No challenge can be made for the resource from then on; credentials that were sold go on being good.',
      body: RetireInput,
      responses: {
        204: { description: 'Retired. Paid credentials stay valid.' },
        400: invalid,
        404: problem('No challenge was ever made for this resource.'),
        503: unavailable
      },
      handle: async ({ ctx, body }) => {
        await producer.retire(merchantOf(ctx), body.resource)
        return { status: 204, body: null }
      }
    })
  ]
}

function verifications(verifier: ProducerVerifier, refuse: Refuse): AnyOperation[] {
  const common = {
    tag: 'Producer',
    access: 'merchant',
    mount: { use: 'merchant-api', chain: 'merchant' },
    refuse,
    method: 'POST'
  } as const
  return [
    defineOperation({
      ...common,
      id: 'verifyToken',
      unaudited: true,
      path: '/api/l402/challenges/verify',
      summary: 'Verify an L402 token of a client',
      description:
        'Checks signature, preimage, term and revocation. It uses nothing up: a token is good for every request until it ends. ' +
        'Compare resource with what the buyer asked for.',
      body: TokenInput,
      responses: { 200: { description: 'The verdict.', schema: TokenVerdict }, 400: invalid, 503: unavailable },
      handle: async ({ ctx, body }) => ({
        status: 200,
        body: await verifier.verify(merchantOf(ctx), body.macaroon, body.preimage)
      })
    }),
    defineOperation({
      ...common,
      id: 'verifyCredential',
      unaudited: true,
      path: '/api/l402/challenges/verify-credential',
      summary: 'Verify and consume a Payment credential of a client',
      description:
        'A Payment credential is valid once: serve the request when consumed is true, and send receipt to the payer as Payment-Receipt. ' +
        'Name resource and amountSats, so that a credential for something else is refused and not used up.',
      body: CredentialInput,
      responses: {
        200: {
          description: 'The verdict. Only a valid credential is consumed.',
          schema: VerifyCredentialView
        },
        400: invalid,
        503: unavailable
      },
      handle: async ({ ctx, body }) => ({ status: 200, body: await verifier.consume(merchantOf(ctx), body) })
    })
  ]
}

function publicOperations(dependencies: ChallengeOperationDependencies, verifier: ProducerVerifier): AnyOperation[] {
  const mount = { use: 'merchant-api', chain: 'public-read' } as const
  const common = { tag: 'L402', access: 'public', method: 'GET', mount } as const
  return [
    defineOperation({
      ...common,
      id: 'getPricing',
      path: '/api/l402/pricing',
      summary: 'The price list',
      description: "The priced routes of this gateway. The price is `varies` where it depends on a merchant's proxy.",
      responses: { 200: { description: 'The price list.', schema: PriceList } },
      handle: () => ({ status: 200, body: priceList(dependencies.config()) })
    }),
    defineOperation({
      ...common,
      id: 'getTokenStatus',
      path: '/api/l402/status',
      summary: 'Verify an L402 token without using it',
      description:
        'For a client that keeps tokens: whether to use the one it has or to buy again. Whatever is wrong with it, the status is 200.',
      headers: {
        Authorization: 'L402 <macaroon>:<preimage>; without it the answer says that the request is not authenticated.'
      },
      responses: {
        200: {
          description: 'With authenticated: true, paymentHash, expiresAt and remainingRequests; else message.',
          schema: TokenStatus
        }
      },
      handle: async ({ ctx }) => ({
        status: 200,
        body: await verifier.status(ctx.headers)
      })
    }),
    defineOperation({
      id: 'getPing',
      method: 'GET',
      path: '/l402/test/ping',
      mount: { use: 'merchant-api', chain: 'paid', price: 1 },
      summary: 'Says pong, to try a wallet with',
      description:
        'The cheapest request there is: answered with 402 and an invoice, and with pong once it carries the paid credential.',
      tag: 'L402',
      access: 'credential',
      needsPayment: true,
      responses: {
        200: { description: 'Paid.', schema: Type.Object({ message: Type.String(), paymentHash: Type.String() }) }
      },
      handle: ({ ctx }) => {
        if (ctx.payment === null)
          throw new TypeError(
            `the route ${ctx.route.name} needs a price and a chain with credential and challenge, because what it leads to says what was paid`
          )
        return { status: 200, body: { message: 'pong', paymentHash: ctx.payment.paymentHash } }
      }
    })
  ]
}
