import { apiOf, type ApiFile } from '../../engine/checks/api-file.ts'
import { leastReservedMsat } from '../../engine/checks/meter.ts'
import type { FiatText } from '../../engine/checks/money-text.ts'
import { comparablePath } from '../../engine/message/path.ts'
import { VALIDATION } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { invalidField } from '../../engine/operations/field-errors.ts'
import type { ProxyChange, ProxyEndpoint, ProxyInput } from './schema.ts'
import { meterOf, type EndpointMeter } from './meter.ts'
import { amountOfText, priceOfInput } from './price.ts'
import type { ProxyRow } from './store.ts'

/** Forbidden upstream headers: they frame the message or belong to the gateway. */
const RESERVED_HEADERS = new Set([
  'host',
  'connection',
  'content-length',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
  'keep-alive',
  'proxy-connection',
  'proxy-authorization',
  'proxy-authenticate',
  'expect',
  'via',
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-correlation-id',
  'accept-payment',
  'content-type',
  'content-encoding'
])

/** Characters of a document as it is kept: anyone may read it, and each answer is written again. */
const MAX_DOCUMENT = 262_144

/** @throws ShortError 400 for another document than OpenAPI 3, or a larger one */
export function documentIn({ openapi }: ProxyChange): ApiFile | null | undefined {
  if (openapi === undefined || openapi === null) return openapi
  const api = apiOf(openapi, 'api_')
  if (api === null) throw new ShortError(VALIDATION, 'openapi: Must be an OpenAPI 3 document with paths.')
  if (JSON.stringify(api).length > MAX_DOCUMENT)
    throw new ShortError(
      VALIDATION,
      `openapi: Must not exceed ${MAX_DOCUMENT} characters; parameters of a path count for each of its methods.`
    )
  return api
}

/** Otherwise it might never match a request path. */
export function patternOf(pattern: string): string {
  return comparablePath(pattern.toWellFormed().replace(/[^\x20-\x7e]+/g, encodeURIComponent))
}

export function endpointsOf(inputs: NonNullable<ProxyInput['endpoints']>): ProxyEndpoint[] {
  const seen = new Set<string>()
  return inputs.map((input, index) => {
    const pathPattern = patternOf(input.pathPattern)
    const key = `${input.method ?? '*'} ${pathPattern}`
    if (seen.has(key))
      throw new ShortError(
        VALIDATION,
        `endpoints[${index}] repeats ${key}; each method and pathPattern can have one price.`
      )
    seen.add(key)
    const price = priceOfInput(input.price ?? null, `/endpoints/${index}/price`)
    if (input.meter !== undefined) {
      if (price !== null && typeof price !== 'string')
        throw invalidField(
          `/endpoints/${index}/price`,
          'Must be one amount where there is a meter: it is what a balance costs, whatever a request will take from it.'
        )
      if (input.priceSats === 0)
        throw new ShortError(
          VALIDATION,
          `endpoints[${index}] has a meter and no price; priceSats is what a balance costs.`
        )
      checkBundle(input.meter, price === null ? input.priceSats : amountOfText(price), index)
    }
    return {
      method: input.method ?? null,
      pathPattern,
      priceSats: input.priceSats,
      ...(price === null ? {} : { price }),
      description: input.description ?? null,
      tokenPath: input.tokenPath ?? 'exact',
      tokenValiditySeconds: input.tokenValiditySeconds ?? null,
      ...(input.meter === undefined ? {} : { meter: input.meter })
    }
  })
}

/** @throws ShortError 400 for a balance too small for one request */
function checkBundle(meter: EndpointMeter, bundle: number | FiatText, index: number): void {
  const least = leastReservedMsat(meterOf(meter, bundle))
  if (typeof bundle === 'number' && least > bundle * 1000)
    throw invalidField(
      `/endpoints/${index}/priceSats`,
      `A balance holds ${bundle * 1000} millisatoshis, and a request reserves no less than ${least}: raise it, or lower the estimate.`
    )
}

export function authHeaderOf(name: string | null): string | null {
  if (name !== null && RESERVED_HEADERS.has(name.toLowerCase()))
    throw invalidField('/authHeader', `The header ${name} cannot be set on the upstream's request.`)
  return name
}

export function checkAuth(row: ProxyRow): void {
  if (row.authValue !== null && row.authHeader === null)
    throw new ShortError(VALIDATION, 'authValue needs authHeader, the name of the header that carries it.')
}
