import { randomBytes } from 'node:crypto'
import { encodeInvoice, type InvoiceTerms } from '../../src/lightning/codecs/bolt11-encode.ts'
import { paymentHashOf } from '../../src/lightning/codecs/hmac.ts'

/** What a fake gets wrong in an invoice. */
export type InvoiceLie = 'amount' | 'hash' | 'network'

/**
 * An invoice of a node that no gateway here is, with its preimage: on regtest, for 100 satoshis, good for ten minutes
 * from `at` on, in milliseconds, unless the terms say otherwise.
 */
export function newInvoice({
  at = Date.now(),
  amountSats = 100,
  lie = null,
  descriptionHash,
  network = 'regtest',
  ...terms
}: Omit<Partial<InvoiceTerms>, 'descriptionHash'> & {
  readonly at?: number
  /** Null for an open amount. */
  readonly amountSats?: number | null
  readonly lie?: InvoiceLie | null
  readonly descriptionHash?: string | undefined
} = {}) {
  const preimage = randomBytes(32).toString('hex')
  const paymentHash = paymentHashOf(preimage)
  const timestamp = Math.floor(at / 1000)
  const invoice = encodeInvoice(
    {
      network: lie === 'network' ? 'signet' : network,
      amountMsat: amountSats === null ? null : BigInt(amountSats + (lie === 'amount' ? 1 : 0)) * 1000n,
      paymentHash: lie === 'hash' ? randomBytes(32).toString('hex') : paymentHash,
      paymentSecret: randomBytes(32).toString('hex'),
      timestamp,
      expirySeconds: 600,
      description: '',
      ...(descriptionHash === undefined ? {} : { descriptionHash }),
      ...terms
    },
    Buffer.alloc(32, 3)
  )
  return { invoice, preimage, paymentHash, createdAt: timestamp * 1000 }
}
