import { hash, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { encodeInvoice, shortDescription } from '../../lightning/codecs/bolt11-encode.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { systemRandom, type Random } from '../../platform/system/ids.ts'
import { loadNodeKey } from '../../lightning/kinds/sandbox/node-key.ts'
import type { Charge } from '../../lightning/provider-calls/provider.ts'

/** Seconds for which a demo invoice can be "paid" (contract, Limits: demo invoices 10 minutes). */
const DEMO_EXPIRY_SECONDS = 600

/** Makes unpayable invoices for demo payments of amount 0 (decision 43). */
export interface DemoInvoices {
  create(description: string): Charge
}

interface DemoOptions {
  readonly nodeKey: Uint8Array
  readonly clock: Clock
  readonly random?: Random
}

/**
 * Regtest invoices without an amount, signed by a key of their own: no wallet with money pays them. The preimage is
 * discarded.
 */
export class SignedDemoInvoices implements DemoInvoices {
  readonly #nodeKey: Uint8Array
  readonly #clock: Clock
  readonly #random: Random

  constructor({ nodeKey, clock, random = systemRandom }: DemoOptions) {
    this.#nodeKey = nodeKey
    this.#clock = clock
    this.#random = random
  }

  create(description: string): Charge {
    // BOLT 11 counts whole seconds; the shown times must match the invoice.
    const timestamp = Math.floor(this.#clock.now() / 1000)
    const paymentHash = hash('sha256', this.#random(32), 'hex')
    const invoice = encodeInvoice(
      {
        network: 'regtest',
        amountMsat: null,
        paymentHash,
        paymentSecret: Buffer.from(this.#random(32)).toString('hex'),
        timestamp,
        expirySeconds: DEMO_EXPIRY_SECONDS,
        description: shortDescription(description)
      },
      this.#nodeKey
    )
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
}

/**
 * Uses or creates `<dataDir>/demo-node.key`.
 * @throws CodedError
 */
export function openDemoInvoices(dataDir: string, clock: Clock): SignedDemoInvoices {
  return new SignedDemoInvoices({ nodeKey: loadNodeKey(join(dataDir, 'demo-node.key')), clock })
}
