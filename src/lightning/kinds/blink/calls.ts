import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Secret } from '../../../platform/keys/secrets.ts'
import type { Clock } from '../../../platform/system/clock.ts'
import { noBudget, type CallBudget, type CallStanding } from '../../provider-calls/budgets.ts'
import { NothingSent, ProviderRefused, ProviderUnavailable } from '../../provider-calls/errors.ts'
import { ProviderHttp, type CallProvider } from '../../provider-calls/provider-call.ts'
import { readBtcWallet } from './answers.ts'
import { WALLETS } from './documents.ts'
import { askBlink, blinkMessage } from './graphql.ts'

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
        const known = this.#wallets.get(name) ?? readBtcWallet((await askBlink(call, WALLETS)).data)
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
