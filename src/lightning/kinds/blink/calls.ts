import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { readResponse } from '../../../engine/formats/response-schema.ts'
import type { Secret } from '../../../platform/keys/secrets.ts'
import type { Clock } from '../../../platform/system/clock.ts'
import { noBudget, type CallBudget, type CallStanding } from '../../provider-calls/budgets.ts'
import { NothingSent, ProviderRefused, ProviderUnavailable, unusableResponse } from '../../provider-calls/errors.ts'
import { ProviderHttp, type CallProvider } from '../../provider-calls/provider-call.ts'
import { requireResponse, type JsonRecord } from '../../provider-calls/responses.ts'
import { BlinkData, BlinkResponse, PayloadErrors, type BlinkError } from './responses.ts'
import { WALLETS } from './documents.ts'

/** Blink's public service. Its test service, on signet, is https://api.staging.blink.sv. */
export const BLINK_LIVE = 'https://api.blink.sv'

/** What the kind needs, as `KindOptions` has it. */
export interface BlinkOptions {
  /** Null for the public service. */
  readonly url: string | null
  /** Milliseconds for one call of the provider, however many HTTP calls it takes. */
  readonly timeout: number
  readonly clock: Clock
  readonly budget?: CallBudget
}

/** What calls with a key are made by. */
export type BlinkCall = readonly [call: CallProvider, walletId: string]

/** Accounts whose wallet is remembered: it never changes. */
const MAX_WALLETS = 10_000

/** Calls to Blink with a key, for the account's wallet in bitcoin. */
export class BlinkCalls {
  readonly #http: ProviderHttp
  readonly #budget: CallBudget
  /** By a digest of the key. */
  readonly #wallets = new LRUCache<string, string>({ max: MAX_WALLETS })

  constructor({ url, timeout, clock, budget = noBudget('blink', clock) }: BlinkOptions) {
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

  /** Runs calls with a key and its wallet. @throws ProviderRefused 'key' for none, and for one without a wallet in bitcoin */
  async within<T>(
    key: Secret<string> | null,
    run: (...at: BlinkCall) => Promise<T>,
    standing?: CallStanding
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
      standing
    )
    return await work.catch(async (error: unknown) => {
      // It says so with status 200; what the budget itself refuses asked nobody.
      if (error instanceof ProviderUnavailable && error.fault === 'rate' && !(error instanceof NothingSent))
        await this.#budget.refused(undefined, key.reveal(), error.retryAfter)
      throw error
    })
  }

  async close(): Promise<void> {
    await this.#http.close()
  }
}

/** The id of the wallet in bitcoin; null where the account has none. */
function btcWalletOf({ data }: BlinkResult): string | null {
  return readResponse(BlinkData, data)?.me?.defaultAccount?.wallets[0]?.id ?? null
}

/**
 * Blink's GraphQL (blinkbitcoin/blink, its public schema): every call is one POST, and says with status 200 what went
 * wrong, either beside the data or inside the operation's own payload.
 */

/** One operation. */
export interface BlinkOperation {
  /** As the document names it. */
  readonly name: string
  readonly document: string
  /** The scope that a key needs for it. */
  readonly scope: 'READ' | 'RECEIVE' | 'WRITE'
}

/** What an operation answered. */
export interface BlinkResult {
  readonly data: JsonRecord | null
  /** Of the operation as a whole. */
  readonly errors: readonly BlinkError[]
}

/** Seconds for which Blink blocks an account that asked too often. */
const BLOCKED = 300
const AWAY = /^(INTERNAL_SERVER_ERROR|UNEXPECTED_CLIENT_ERROR|UNKNOWN_CLIENT_ERROR|LND_OFFLINE|SERVICE_ERROR|DB_ERROR)$/

/** What an error with a status of its own says; null when its body says nothing. */
function blinkMessage(body: unknown): string | null {
  const response = readResponse(BlinkResponse, body)
  return response?.errors[0]?.message ?? response?.error?.message ?? null
}

/** Asks, and gives what was said, errors included. @throws ProviderRefused, ProviderUnavailable for what is no result */
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

/** The payload of a mutation. @throws ProviderRefused, ProviderUnavailable for its errors */
export function payloadOf(result: BlinkResult, field: string, { scope }: BlinkOperation): unknown {
  const refused = mutationRefusal(result, field, scope)
  if (refused !== null) throw blinkRefusal(refused)
  return result.data?.[field]
}

/** The first thing that is wrong with what a mutation asked for, if anything. @throws for other faults */
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

/** What an error of Blink's means for who asked. */
export function blinkRefusal({ message }: BlinkError): ProviderRefused {
  return new ProviderRefused('request', `Blink refused the request: ${message}`)
}

/** What is wrong with the key, or with Blink, by an error's code; null where it is what was asked. */
function faultOf({ code }: BlinkError, scope: string): ProviderRefused | ProviderUnavailable | null {
  if (/^(NOT_AUTHENTICATED|UNAUTHENTICATED)$/.test(code))
    return new ProviderRefused('key', 'Blink does not accept this key.')
  if (/^(NOT_AUTHORIZED|FORBIDDEN)$/.test(code))
    return new ProviderRefused('scope', `The Blink key lacks the scope ${scope}.`, scope)
  if (/^TOO_MANY_REQUESTS?$/.test(code))
    return new ProviderUnavailable('Blink asks us to wait before the next call.', BLOCKED, undefined, 'rate')
  return AWAY.test(code) ? unusableResponse(`an error of its own, ${code}`) : null
}
