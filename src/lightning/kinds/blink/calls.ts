import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { readResponse } from '../../../engine/formats/response-schema.ts'
import type { Secret } from '../../../platform/keys/secrets.ts'
import type { KindOptions } from '../kind.ts'
import { noBudget, type CallBudget, type CallPriority } from '../../provider-calls/budgets.ts'
import {
  NothingSent,
  ProviderRefused,
  ProviderUnavailable,
  unusableResponse,
  requireResponse,
  type JsonRecord
} from '../../provider-calls/errors.ts'
import { ProviderHttp, type CallProvider } from '../../provider-calls/provider-call.ts'
import { BlinkData, BlinkResponse, PayloadErrors, type BlinkError } from './responses.ts'
import { WALLETS } from './documents.ts'

/** The test service, on signet, is https://api.staging.blink.sv. */
export const BLINK_LIVE = 'https://api.blink.sv'

type BlinkCall = readonly [call: CallProvider, walletId: string]

/** Accounts whose wallet id is cached; it never changes. */
const MAX_WALLETS = 10_000

export class BlinkCalls {
  readonly #http: ProviderHttp
  readonly #budget: CallBudget
  readonly #wallets = new LRUCache<string, string>({ max: MAX_WALLETS })

  constructor({ url, timeout, clock, budget = noBudget('blink', clock) }: KindOptions) {
    this.#budget = budget
    this.#http = new ProviderHttp({
      url: (url ?? BLINK_LIVE).replace(/\/graphql\/?$/, ''),
      timeout,
      clock,
      budget,
      authorize: key => ({ 'x-api-key': key }),
      messageOf: blinkMessage
    })
  }

  /**
   * Runs calls with a key and its wallet.
   * @throws ProviderRefused 'key' for an unknown key or an account without a bitcoin wallet
   */
  async within<T>(
    key: Secret<string> | null,
    run: (...at: BlinkCall) => Promise<T>,
    priority?: CallPriority
  ): Promise<T> {
    if (key === null) throw new ProviderRefused('key', 'The provider blink needs a key.')
    const name = createHash('sha256').update(key.reveal()).digest('base64')
    const work = this.#http.within(
      key,
      async call => {
        const known = this.#wallets.get(name) ?? btcWalletOf(await askBlink(call, WALLETS))
        if (known === null) throw new ProviderRefused('key', 'The Blink account has no wallet in bitcoin.')
        this.#wallets.set(name, known)
        return await run(call, known)
      },
      priority
    )
    return await work.catch(async (error: unknown) => {
      // Arrives with status 200. The budget's own refusal never reached Blink.
      if (error instanceof ProviderUnavailable && error.fault === 'rate' && !(error instanceof NothingSent))
        await this.#budget.refused(undefined, key.reveal(), error.retryAfter)
      throw error
    })
  }

  async close(): Promise<void> {
    await this.#http.close()
  }
}

function btcWalletOf({ data }: BlinkResult): string | null {
  return readResponse(BlinkData, data)?.me?.defaultAccount?.wallets[0]?.id ?? null
}

/**
 * Blink's GraphQL (blinkbitcoin/blink, public schema). Errors arrive with status 200, beside the data or in the
 * operation's payload.
 */

export interface BlinkOperation {
  readonly name: string
  readonly document: string
  readonly scope: 'READ' | 'RECEIVE' | 'WRITE'
}

export interface BlinkResult {
  readonly data: JsonRecord | null
  readonly errors: readonly BlinkError[]
}

/** Seconds for which Blink blocks an account after a 429. */
const BLOCKED = 300
const UNAVAILABLE =
  /^(INTERNAL_SERVER_ERROR|UNEXPECTED_CLIENT_ERROR|UNKNOWN_CLIENT_ERROR|LND_OFFLINE|SERVICE_ERROR|DB_ERROR)$/

/** The error in a body with an error status; null when it holds none. */
function blinkMessage(body: unknown): string | null {
  const response = readResponse(BlinkResponse, body)
  return response?.errors[0]?.message ?? response?.error?.message ?? null
}

export async function askBlink(
  call: CallProvider,
  { name, document, scope }: BlinkOperation,
  variables: Readonly<Record<string, unknown>> = {}
): Promise<BlinkResult> {
  const body = { operationName: name, query: document, variables }
  const response = await call({ method: 'POST', path: '/graphql', body, scope })
  const { data, errors } = requireResponse(BlinkResponse, response.body)
  if (data === null && errors.length === 0) throw unusableResponse('neither data nor errors')
  requireNoFault(errors, scope)
  return { data, errors }
}

/** @throws ProviderRefused, ProviderUnavailable for a mutation's errors */
export function payloadOf(result: BlinkResult, field: string, { scope }: BlinkOperation): unknown {
  const refused = mutationRefusal(result, field, scope)
  if (refused !== null) throw blinkRefusal(refused)
  return result.data?.[field]
}

export function mutationRefusal(
  { data, errors }: BlinkResult,
  field: string,
  scope: BlinkOperation['scope']
): BlinkError | null {
  const own = readResponse(PayloadErrors, data?.[field])?.errors ?? []
  requireNoFault(own, scope)
  return own[0] ?? errors[0] ?? null
}

function requireNoFault(errors: readonly BlinkError[], scope: string): void {
  for (const error of errors) {
    const fault = faultOf(error, scope)
    if (fault !== null) throw fault
  }
}

export function blinkRefusal({ message }: BlinkError): ProviderRefused {
  return new ProviderRefused('request', `Blink refused the request: ${message}`)
}

/** Faults of the key or of Blink, by error code; null for faults of the request. */
function faultOf({ code }: BlinkError, scope: string): ProviderRefused | ProviderUnavailable | null {
  if (/^(NOT_AUTHENTICATED|UNAUTHENTICATED)$/.test(code))
    return new ProviderRefused('key', 'Blink does not accept this key.')
  if (/^(NOT_AUTHORIZED|FORBIDDEN)$/.test(code))
    return new ProviderRefused('scope', `The Blink key lacks the scope ${scope}.`, scope)
  if (/^TOO_MANY_REQUESTS?$/.test(code))
    return new ProviderUnavailable('Blink asks us to wait before the next call.', BLOCKED, undefined, 'rate')
  return UNAVAILABLE.test(code) ? unusableResponse(`an error of its own, ${code}`) : null
}
