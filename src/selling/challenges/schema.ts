import { nullableText } from '../../engine/formats/text-patterns.ts'
import type { Challenge } from '../holding/challenge.ts'
import { Type, type Static } from 'typebox'
import { isoTime, isoTimeOrNull, isoTimeQuery, iso } from '../../engine/formats/iso-time.ts'
import { FIELD_REQUIRED } from '../../engine/operations/field-errors.ts'
import { ProblemError, type FieldErrors, type ValidationError } from '../../engine/operations/errors.ts'
import {
  ALREADY_EXISTS,
  CONFLICT,
  RESOURCE_NOT_FOUND,
  SERVICE_UNAVAILABLE,
  VALIDATION,
  type TitledKind
} from '../../engine/operations/error-kinds.ts'
import { PROVIDER_KEY_REQUIRED, PROVIDER_UNAVAILABLE } from '../../lightning/provider-calls/errors.ts'

/** Maximum price in satoshis (decision 105). */
const MAX_CHALLENGE_SATS = 1_000_000_000
/** Maximum length of an idempotency key (contract, Limits). */
export const MAX_KEY_CHARS = 200

const resource = Type.String({
  minLength: 1,
  maxLength: 500,
  pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$',
  description: 'What is sold: any text without control characters. A trailing /* covers everything below.'
})

/** Body of `POST /api/l402/challenges` (contract, Producer API). */
export const ChallengeInput = Type.Object(
  {
    resource,
    priceSats: Type.Integer({ minimum: 1, maximum: MAX_CHALLENGE_SATS, description: 'Satoshis.' }),
    description: Type.Optional(
      Type.String({ maxLength: 1000, description: 'Shown on the invoice. Defaults to the resource.' })
    ),
    // Checked separately, because a header may replace it.
    idempotencyKey: Type.Optional(
      Type.String({
        'x-openapi': { minLength: 1, maxLength: MAX_KEY_CHARS, pattern: '\\S' },
        description: `1 to ${MAX_KEY_CHARS} characters; the same as the header, which wins.`
      })
    )
  },
  { title: 'ChallengeInput' }
)
export type ChallengeInput = Static<typeof ChallengeInput>

/** Response of `POST /api/l402/challenges` (contract; decision 104). */
export const CreatedChallenge = Type.Object(
  {
    invoice: Type.String({ description: 'BOLT 11.' }),
    macaroon: Type.String({ description: 'Standard base64.' }),
    paymentHash: Type.String({ description: '64 lower-case hex characters.' }),
    expiresAt: isoTime('When the invoice can no longer be paid.'),
    resource: Type.String(),
    priceSats: Type.Integer(),
    mppChallenge: Type.Optional(
      Type.String({
        description:
          'The whole value of a WWW-Authenticate header for the Payment scheme; left out when that scheme is off.'
      })
    )
  },
  { title: 'CreatedChallenge' }
)
export type CreatedChallenge = Static<typeof CreatedChallenge>

const status = Type.Enum(['paid', 'unpaid', 'expired'])

/** Computed on each read (decision 109). */
export type ChallengeStatus = Static<typeof status>

/** Never includes macaroon or preimage (contract, Pay-per-request challenge). */
export const ChallengeView = Type.Object(
  {
    paymentHash: Type.String(),
    resource: Type.String(),
    amountSats: Type.Integer(),
    status,
    createdAt: isoTime(),
    paidAt: isoTimeOrNull('When a credential was verified for the first time.'),
    expiresAt: isoTime('When the invoice can no longer be paid.'),
    idempotencyKey: nullableText()
  },
  { title: 'ProducerChallenge' }
)
export type ChallengeView = Static<typeof ChallengeView>

const limit = Type.Optional(Type.Integer({ description: '50 unless said; clamped to 1 to 200.' }))
const offset = Type.Optional(Type.Integer({ description: '0 unless said; clamped to at least 0.' }))

export const ChallengeQuery = Type.Object({
  status: Type.Optional(status),
  since: Type.Optional(isoTimeQuery('ISO 8601; only challenges that were created then or later.')),
  limit,
  offset
})
export type ChallengeQuery = Static<typeof ChallengeQuery>

export const ChallengePage = Type.Object(
  {
    challenges: Type.Array(ChallengeView),
    total: Type.Integer({ description: 'Without paging; also in X-Total-Count.' }),
    limit: Type.Integer(),
    offset: Type.Integer(),
    status: nullableText(),
    since: nullableText()
  },
  { title: 'ProducerChallengePage' }
)
export type ChallengePage = Static<typeof ChallengePage>

export const EndpointQuery = Type.Object({ limit, offset })
export type EndpointQuery = Static<typeof EndpointQuery>

/** Response of `GET /api/l402/endpoints` (decision 85). */
export const EndpointPage = Type.Object(
  {
    endpoints: Type.Array(
      Type.Object({
        resource: Type.String(),
        createdAt: isoTime('When its first challenge was made.'),
        retiredAt: isoTimeOrNull('Null while challenges can be made for it.')
      })
    ),
    total: Type.Integer(),
    limit: Type.Integer(),
    offset: Type.Integer()
  },
  { title: 'EndpointPage' }
)
export type EndpointPage = Static<typeof EndpointPage>

/** Body of `POST /api/l402/endpoints/retire` (decision 85). */
export const RetireInput = Type.Object({ resource })

export const TokenInput = Type.Object({
  macaroon: Type.String({ minLength: 1, 'x-judged': true, description: 'Base64.' }),
  preimage: Type.String({ minLength: 1, 'x-judged': true, description: '64 hex characters, in either case.' })
})

/** Response of `POST /api/l402/challenges/verify` (decision 106). */
export const TokenVerdict = Type.Object(
  {
    valid: Type.Boolean(),
    resource: Type.Optional(Type.String({ description: 'What the token is good for.' })),
    merchantId: Type.Optional(Type.Integer()),
    amountSats: Type.Optional(Type.Integer()),
    paymentHash: Type.Optional(Type.String()),
    error: Type.Optional(Type.String({ description: 'Why it is not valid; the other members are left out then.' }))
  },
  { title: 'TokenVerdict' }
)
export type TokenVerdict = Static<typeof TokenVerdict>

export const CredentialInput = Type.Object({
  credential: Type.String({
    minLength: 1,
    'x-judged': true,
    description: "The value of the payer's Authorization header, with or without the leading word Payment."
  }),
  resource: Type.Optional(
    Type.String({
      'x-judged': true,
      description: 'Refused, and not consumed, when the challenge was made for another one.'
    })
  ),
  amountSats: Type.Optional(
    Type.Integer({ description: 'Refused, and not consumed, when the challenge was made for another amount.' })
  )
})
export type CredentialInput = Static<typeof CredentialInput>

/** Response of `POST /api/l402/challenges/verify-credential` (decision 107). */
export const VerifyCredentialView = Type.Object(
  {
    valid: Type.Boolean(),
    consumed: Type.Boolean(),
    resource: Type.Optional(Type.String()),
    merchantId: Type.Optional(Type.Integer()),
    amountSats: Type.Optional(Type.Integer()),
    paymentHash: Type.Optional(Type.String()),
    receipt: Type.Optional(Type.String({ description: 'The value of the Payment-Receipt header for the payer.' })),
    error: Type.Optional(Type.String({ description: 'Why it is not valid.' })),
    type: Type.Optional(Type.String({ description: 'The problem type of that reason.' }))
  },
  { title: 'CredentialVerdict' }
)
export type VerifyCredentialView = Static<typeof VerifyCredentialView>

/** Response of `GET /api/l402/status` (contract; decision 128). */
export const TokenStatus = Type.Object(
  {
    authenticated: Type.Boolean(),
    paymentHash: Type.Optional(Type.String()),
    expiresAt: Type.Optional(isoTime('When the token ends.')),
    remainingRequests: Type.Optional(Type.Unsafe<null>({ type: 'null', description: 'Requests are not counted.' })),
    message: Type.Optional(Type.String({ description: 'Why the request is not authenticated.' }))
  },
  { title: 'TokenStatus' }
)
export type TokenStatus = Static<typeof TokenStatus>

/** Response of `GET /api/l402/pricing` (contract; decision 127). */
export const PriceList = Type.Object(
  {
    defaultPriceSats: Type.Integer(),
    serviceName: Type.String(),
    endpoints: Type.Array(
      Type.Object({
        pathPattern: Type.String(),
        price: Type.Optional(
          Type.String({
            description: 'What it costs where that is no fixed number of satoshis for each request, such as USD 0.002.'
          })
        ),
        priceSats: Type.Unsafe<number | 'varies'>({
          anyOf: [{ type: 'integer' }, { type: 'string', enum: ['varies'] }]
        }),
        description: Type.String()
      })
    ),
    tokenValiditySeconds: Type.Integer()
  },
  { title: 'PriceList' }
)
export type PriceList = Static<typeof PriceList>

export function isPayableAt(challenge: Challenge, now: number): boolean {
  return challenge.expiresAt > now
}

/** Paid from its first verification on, else expired after the invoice's expiry (decision 109). */
function statusOf(challenge: Challenge, now: number): ChallengeStatus {
  return challenge.paidAt !== null ? 'paid' : isPayableAt(challenge, now) ? 'unpaid' : 'expired'
}

export function challengeAt(challenge: Challenge, now: number): ChallengeView {
  return {
    paymentHash: challenge.paymentHash,
    resource: challenge.resource,
    amountSats: challenge.amountSats,
    status: statusOf(challenge, now),
    createdAt: iso(challenge.createdAt),
    paidAt: iso(challenge.paidAt),
    expiresAt: iso(challenge.expiresAt),
    idempotencyKey: challenge.idempotencyKey
  }
}

/** By the slugs of the producer API; plan caps have their own (decisions 102 and 103). */
const kinds = {
  'invalid-request': { ...VALIDATION, title: 'Invalid request' },
  'invalid-price': { ...VALIDATION, title: 'Invalid price' },
  'invalid-idempotency-key': { ...VALIDATION, title: 'Invalid idempotency key' },
  'provider-key-required': PROVIDER_KEY_REQUIRED,
  'challenge-not-found': { ...RESOURCE_NOT_FOUND, title: 'Challenge not found' },
  'endpoint-not-found': { ...RESOURCE_NOT_FOUND, title: 'Endpoint not found' },
  'idempotency-conflict': { ...ALREADY_EXISTS, title: 'Idempotency conflict' },
  'endpoint-retired': { ...CONFLICT, title: 'Endpoint retired' },
  'challenge-not-recorded': { ...SERVICE_UNAVAILABLE, title: 'Challenge not recorded' },
  'provider-unavailable': PROVIDER_UNAVAILABLE,
  'service-unavailable': { ...SERVICE_UNAVAILABLE, title: 'Service unavailable' }
} satisfies Readonly<Record<string, TitledKind>>
type ProducerSlug = keyof typeof kinds

interface ProblemDetails {
  readonly errors?: FieldErrors
  /** Whole seconds; 5 for a 503 unless given. */
  readonly retryAfter?: number
  readonly cause?: unknown
}

/** `application/problem+json` of the producer API; its member `error` repeats the title (decision 101). */
export class ProducerProblem extends ProblemError {
  readonly slug: ProducerSlug
  override readonly cause: unknown

  /** @param base `{publicUrl}/problems` */
  constructor(base: string, slug: ProducerSlug, detail: string, details: ProblemDetails = {}) {
    const kind: TitledKind = kinds[slug]
    const errors = details.errors === undefined ? {} : { errors: details.errors }
    super(
      kind,
      `${base}/${slug}`,
      kind.title,
      detail,
      { error: kind.title, ...errors },
      kind.status === 503 ? ['Retry-After', String(details.retryAfter ?? 5)] : []
    )
    this.slug = slug
    this.cause = details.cause
  }
}

/**
 * Maps a schema violation to a problem. A wrong price or idempotency key has its own type; all else, missing members
 * too, is an invalid request (contract, Errors: Producer create challenge).
 */
export function invalidInput(base: string, error: ValidationError): ProducerProblem {
  const fields = Object.entries(error.errors)
  const [first] = fields
  if (fields.length === 1 && first !== undefined && !first[1].includes(FIELD_REQUIRED)) {
    if (first[0] === 'PriceSats')
      return new ProducerProblem(
        base,
        'invalid-price',
        'priceSats must be a whole number of satoshis from 1 to 1000000000.',
        { errors: error.errors }
      )
    if (first[0] === 'IdempotencyKey')
      return new ProducerProblem(base, 'invalid-idempotency-key', `IdempotencyKey: ${first[1].join(' ')}`, {
        errors: error.errors
      })
  }
  const detail =
    first === undefined ? error.message : first[0] === '$' ? first[1].join(' ') : `${first[0]}: ${first[1].join(' ')}`
  return new ProducerProblem(base, 'invalid-request', detail, { errors: error.errors })
}
