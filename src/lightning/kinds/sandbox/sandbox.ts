import { requireSats } from '../../provider-calls/lightning-charge.ts'
import { everyBatch } from '../../../platform/jobs/jobs.ts'
import { hash, randomUUID } from 'node:crypto'
import { CONFLICT, INVALID_STATE, RESOURCE_NOT_FOUND, VALIDATION } from '../../../engine/operations/error-kinds.ts'
import { LongError } from '../../../engine/operations/errors.ts'
import type { ReadonlyHeaders } from '../../../engine/message/headers.ts'
import { decodeInvoice, InvoiceError } from '../../codecs/bolt11.ts'
import { encodeInvoice, shortDescription } from '../../codecs/bolt11-encode.ts'
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
} from '../../provider-calls/provider.ts'
import { draftPayout, payoutAt } from './payouts.ts'
import { type SandboxState, SandboxStore } from './store.ts'
import { Type } from 'typebox'
import { orNull } from '../../../engine/formats/response-schema.ts'
import { isSigned, parseNotification, requireSubject } from '../../provider-calls/notifications.ts'
import { join } from 'node:path'
import { loadNodeKey } from './node-key.ts'
import type { ProviderKind } from '../kind.ts'

interface SandboxOptions {
  readonly store: SandboxStore
  /** Private key of its node, 32 bytes (`loadNodeKey`). */
  readonly nodeKey: Uint8Array
  readonly clock: Clock
  readonly random?: Random
  /** Reports the sandbox's own invoices settled by a payout, as `POST /sandbox/pay` does. Should not reject. */
  readonly settled?: (paymentHash: string) => void | Promise<void>
}

export interface SandboxPayment {
  /** 64 lower-case hex characters, as `paymentHash`. */
  readonly preimage: string
  readonly paymentHash: string
  readonly amountSats: number
}

interface BroughtInvoice {
  readonly paymentHash: string
  readonly state: SandboxState['state']
  readonly amountSats: number
  readonly receivedSats: number
}

const capabilities: Capabilities = Object.freeze({
  onchain: false,
  hostedCheckout: false,
  notifies: false,
  payout: Object.freeze({ lightning: true, chain: true, once: true })
})

const shortestKey = 8
// Keys that trigger failures (decision 72).
const invalidKey = 'sandbox-invalid'
const readOnlyKey = 'sandbox-no-create'
const receiveOnlyKey = 'sandbox-no-payout'
/** Scope that `sandbox-no-create` lacks, spelled like a primary key's (contract, Merchant self-service). */
const createScope = 'partner.receive-request.create'
const payoutScope = 'partner.payment-quote.execute'

/** Milliseconds for which expired invoices are kept. */
const KEPT = 30 * 86_400_000
const PURGE_BATCH = 1_000

/**
 * A simulated Lightning provider: real invoices, signed by its own regtest node, settled by `POST /sandbox/pay`.
 * Refused in production.
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
    requireSats(request.amountSats)
    // BOLT 11 has whole seconds; stored times must match the invoice.
    const timestamp = Math.floor(this.#clock.now() / 1000)
    const preimage = Buffer.from(this.#random(32))
    const paymentHash = hash('sha256', preimage, 'hex')
    const description = shortDescription(request.description)
    const { amountSats, expirySeconds, hashed } = request
    const invoice = encodeInvoice(
      {
        network: 'regtest',
        amountMsat: BigInt(amountSats) * 1000n,
        paymentHash,
        paymentSecret: Buffer.from(this.#random(32)).toString('hex'),
        timestamp,
        expirySeconds,
        description,
        ...(hashed && { descriptionHash: hashed.hash })
      },
      this.#nodeKey
    )
    const expiresAt = (timestamp + expirySeconds) * 1000
    const made = { chargeId: `sbx_${randomUUID()}`, paymentHash, invoice, expiresAt }
    const row = { ...made, preimage: preimage.toString('hex'), amountSats, description, createdAt: timestamp * 1000 }
    await reached(this.#store.insert(row))
    return { ...made, network: 'regtest', onchainAddress: null, checkoutUrl: null }
  }

  async lookUp(_key: Secret<string> | null, chargeId: string): Promise<ChargeState | null> {
    const row = await reached(this.#store.byChargeId(chargeId))
    if (row === null) return null
    if (row.settledAt !== null) return { status: 'paid', receivedSats: row.amountSats, settledAt: row.settledAt }
    // A pending payment that never arrived expires; a partial one stays.
    const status =
      row.state === 'underpaid' ? row.state : row.expiresAt <= this.#clock.now() ? 'expired' : (row.state ?? 'unpaid')
    return { status, receivedSats: row.receivedSats, settledAt: null }
  }

  async createPayout(key: Secret<string> | null, request: PayoutRequest): Promise<Payout> {
    const fault = key === null ? null : (faultOf(key) ?? lacksScope(key, receiveOnlyKey, payoutScope))
    if (fault !== null) throw fault
    const now = this.#clock.now()
    const held = await reached(this.#store.payoutByReference(request.reference))
    if (held !== null) return payoutAt(held, now)
    const draft = draftPayout(request, now, this.#random)
    // A connection broken during the statement may have paid.
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
    const payout = await reached(this.#store.payoutByReference(reference))
    return payout === null ? null : payoutAt(payout, this.#clock.now())
  }

  async validateKey(key: Secret<string>): Promise<KeyVerdict> {
    const fault = faultOf(key) ?? lacksScope(key, readOnlyKey, createScope)
    return fault === null
      ? { isValid: true, message: 'The sandbox accepts this key.' }
      : { isValid: false, message: fault.message }
  }

  /**
   * Settles an invoice. Repeating returns the same preimage, also after expiry.
   * @throws LongError 400 for an invalid or expired invoice, 404 for a foreign one; ProviderUnavailable when the
   *   database is down
   */
  async settle(invoice: string): Promise<SandboxPayment> {
    const paymentHash = readHash(invoice)
    const settlement = await reached(this.#store.settle(paymentHash, this.#clock.now()))
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
   * Brings an invoice into a state for tests. The payment's owner must then look it up.
   * @param receivedSats for an underpaid one; half by default
   * @throws LongError 400 for an invalid invoice or a non-partial amount, 404 for a foreign invoice, 409 where the
   *   state is impossible; ProviderUnavailable when the database is down
   */
  async bring(invoice: string, state: SandboxState['state'], receivedSats: number | null): Promise<BroughtInvoice> {
    const paymentHash = readHash(invoice)
    const row = await reached(this.#store.byPaymentHash(paymentHash))
    if (row === null) throw unknownInvoice()
    const part = receivedSats ?? Math.floor(row.amountSats / 2)
    if (state !== 'underpaid' && receivedSats !== null)
      throw new LongError(VALIDATION, 'Invalid amount', 'receivedSats is for underpaid alone.')
    if (state === 'underpaid' && (part < 1 || part >= row.amountSats))
      throw new LongError(
        VALIDATION,
        'Invalid amount',
        `A part of an invoice for ${row.amountSats} sat is at least 1 and less than that, not ${part}.`
      )
    const to = state === 'underpaid' ? { state, receivedSats: part } : { state }
    const brought = await reached(this.#store.bring(paymentHash, to, this.#clock.now()))
    if (brought === null)
      throw new LongError(
        CONFLICT,
        'Not possible any more',
        `The invoice is paid, has expired, or has as much of its amount already: it cannot become ${state}.`
      )
    return { paymentHash, state, amountSats: brought.amountSats, receivedSats: brought.receivedSats }
  }

  /**
   * Reads the sandbox's notification: JSON `{"chargeId": "sbx_…"}`, with the hex HMAC-SHA256 of the bytes under the
   * account's key in `X-Sandbox-Signature`. Lets receivers be tested without a real provider (decision 163). The
   * sandbox sends none automatically.
   * @throws ProviderNotificationError for another form
   */
  readNotification(headers: ReadonlyHeaders, body: Uint8Array): ProviderNotification {
    const { chargeId } = parseNotification(SandboxEvent, body)
    return {
      chargeId: requireSubject(chargeId, 'charge'),
      verify: secret => isSigned(body, headers.get('x-sandbox-signature') ?? '', secret)
    }
  }

  /** Deletes invoices 30 days after expiry; payments are no longer looked up by then. Run periodically. */
  async purge(): Promise<void> {
    await everyBatch(PURGE_BATCH, size => this.#store.purge(this.#clock.now() - KEPT, size))
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
    // The signature adds nothing: only stored invoices are paid.
    return decodeInvoice(invoice.trim().replace(/^lightning:/i, ''), { signature: 'none' }).paymentHash
  } catch (error) {
    if (!(error instanceof InvoiceError)) throw error
    throw new LongError(VALIDATION, 'Invalid invoice', `${error.message}.`)
  }
}

/** @throws ProviderUnavailable while the database is down */
async function reached<T>(work: Promise<T>): Promise<T> {
  return await work.catch((error: unknown) => {
    throw isConnectionFault(error)
      ? new ProviderUnavailable('The sandbox cannot make or settle invoices at the moment.', 5, error)
      : error
  })
}

const SandboxEvent = Type.Object({ chargeId: orNull(Type.String({ pattern: '^[\\w-]{1,100}$' })) })

/** Its node key is in `<data>/sandbox-node.key`, created on first use. */
export const sandbox: ProviderKind = {
  name: 'sandbox',
  isSandbox: true,
  hashesDescriptions: 'own',
  // It reports every payment in process.
  calls: null,
  about: 'no money, no key: to try it',
  keyHint: 'Any text of 8 characters or more. The sandbox moves no money.',
  keyFault: () => undefined,
  open: ({ database, dataDir, clock, settled }) =>
    new SandboxProvider({
      store: new SandboxStore(database.sql),
      nodeKey: loadNodeKey(join(dataDir, 'sandbox-node.key')),
      clock,
      settled
    })
}
