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

/** Slugs of the producer API; plan caps have their own (decisions 102 and 103). */
type ProducerSlug =
  | 'invalid-request'
  | 'invalid-price'
  | 'invalid-idempotency-key'
  | 'provider-key-required'
  | 'challenge-not-found'
  | 'endpoint-not-found'
  | 'idempotency-conflict'
  | 'endpoint-retired'
  | 'challenge-not-recorded'
  | 'provider-unavailable'
  | 'service-unavailable'

const kinds: Readonly<Record<ProducerSlug, TitledKind>> = Object.freeze({
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
})

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
    const kind = kinds[slug]
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
