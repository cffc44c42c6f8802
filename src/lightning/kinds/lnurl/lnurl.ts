import { everyBatch, periodic } from '../../../platform/jobs/jobs.ts'
import { LRUCache } from 'lru-cache'
import { Secret } from '../../../platform/keys/secrets.ts'
import type { Clock } from '../../../platform/system/clock.ts'
import type { CallPriority } from '../../provider-calls/budgets.ts'
import { ProviderRefused, unusableResponse, requireResponse } from '../../provider-calls/errors.ts'
import { KeyedCalls, type KeyedKind, type KeyedOptions } from '../../provider-calls/keyed-calls.ts'
import { invoiceOrNull, lightningCharge, nothingReceived } from '../../provider-calls/lightning-charge.ts'
import type { CallProvider } from '../../provider-calls/provider-call.ts'
import type { Charge, ChargeRequest, Provider } from '../../provider-calls/provider.ts'
import { KEY_CHECK, walletProvider, type WalletCalls } from '../../provider-calls/wallet-provider.ts'
import { isLnurlError, lnurlMessage, LnurlInvoice, LnurlTerms, readLnurlVerify } from './responses.ts'
import { lnurlPlace, readLnurlKey, type LnurlKey, type LnurlPlace } from './key.ts'
import { LnurlStore } from './store.ts'
import { addressKeyKind, type KindOptions } from '../kind.ts'

const http: KeyedKind<LnurlKey> = {
  kind: 'lnurl',
  server: 'server of the Lightning address',
  read: readLnurlKey,
  secretOf: ({ address }) => address,
  // LNURL has no credentials.
  authorize: () => ({}),
  messageOf: lnurlMessage,
  // Untrusted servers with short responses.
  largest: 64 * 1024
}

/** Milliseconds and addresses for which terms are cached. */
const TERMS_TTL = 120_000
const MAX_TERMS = 1_000
/** Minimum milliseconds of an invoice, whose expiry the server chooses. */
const LEAST_TIME = 30_000
/** Characters of a comment, even where servers accept more. */
const MAX_COMMENT = 200

const REDIRECTS: readonly number[] = [301, 302, 303, 307, 308]
const MAX_REDIRECTS = 3
const ACCEPTED = [200, 400, 404, ...REDIRECTS]

/** A server's response; `refusal` is the reason of an LNURL error, mostly sent with status 200. */
interface LnurlResponse {
  readonly body: unknown
  readonly refusal: string | null
}

type CallPlace = (place: LnurlPlace) => Promise<LnurlResponse>

interface Made {
  readonly charge: Charge
  /** Null where the server supports no verify. */
  readonly verify: string | null
}

/**
 * A Lightning address or LNURL-pay (LUD-06, -16) whose server supports verify (LUD-21); receives only. The key is the
 * address; charge ids are payment hashes (decision 116). Verify locations stay secret in our database, since they later
 * disclose the preimage.
 *
 * Known gaps:
 * - a server that hands out another payee's invoices is undetectable; its word counts for its own account alone;
 * - the server chooses the expiry, and reports no time of payment: the first sighting is used;
 * - Tor addresses are not called.
 */
function open(options: KindOptions): Provider {
  const { clock, database } = options
  const store = new LnurlStore(database.sql)
  const calls = new LnurlCalls(options)
  return walletProvider('lnurl', calls, {
    payout: null,
    createCharge: async (request, call, server) => {
      const created = await calls.newInvoice(call, server, request)
      const { charge } = created
      const { origin, path } = verifyOf(created)
      const { paymentHash, expiresAt } = charge
      if (!(await store.insert({ account: server.account, paymentHash, verify: `${origin}${path}`, expiresAt })))
        throw unusableResponse('an invoice that it gave before')
      return charge
    },
    lookUp: async (chargeId, call, { account }) => {
      const charge = await store.find(account, chargeId)
      if (charge === null) return null
      const { expiresAt, settledAt, verify } = charge
      if (settledAt !== null) return { status: 'paid', receivedSats: null, settledAt }
      const place = lnurlPlace(verify)
      if (place === null) throw new Error('the stored verify address is invalid')
      const isSettled = await settlement(call, place, chargeId)
      const now = clock.now()
      if (isSettled === true) return { status: 'paid', receivedSats: null, settledAt: await store.settled(charge, now) }
      if (expiresAt <= now) return nothingReceived('expired')
      return isSettled === null ? null : nothingReceived('unpaid')
    },
    /** Runs the whole flow: terms, an invoice over the minimum, and verify. */
    checkKey: async (call, server) => {
      const { least, most } = await calls.freshTerms(call, server)
      const created = await calls.newInvoice(call, server, { ...KEY_CHECK, amountSats: least })
      const { charge } = created
      if ((await settlement(call, verifyOf(created), charge.paymentHash)) !== false)
        throw new ProviderRefused(
          'key',
          'The server of the Lightning address does not report a new invoice as unpaid, so that its payment could not be detected.'
        )
      return {
        isValid: true,
        message: `The Lightning address makes invoices of ${least} to ${most} satoshis, and says when they are paid. It only receives: what is paid to it cannot be refunded through it.`,
        network: charge.network
      }
    }
  })
}

function verifyOf({ verify }: Made): LnurlPlace {
  if (verify === null)
    throw new ProviderRefused(
      'key',
      'The server of the Lightning address does not say whether its invoices are paid (it gives no verify address, LUD-21), so that no payment could ever be seen. Take an address at a service that does.'
    )
  const place = lnurlPlace(verify)
  if (place === null) throw unusableResponse('an invalid verify address')
  return place
}

export class LnurlCalls implements WalletCalls<readonly [CallPlace, LnurlKey]> {
  readonly #calls: KeyedCalls<LnurlKey>
  readonly #clock: Clock
  readonly #terms = new LRUCache<string, { readonly terms: LnurlTerms; readonly until: number }>({ max: MAX_TERMS })

  /** @throws AddressKeyError for an invalid operator's key */
  constructor(options: KeyedOptions) {
    this.#calls = new KeyedCalls(http, options)
    this.#clock = options.clock
  }

  async within<T>(
    key: Secret<string> | null,
    run: (call: CallPlace, server: LnurlKey) => Promise<T>,
    priority?: CallPriority
  ): Promise<T> {
    return await this.#calls.within(
      key,
      (call, server, elsewhere) =>
        run(
          place => requestInvoice(({ origin }) => (origin === server.origin ? call : elsewhere(origin)), place),
          server
        ),
      priority
    )
  }

  async freshTerms(call: CallPlace, server: LnurlKey): Promise<LnurlTerms> {
    const terms = requireResponse(LnurlTerms, accepted(await call(server)))
    this.#terms.set(server.account, { terms, until: this.#clock.now() + TERMS_TTL })
    return terms
  }

  async newInvoice(call: CallPlace, server: LnurlKey, request: ChargeRequest): Promise<Made> {
    const known = this.#terms.get(server.account)
    const terms =
      known !== undefined && known.until > this.#clock.now() ? known.terms : await this.freshTerms(call, server)
    const { amountSats } = request
    const { least, most, demands, callback } = terms
    if (demands !== null)
      throw new ProviderRefused(
        'key',
        `The Lightning address wants to know the ${demands.slice(0, 40)} of each payer, which is not known here.`
      )
    if (amountSats < least || amountSats > most)
      throw new ProviderRefused(
        'request',
        `The Lightning address takes ${least} to ${most} satoshis, not ${amountSats}.`
      )
    const query = `amount=${amountSats * 1000}${comment(request.description, terms.comment)}`
    const path = `${callback.path}${callback.path.includes('?') ? '&' : '?'}${query}`
    const created = await call({ origin: callback.origin, path })
    // Terms may have changed.
    if (created.refusal !== null) this.#terms.delete(server.account)
    const response = requireResponse(LnurlInvoice, accepted(created))
    const charge = lightningCharge(response.pr, null, amountSats)
    const descriptionHash = invoiceOrNull(response.pr)?.descriptionHash ?? null
    // Some omit it, as LUD-06 now allows; another hash means another payee's invoice.
    if (descriptionHash !== null && descriptionHash !== terms.descriptionHash)
      throw unusableResponse('an invoice for something else')
    if (charge.expiresAt < this.#clock.now() + LEAST_TIME) throw unusableResponse('an invoice that is about to end')
    return { charge, verify: response.verify }
  }

  /**
   * An invoice of an address for us to pay, of exactly this amount.
   * @throws as `createCharge`
   */
  async invoiceFor(address: string, amountSats: number): Promise<string> {
    const request = { amountSats, description: 'Refund', expirySeconds: LEAST_TIME / 1000 }
    const created = await this.within(new Secret(address), (...at) => this.newInvoice(...at, request))
    return created.charge.invoice
  }

  async close(): Promise<void> {
    await this.#calls.close()
  }
}

/**
 * Follows redirects, which are common at www and own domains and expose no key. Every host passes the address guard.
 */
async function requestInvoice(callOf: (place: LnurlPlace) => CallProvider, first: LnurlPlace): Promise<LnurlResponse> {
  let place = first
  for (let redirects = 0; ; redirects++) {
    const { path } = place
    const { status, body, said, location } = await callOf(place)({ method: 'GET', path, accepts: ACCEPTED })
    if (!REDIRECTS.includes(status)) {
      const isRefusal = status !== 200 || isLnurlError(body)
      return { body, refusal: isRefusal ? (said ?? `status ${status}`) : null }
    }
    const base = `${place.origin}${path}`
    const next = location !== null && URL.canParse(location, base) ? lnurlPlace(new URL(location, base).href) : null
    if (next === null || redirects === MAX_REDIRECTS)
      throw new ProviderRefused(
        'key',
        next === null
          ? 'The server of the Lightning address redirects to an address that cannot be called.'
          : `The server of the Lightning address redirects more than ${MAX_REDIRECTS} times.`
      )
    place = next
  }
}

/** @throws ProviderRefused with the server's reason */
function accepted({ body, refusal }: LnurlResponse): unknown {
  if (refusal === null) return body
  throw new ProviderRefused('request', `The server of the Lightning address refused: ${refusal}`)
}

/** Whether an invoice was paid; null when unknown to the server. */
async function settlement(call: CallPlace, verify: LnurlPlace, paymentHash: string): Promise<boolean | null> {
  const { body, refusal } = await call(verify)
  if (refusal !== null) return null
  const response = readLnurlVerify(body, paymentHash)
  if (response === null) throw unusableResponse('no word on an invoice')
  return response.isSettled
}

/** LUD-12. */
function comment(description: string, most: number): string {
  const text = [...description.toWellFormed().replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')]
    .slice(0, Math.min(most, MAX_COMMENT))
    .join('')
  return text.trim() === '' ? '' : `&comment=${encodeURIComponent(text)}`
}

const HOUR = 3_600_000
/** Milliseconds after expiry for which an invoice can be verified. */
const KEPT = 90 * 24 * HOUR
const PURGE_BATCH = 500

/** A Lightning address whose server supports verify (LUD-21). */
export const lnurl = addressKeyKind(readLnurlKey, {
  name: 'lnurl',
  onlyReceives: true,
  // Few servers publish limits: this suits a busy shop.
  limits: { burst: 60, perMinute: 120 },
  polling: { perMinute: 40, costs: { list: 1, lookUp: 1 } },
  about: 'a Lightning address; receives only',
  keyHint: 'The address at which your wallet receives, such as name@domain.',
  open,
  jobs: ({ clock, database }) => {
    const store = new LnurlStore(database.sql)
    return [
      periodic('lnurl-purge', HOUR, 'Forgets old invoices of Lightning addresses', () =>
        everyBatch(PURGE_BATCH, size => store.purge(clock.now() - KEPT, size))
      )
    ]
  }
})
