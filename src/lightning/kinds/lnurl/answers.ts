import { createHash } from 'node:crypto'
import { decodeInvoice, InvoiceError } from '../../codecs/bolt11.ts'
import { jsonHash, jsonMembers, jsonText, jsonWhole } from '../../provider-calls/json-members.ts'
import { lnurlPlace, type LnurlPlace } from './key.ts'

/**
 * Reads what LNURL servers answer (LUD-06, -12, -18 and -21). They say with status 200 that something went wrong. Amounts
 * are millisatoshis.
 */

/** What an error of an LNURL server says; null where the answer is none. Some answer as their web frameworks do. */
export function lnurlMessage(body: unknown): string | null {
  const error = jsonMembers(body)
  if (!isLnurlError(body)) return jsonText(error?.['detail'])
  return jsonText(error?.['reason']) ?? 'it gave no reason'
}

/** Whether an answer with status 200 is an error. */
export function isLnurlError(body: unknown): boolean {
  const status = jsonMembers(body)?.['status']
  return typeof status === 'string' && status.toUpperCase() === 'ERROR'
}

/** Under which terms an address makes invoices. */
export interface LnurlTerms {
  readonly callback: LnurlPlace
  /** Whole satoshis that an invoice may be over, from and to. */
  readonly least: number
  readonly most: number
  /** Characters of a comment; 0 where none may be sent. */
  readonly comment: number
  /** 64 hex characters: what an invoice holds in the place of a description. */
  readonly descriptionHash: string
  /** Something that it wants to know of each payer, and that nobody could tell it here; null where there is nothing. */
  readonly demands: string | null
}

/** The answer to the first request; null when it is none that can be used. */
export function readLnurlTerms(body: unknown): LnurlTerms | null {
  const read = jsonMembers(body)
  const callback = jsonText(read?.['callback'])
  const place = callback === null ? null : lnurlPlace(callback)
  const metadata = jsonText(read?.['metadata'])
  const least = Math.max(1, Math.ceil(millisatoshis(read?.['minSendable']) / 1000))
  const most = Math.floor(millisatoshis(read?.['maxSendable']) / 1000)
  if (read?.['tag'] !== 'payRequest' || place === null || metadata === null || most < least) return null
  const wanted = Object.entries(jsonMembers(read['payerData']) ?? {})
  return {
    callback: place,
    least,
    most,
    comment: jsonWhole(read['commentAllowed']),
    descriptionHash: createHash('sha256').update(metadata).digest('hex'),
    demands: wanted.find(([, how]) => jsonMembers(how)?.['mandatory'] === true)?.[0] ?? null
  }
}

/** The invoice in the answer to the second request; null when there is none. */
export function readLnurlInvoice(
  body: unknown
): { readonly invoice: string; /** Null where the server gives none. */ readonly verify: string | null } | null {
  const read = jsonMembers(body)
  const invoice = jsonText(read?.['pr'])
  return invoice === null ? null : { invoice, verify: jsonText(read?.['verify']) }
}

/**
 * Whether an invoice was paid, by the answer of its verify address; null when it cannot be used: about another invoice,
 * or with a preimage that does not fit. The preimage goes no further than here.
 */
export function readLnurlVerify(body: unknown, paymentHash: string): { readonly isSettled: boolean } | null {
  const read = jsonMembers(body)
  if (read === null || typeof read['settled'] !== 'boolean') return null
  const invoice = jsonText(read['pr'])
  if (invoice !== null && hashOf(invoice) !== paymentHash) return null
  const preimage = jsonText(read['preimage'])
  if (read['settled'] && preimage !== null) {
    const proof = jsonHash(preimage.toLowerCase())
    const fits = proof !== null && createHash('sha256').update(Buffer.from(proof, 'hex')).digest('hex') === paymentHash
    if (!fits) return null
  }
  return { isSettled: read['settled'] }
}

/** A bound; LNbits names all the bitcoin there will ever be, which is more than counts exactly. */
function millisatoshis(value: unknown): number {
  return typeof value === 'number' && value > 0 ? Math.min(value, Number.MAX_SAFE_INTEGER) : 0
}

function hashOf(invoice: string): string | null {
  try {
    return decodeInvoice(invoice, { signature: 'none' }).paymentHash
  } catch (error) {
    if (error instanceof InvoiceError) return null
    throw error
  }
}
