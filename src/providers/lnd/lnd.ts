import { LRUCache } from 'lru-cache'
import { decodeInvoice, InvoiceError, shortDescription } from '../../lightning/bolt11.ts'
import type { Clock } from '../../system/clock.ts'
import type { Secret } from '../../keys/secrets.ts'
import type { AddressGuard } from '../../upstream/guard.ts'
import type { CallBudget, CallStanding } from '../budgets.ts'
import { ProviderRefused } from '../errors.ts'
import { readChannels, readInvoice, readNewInvoice } from './answers.ts'
import { ask, isUnknown, ok } from './calls.ts'
import { LndConnections } from './connections.ts'
import { settledAtNode } from './news.ts'
import { findChainPayout, findLightningPayout, sendOverChain, sendOverLightning } from './payouts.ts'
import { LndConnectError, readLndConnect, type LndConnection } from './lndconnect.ts'
import { AnswerTooLarge, unusableAnswer, type CallProvider } from '../provider-call.ts'
import type {
  Capabilities,
  Charge,
  ChargeRequest,
  ChargeState,
  KeyVerdict,
  Payout,
  PayoutRequest,
  Provider,
  SettledList,
  SettledSince
} from '../provider.ts'

/** What the kind needs. */
export interface LndOptions {
  readonly guard: AddressGuard
  /** Milliseconds for one call of the provider, however many HTTP calls it takes. */
  readonly timeout: number
  readonly clock: Clock
  /** None of our own where it is left out. */
  readonly budget?: CallBudget
  /**
   * The slot's own key from gateway.yaml: the very object that calls are made with, so that no merchant's key of the
   * same text is taken for it. Its host may be private.
   */
  readonly operatorKey: Secret<string> | null
  /** The slot's url in gateway.yaml: a private address that keys of merchants may name as well. */
  readonly url: string | null
}

const capabilities: Capabilities = Object.freeze({
  onchain: false,
  hostedCheckout: false,
  notifies: false,
  payout: Object.freeze({ lightning: true, chain: true })
})

const PAYMENT_HASH = /^[0-9a-f]{64}$/

/** Milliseconds for which it is believed whether a node has announced channels. */
const HINTS_KEPT = 600_000

/**
 * A node of its owner's, by lnd's REST API. The key is its lndconnect address (decision 71); the id of a charge is its
 * payment hash (decision 116). Its macaroon needs `invoices:read` and `invoices:write`; for refunds also
 * `offchain:read` and
 * `offchain:write`, on chain `onchain:read` and `onchain:write`.
 *
 * Known gaps: lnd sends no notification over HTTP, so payments are learnt of by looking; and it does not tell an
 * address of the wallet that belongs to one invoice, so invoices are payable over Lightning alone.
 */
export class LndProvider implements Provider {
  readonly kind = 'lnd'
  readonly keyless = false
  readonly capabilities = capabilities
  readonly #options: LndOptions
  readonly #connections: LndConnections
  readonly #ownOrigin: string | null
  readonly #hints = new LRUCache<string, { readonly isNeeded: boolean; readonly until: number }>({ max: 1000 })

  /** @throws LndConnectError for an operator's key that is none, TypeError for a url that is not https */
  constructor(options: LndOptions) {
    if (options.operatorKey !== null) readLndConnect(options.operatorKey.reveal().trim())
    this.#options = options
    this.#connections = new LndConnections(options)
    this.#ownOrigin = options.url === null ? null : originOf(options.url)
  }

  async createCharge(key: Secret<string> | null, request: ChargeRequest): Promise<Charge> {
    if (!Number.isSafeInteger(request.amountSats) || request.amountSats < 1) {
      throw new ProviderRefused(
        'request',
        `The amount must be a whole number of satoshis of at least 1, not ${request.amountSats}.`
      )
    }
    return await this.#within(
      key,
      async (call, { origin }) => await newInvoice(call, request, await this.#needsHints(call, origin)),
      request.standing
    )
  }

  async lookUp(key: Secret<string> | null, chargeId: string): Promise<ChargeState | null> {
    if (!PAYMENT_HASH.test(chargeId)) return null
    return await this.#within(key, async call => {
      const answer = await ask(call, {
        method: 'GET',
        path: `/v1/invoice/${chargeId}`,
        scope: 'invoices:read',
        answers: [404]
      })
      if (isUnknown(answer)) return null
      const invoice = readInvoice(ok(answer).body, this.#options.clock.now())
      if (invoice === null || invoice.paymentHash !== chargeId) throw unusableAnswer('an invoice without hash or state')
      return invoice.state
    })
  }

  /**
   * Pays over Lightning with the payment hash as what keeps it single: lnd pays none twice, and one that it knows
   * already is looked up. Over the chain our reference is the transaction's label; one that is found is not sent again.
   */
  async createPayout(key: Secret<string> | null, request: PayoutRequest): Promise<Payout> {
    return await this.#within(key, async call =>
      request.destination.type === 'ln'
        ? await sendOverLightning(call, request, request.destination.invoice, this.#options.timeout)
        : await sendOverChain(call, request, request.destination.address, this.#options.clock.now())
    )
  }

  async lookUpPayout(key: Secret<string> | null, request: PayoutRequest): Promise<Payout | null> {
    return await this.#within(key, async call =>
      request.destination.type === 'ln'
        ? ((await findLightningPayout(call, request.destination.invoice))?.payout ?? null)
        : await findChainPayout(call, request, this.#options.clock.now())
    )
  }

  /** Reads the node's info, where the macaroon may; then lists an invoice and makes one of 1 satoshi and 60 seconds. */
  async validateKey(key: Secret<string>): Promise<KeyVerdict> {
    try {
      await this.#within(key, async call => {
        // A macaroon for receiving alone need not read it: only what says that the key itself is bad counts here.
        await ask(call, { method: 'GET', path: '/v1/getinfo', scope: 'info:read' })
          .then(ok)
          .catch((error: unknown) => {
            if (!(error instanceof ProviderRefused && error.reason === 'scope')) throw error
          })
        ok(
          await ask(call, {
            method: 'GET',
            path: '/v1/invoices?num_max_invoices=1&reversed=true',
            scope: 'invoices:read'
          })
        )
        await newInvoice(call, { amountSats: 1, description: 'Key check', expirySeconds: 60 }, false)
      })
    } catch (error) {
      if (error instanceof ProviderRefused) return { isValid: false, message: error.message }
      throw error
    }
    return { isValid: true, message: 'The node accepts this key and makes invoices with it.' }
  }

  async listSettled(key: Secret<string>, wanted: SettledSince): Promise<SettledList> {
    return await this.#within(
      key,
      async (call, { origin }) => await settledAtNode(call, origin, this.#options.clock, wanted)
    )
  }

  /**
   * Whether invoices must say through which unannounced channels the node is reached, since it has no others. Where the
   * macaroon may not see the channels they say so too: what nobody can pay is worse than what shows a channel.
   */
  async #needsHints(call: CallProvider, origin: string): Promise<boolean> {
    const { clock } = this.#options
    const known = this.#hints.get(origin)
    if (known !== undefined && known.until > clock.now()) return known.isNeeded
    const isNeeded = !(await hasPublicChannel(call))
    this.#hints.set(origin, { isNeeded, until: clock.now() + HINTS_KEPT })
    return isNeeded
  }

  async close(): Promise<void> {
    await this.#connections.close()
  }

  async #within<T>(
    key: Secret<string> | null,
    run: (call: CallProvider, connection: LndConnection) => Promise<T>,
    standing?: CallStanding
  ): Promise<T> {
    const connection = readKey(key)
    // A host that gateway.yaml names is the operator's own.
    const isTrusted = (key !== null && key === this.#options.operatorKey) || connection.origin === this.#ownOrigin
    return await this.#connections.with(connection, isTrusted, http =>
      http.within(connection.macaroon, call => run(call, connection), standing)
    )
  }
}

/**
 * The host of a key, by which breakers tell nodes apart; empty for a text that is no key.
 */
export function lndHost(key: Secret<string> | null): string {
  try {
    return readKey(key).origin
  } catch (error) {
    if (error instanceof ProviderRefused) return ''
    throw error
  }
}

/** `https://host:port` as `readLndConnect` gives it. @throws TypeError for what is no https address */
function originOf(text: string): string {
  const url = new URL(text)
  if (url.protocol !== 'https:')
    throw new TypeError(
      'The url of an lnd node must begin with https://, since its macaroon goes along with each call.'
    )
  return `https://${url.hostname}:${url.port === '' ? '443' : url.port}`
}

function readKey(key: Secret<string> | null): LndConnection {
  if (key === null) throw new ProviderRefused('key', 'An lnd node needs a key.')
  try {
    return readLndConnect(key.reveal().trim())
  } catch (error) {
    throw error instanceof LndConnectError ? new ProviderRefused('key', error.message) : error
  }
}

async function hasPublicChannel(call: CallProvider): Promise<boolean> {
  try {
    const channels = readChannels(
      ok(await ask(call, { method: 'GET', path: '/v1/channels?public_only=true', scope: 'offchain:read' })).body
    )
    return channels !== null && channels > 0
  } catch (error) {
    // So many that they are not read.
    if (error instanceof AnswerTooLarge) return true
    if (error instanceof ProviderRefused && error.reason === 'scope') return false
    throw error
  }
}

async function newInvoice(
  call: CallProvider,
  { amountSats, description, expirySeconds }: ChargeRequest,
  isPrivate: boolean
): Promise<Charge> {
  const body = {
    value: String(amountSats),
    memo: shortDescription(description),
    expiry: String(expirySeconds),
    ...(isPrivate ? { private: true } : {})
  }
  const made = readNewInvoice(
    ok(await ask(call, { method: 'POST', path: '/v1/invoices', body, scope: 'invoices:write' })).body
  )
  if (made === null) throw unusableAnswer('no invoice in the answer')
  const { invoice, paymentHash } = made
  try {
    const decoded = decodeInvoice(invoice)
    if (decoded.paymentHash === paymentHash && decoded.amountMsat === BigInt(amountSats) * 1000n) {
      return {
        chargeId: paymentHash,
        invoice: decoded.text,
        paymentHash,
        expiresAt: decoded.expiresAt * 1000,
        network: decoded.network,
        onchainAddress: null,
        checkoutUrl: null
      }
    }
  } catch (error) {
    if (!(error instanceof InvoiceError)) throw error
  }
  throw unusableAnswer('an invoice other than the one asked for')
}
