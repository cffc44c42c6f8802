import { hash, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { Unavailable } from '../gateway/errors.ts'
import { shortDescription, type InvoiceTerms } from '../lightning/bolt11.ts'
import type { Clock } from '../system/clock.ts'
import { systemRandom, type Random } from '../system/ids.ts'
import { loadNodeKey } from '../providers/sandbox/node-key.ts'
import type { Charge } from '../providers/provider.ts'
import { InvoiceSigner, SignerStopped } from '../providers/sandbox/signer.ts'

/** Seconds for which a demo invoice can be "paid" (contract, Limits: demo invoices 10 minutes). */
const DEMO_EXPIRY_SECONDS = 600

/** Makes the invoices of demo payments (amount 0), which no provider knows and nobody can pay (decision 43). */
export interface DemoInvoices {
  /** @throws Unavailable 503 when none can be signed */
  create(description: string): Promise<Charge>
  close(): Promise<void>
}

/** What demo invoices are signed with. */
export interface DemoOptions {
  readonly signer: { sign(terms: InvoiceTerms): Promise<string>; close(): Promise<void> }
  readonly clock: Clock
  readonly random?: Random
}

/**
 * Demo invoices without an amount, on regtest, signed by a node key of their own, so that no wallet with money pays
 * one. The preimage is thrown away: not even we could settle it.
 */
export class SignedDemoInvoices implements DemoInvoices {
  readonly #signer: DemoOptions['signer']
  readonly #clock: Clock
  readonly #random: Random

  constructor({ signer, clock, random = systemRandom }: DemoOptions) {
    this.#signer = signer
    this.#clock = clock
    this.#random = random
  }

  async create(description: string): Promise<Charge> {
    // BOLT 11 counts whole seconds; what we show must be the invoice's own.
    const timestamp = Math.floor(this.#clock.now() / 1000)
    const paymentHash = hash('sha256', this.#random(32), 'hex')
    const invoice = await this.#sign({
      network: 'regtest',
      amountMsat: null,
      paymentHash,
      paymentSecret: Buffer.from(this.#random(32)).toString('hex'),
      timestamp,
      expirySeconds: DEMO_EXPIRY_SECONDS,
      description: shortDescription(description)
    })
    return {
      chargeId: `demo_${randomUUID()}`,
      invoice,
      paymentHash,
      expiresAt: (timestamp + DEMO_EXPIRY_SECONDS) * 1000,
      network: 'regtest',
      onchainAddress: null,
      checkoutUrl: null
    }
  }

  async close(): Promise<void> {
    await this.#signer.close()
  }

  async #sign(terms: InvoiceTerms): Promise<string> {
    try {
      return await this.#signer.sign(terms)
    } catch (error) {
      if (!(error instanceof SignerStopped)) throw error
      throw new Unavailable('Service unavailable', 'Demo invoices cannot be signed at the moment.', 5, {}, error)
    }
  }
}

/** Demo invoices whose node key is in `<dataDir>/demo-node.key`, made there when it is not. @throws NodeKeyError */
export function openDemoInvoices(dataDir: string, clock: Clock): SignedDemoInvoices {
  return new SignedDemoInvoices({ signer: new InvoiceSigner(loadNodeKey(join(dataDir, 'demo-node.key'))), clock })
}
