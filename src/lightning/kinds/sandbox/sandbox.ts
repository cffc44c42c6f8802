import { hash, randomUUID } from 'node:crypto'
import { CONFLICT, INVALID_STATE, RESOURCE_NOT_FOUND, VALIDATION } from '../../../engine/operations/error-kinds.ts'
import { LongError } from '../../../engine/operations/errors.ts'
import type { ReadonlyHeaders } from '../../../engine/message/headers.ts'
import { decodeInvoice, encodeInvoice, InvoiceError, shortDescription } from '../../codecs/bolt11.ts'
import type { Clock } from '../../../platform/system/clock.ts'
import { isConnectionFault } from '../../../platform/database/database.ts'
import { systemRandom, type Random } from '../../../platform/system/ids.ts'
import { periodic, type JobDeclaration } from '../../../platform/jobs/jobs.ts'
import type { Secret } from '../../../platform/keys/secrets.ts'
import { PayoutUncertain, ProviderRefused, ProviderUnavailable } from '../../provider-calls/errors.ts'
import type {
  Capabilities,
  Charge,
  ChargeRequest,
  ChargeState,
  KeyVerdict,
  Payout,
  PayoutRequest,
  Provider,
  ProviderNotification
} from '../../providers/provider.ts'
import { draftPayout, payoutAt } from './payouts.ts'
import { type SandboxState, type SandboxStore, SqlSandboxStore } from './store.ts'
import { Type } from 'typebox'
import { orNull } from '../../../engine/formats/response-schema.ts'
import { isSigned, parseNotification, requireSubject } from '../../provider-calls/notifications.ts'
import { join } from 'node:path'
import { loadNodeKey } from './node-key.ts'
import type { ProviderKind } from '../kind.ts'

/** What the sandbox needs. */
export interface SandboxOptions {
  readonly store: SandboxStore
  /** The private key of its node, 32 bytes (`loadNodeKey`). */
  readonly nodeKey: Uint8Array
  readonly clock: Clock
  readonly random?: Random
  /**
   * Told of each invoice of the sandbox's own that a payout has just settled, as `POST /sandbox/pay` tells of those
   * that are paid there. It should not reject.
   */
  readonly settled?: (paymentHash: string) => void | Promise<void>
}

/** What a payer of the sandbox gets: `{preimage, paymentHash, amountSats}`. */
export interface SandboxPayment {
  /** 64 lower-case hex characters, as the hash. */
  readonly preimage: string
  readonly paymentHash: string
  readonly amountSats: number
}

/** An invoice of the sandbox as it was brought into a state. */
export interface BroughtInvoice {
  /** 64 lower-case hex characters. */
  readonly paymentHash: string
  readonly state: SandboxState['state']
  readonly amountSats: number
  readonly receivedSats: number
}

const capabilities: Capabilities = Object.freeze({
  onchain: false,
  hostedCheckout: false,
  notifies: false,
  // A reference has one row.
  payout: Object.freeze({ lightning: true, chain: true, once: true })
})

const shortestKey = 8
// Keys that let people try the bad cases (decision 72).
const invalidKey = 'sandbox-invalid'
const readOnlyKey = 'sandbox-no-create'
const receiveOnlyKey = 'sandbox-no-payout'
/** The scope that `sandbox-no-create` lacks, spelt as a primary key's scopes are (contract, Merchant self-service). */
const createScope = 'partner.receive-request.create'
/** The scope that `sandbox-no-payout` lacks. */
const payoutScope = 'partner.payment-quote.execute'

/** Milliseconds that an expired invoice is kept. */
const KEPT = 30 * 86_400_000
/** Invoices that are deleted at once. */
const PURGE_BATCH = 1_000

/**
 * A Lightning provider without Lightning: real invoices, signed by a node of its own on regtest, that are settled by
 * asking (`POST /sandbox/pay`). Refused in production.
 */
export class SandboxProvider implements Provider {
  readonly kind = 'sandbox'
  readonly keyless = true
  readonly capabilities = capabilities
  readonly #store: SandboxStore
  readonly #nodeKey: Uint8Array
  readonly #clock: Clock
  readonly #random: Random
  readonly #settled: SandboxOptions['settled']

  constructor(options: SandboxOptions) {
    this.#store = options.store
    this.#nodeKey = options.nodeKey
    this.#clock = options.clock
    this.#random = options.random ?? systemRandom
    this.#settled = options.settled
  }

  get jobs(): readonly JobDeclaration[] {
    return [periodic('sandbox-purge', 3_600_000, 'Deletes old invoices of the sandbox', () => this.purge())]
  }

  async createCharge(key: Secret<string> | null, request: ChargeRequest): Promise<Charge> {
    if (key !== null) {
      const fault = faultOf(key) ?? lacksScope(key, readOnlyKey, createScope)
      if (fault !== null) throw fault
    }
    if (!Number.isSafeInteger(request.amountSats) || request.amountSats < 1) {
      throw new ProviderRefused(
        'request',
        `The amount must be a whole number of satoshis of at least 1, not ${request.amountSats}.`
      )
    }
    // BOLT 11 counts whole seconds; the remembered times must be the invoice's own.
    const timestamp = Math.floor(this.#clock.now() / 1000)
    const preimage = Buffer.from(this.#random(32))
    const paymentHash = hash('sha256', preimage, 'hex')
    const description = shortDescription(request.description)
    try {
      const invoice = encodeInvoice(
        {
          network: 'regtest',
          amountMsat: BigInt(request.amountSats) * 1000n,
          paymentHash,
          paymentSecret: Buffer.from(this.#random(32)).toString('hex'),
          timestamp,
          expirySeconds: request.expirySeconds,
          description
        },
        this.#nodeKey
      )
      const chargeId = `sbx_${randomUUID()}`
      const expiresAt = (timestamp + request.expirySeconds) * 1000
      const row = {
        chargeId,
        paymentHash,
        preimage: preimage.toString('hex'),
        invoice,
        amountSats: request.amountSats,
        description,
        createdAt: timestamp * 1000,
        expiresAt
      }
      const charge: Charge = {
        chargeId,
        invoice,
        paymentHash,
        expiresAt,
        network: 'regtest',
        onchainAddress: null,
        checkoutUrl: null
      }
      await this.#store.insert(row)
      return charge
    } catch (error) {
      throw away(error)
    }
  }

  async lookUp(_key: Secret<string> | null, chargeId: string): Promise<ChargeState | null> {
    const row = await this.#store.byChargeId(chargeId).catch((error: unknown) => {
      throw away(error)
    })
    if (row === null) return null
    if (row.settledAt !== null) return { status: 'paid', receivedSats: row.amountSats, settledAt: row.settledAt }
    // What was on its way and never came expires; what came in part stays here.
    const status =
      row.state === 'underpaid' ? row.state : row.expiresAt <= this.#clock.now() ? 'expired' : (row.state ?? 'unpaid')
    return { status, receivedSats: row.receivedSats, settledAt: null }
  }

  /**
   * Pays over Lightning at once, over the chain five seconds later by the clock. The same reference gives the same
   * payout.
   */
  async createPayout(key: Secret<string> | null, request: PayoutRequest): Promise<Payout> {
    const fault = key === null ? null : (faultOf(key) ?? lacksScope(key, receiveOnlyKey, payoutScope))
    if (fault !== null) throw fault
    const now = this.#clock.now()
    const held = await this.#store.payoutByReference(request.reference).catch((error: unknown) => {
      throw away(error)
    })
    if (held !== null) return payoutAt(held, now)
    const draft = draftPayout(request, now, this.#random)
    // A connection that breaks while the statement runs may have paid.
    const verdict = await this.#store.payOut(draft).catch((error: unknown) => {
      throw new PayoutUncertain(error)
    })
    if (verdict.kind === 'already paid')
      throw new ProviderRefused('request', 'The Lightning invoice has been paid before.')
    if (verdict.settled && verdict.payout.paymentHash !== null) await this.#settled?.(verdict.payout.paymentHash)
    return payoutAt(verdict.payout, now)
  }

  async lookUpPayout(
    _key: Secret<string> | null,
    { reference }: Pick<PayoutRequest, 'reference'>
  ): Promise<Payout | null> {
    const payout = await this.#store.payoutByReference(reference).catch((error: unknown) => {
      throw away(error)
    })
    return payout === null ? null : payoutAt(payout, this.#clock.now())
  }

  async validateKey(key: Secret<string>): Promise<KeyVerdict> {
    const fault = faultOf(key) ?? lacksScope(key, readOnlyKey, createScope)
    return fault === null
      ? { isValid: true, message: 'The sandbox accepts this key.' }
      : { isValid: false, message: fault.message }
  }

  /**
   * Pays an invoice of the sandbox. Paying again gives the same preimage, also after its expiry.
   * @throws LongError 400 for a text that is no invoice and for an expired one, 404 for one of somebody else's;
   *   ProviderUnavailable when the database is away
   */
  async settle(invoice: string): Promise<SandboxPayment> {
    const paymentHash = readHash(invoice)
    const settlement = await this.#store.settle(paymentHash, this.#clock.now()).catch((error: unknown) => {
      throw away(error)
    })
    if (settlement.kind === 'unknown') {
      throw unknownInvoice()
    }
    if (settlement.kind === 'expired') {
      throw new LongError(
        INVALID_STATE,
        'Invoice expired',
        `The invoice could be paid until ${new Date(settlement.invoice.expiresAt).toISOString()}; ask for a new one.`
      )
    }
    const { preimage, amountSats } = settlement.invoice
    return { preimage, paymentHash, amountSats }
  }

  /**
   * Brings an invoice of the sandbox into a state, so that what follows from it can be tried. Whoever keeps its payment
   * is to look it up then, as when it was paid.
   * @param receivedSats of an underpaid one; half of what it asks for unless said
   * @throws LongError 400 for a text that is no invoice and for an amount that is not in part, 404 for an invoice of
   *   somebody else's, 409 where the invoice cannot become that any more; ProviderUnavailable when the database is away
   */
  async bring(invoice: string, state: SandboxState['state'], receivedSats: number | null): Promise<BroughtInvoice> {
    const paymentHash = readHash(invoice)
    try {
      const row = await this.#store.byPaymentHash(paymentHash)
      if (row === null) throw unknownInvoice()
      const part = receivedSats ?? Math.floor(row.amountSats / 2)
      if (state !== 'underpaid' && receivedSats !== null)
        throw new LongError(VALIDATION, 'Invalid amount', 'receivedSats is for underpaid alone.')
      if (state === 'underpaid' && (part < 1 || part >= row.amountSats)) {
        throw new LongError(
          VALIDATION,
          'Invalid amount',
          `A part of an invoice for ${row.amountSats} sat is at least 1 and less than that, not ${part}.`
        )
      }
      const brought = await this.#store.bring(
        paymentHash,
        state === 'underpaid' ? { state, receivedSats: part } : { state },
        this.#clock.now()
      )
      if (brought === null)
        throw new LongError(
          CONFLICT,
          'Not possible any more',
          `The invoice is paid, has expired, or has as much of its amount already: it cannot become ${state}.`
        )
      return { paymentHash, state, amountSats: brought.amountSats, receivedSats: brought.receivedSats }
    } catch (error) {
      throw away(error)
    }
  }

  /**
   * A notification as a provider would send it: JSON `{"chargeId": "sbx_…"}`, signed with the account's key. Nobody
   * sends one by itself.
   */
  readNotification(headers: ReadonlyHeaders, body: Uint8Array): ProviderNotification | null {
    return readSandboxNotification(headers, body)
  }

  /** Deletes invoices that expired 30 days ago; a periodic job's. A payment is not looked up for so long. */
  async purge(): Promise<void> {
    while ((await this.#store.purge(this.#clock.now() - KEPT, PURGE_BATCH)) === PURGE_BATCH) {
      /* there may be more */
    }
  }

  async close(): Promise<void> {}
}

function faultOf(key: Secret<string>): ProviderRefused | null {
  const text = key.reveal()
  if (text === invalidKey) return new ProviderRefused('key', 'The provider does not accept this key.')
  if (text.length < shortestKey)
    return new ProviderRefused('key', `A sandbox key has at least ${shortestKey} characters.`)
  return null
}

function lacksScope(key: Secret<string>, name: string, scope: string): ProviderRefused | null {
  return key.reveal() === name
    ? new ProviderRefused('scope', `The provider key lacks the scope ${scope}.`, scope)
    : null
}

function unknownInvoice(): LongError {
  return new LongError(
    RESOURCE_NOT_FOUND,
    'Invoice not found',
    'The sandbox made no invoice with this payment hash; it can pay only its own.'
  )
}

function readHash(invoice: string): string {
  try {
    // Its signature adds nothing: only what the table holds is ever paid.
    return decodeInvoice(invoice.trim().replace(/^lightning:/i, ''), { signature: 'none' }).paymentHash
  } catch (error) {
    if (!(error instanceof InvoiceError)) throw error
    throw new LongError(VALIDATION, 'Invalid invoice', `${error.message}.`)
  }
}

function away(error: unknown): unknown {
  return isConnectionFault(error)
    ? new ProviderUnavailable('The sandbox cannot make or settle invoices at the moment.', 5, error)
    : error
}

const SandboxEvent = Type.Object({ chargeId: orNull(Type.String({ pattern: '^[\\w-]{1,100}$' })) })

/**
 * What a notification in the sandbox's own form says: JSON `{"chargeId": "sbx_…"}`, with the hex HMAC-SHA256 of the
 * bytes under the account's key in `X-Sandbox-Signature`. So a receiver can be tried before there is a real provider
 * (decision 163).
 * @throws ProviderNotificationError for what has another form
 */
function readSandboxNotification(headers: ReadonlyHeaders, body: Uint8Array): ProviderNotification {
  const { chargeId } = parseNotification(SandboxEvent, body)
  return {
    chargeId: requireSubject(chargeId, 'charge'),
    verify: secret => isSigned(body, headers.get('x-sandbox-signature') ?? '', secret)
  }
}

/** The sandbox; the key of its node is in `<data>/sandbox-node.key`, made when it is first needed. */
export const sandbox: ProviderKind = {
  name: 'sandbox',
  isSandbox: true,
  // It tells of every payment within this process.
  calls: null,
  keyFault: () => undefined,
  open: ({ database, dataDir, clock, settled }) =>
    new SandboxProvider({
      store: new SqlSandboxStore(database.sql),
      nodeKey: loadNodeKey(join(dataDir, 'sandbox-node.key')),
      clock,
      settled
    })
}
