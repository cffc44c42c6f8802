import { createHash } from 'node:crypto'
import { Type, type StaticDecode } from 'typebox'
import { mapped, orNull, readResponse, Text } from '../../../engine/formats/response-schema.ts'
import { invoiceOrNull } from '../../provider-calls/lightning-charge.ts'
import { JsonRecord, Whole } from '../../provider-calls/responses.ts'
import { lnurlPlace } from './key.ts'

/*
 * Responses of LNURL servers (LUD-06, -12, -18 and -21). They say with status 200 that something went wrong. Amounts are
 * millisatoshis.
 */

const ErrorBody = Type.Object({ status: Type.Unknown(), reason: orNull(Text), detail: orNull(Text) })

/** What an error of an LNURL server says; null where it is none. Some answer as their web frameworks do. */
export function lnurlMessage(body: unknown): string | null {
  const { reason = null, detail = null } = readResponse(ErrorBody, body) ?? {}
  return isLnurlError(body) ? (reason ?? 'it gave no reason') : detail
}

/** Whether a response with status 200 is an error. */
export function isLnurlError(body: unknown): boolean {
  const status = readResponse(ErrorBody, body)?.status
  return typeof status === 'string' && status.toUpperCase() === 'ERROR'
}

/** A bound; LNbits names all the bitcoin there will ever be, which is more than counts exactly. */
const Bound = Type.Decode(Type.Unknown(), value =>
  typeof value === 'number' && value > 0 ? Math.min(value, Number.MAX_SAFE_INTEGER) : 0
)

const Demand = Type.Object({ mandatory: Type.Literal(true) })

/** Under which terms an address makes invoices: the response to the first request. */
export const LnurlTerms = mapped(
  Type.Object({
    tag: Type.Literal('payRequest'),
    callback: Text,
    metadata: Text,
    minSendable: Bound,
    maxSendable: Bound,
    commentAllowed: Whole,
    payerData: orNull(JsonRecord)
  }),
  ({ callback, metadata, minSendable, maxSendable, commentAllowed, payerData }) => {
    const place = lnurlPlace(callback)
    const least = Math.max(1, Math.ceil(minSendable / 1000))
    const most = Math.floor(maxSendable / 1000)
    if (place === null || most < least) return null
    const isDemanded = (how: unknown) => readResponse(Demand, how) !== null
    return {
      callback: place,
      /** Whole satoshis that an invoice may be over, from and to. */
      least,
      most,
      /** Characters of a comment; 0 where none may be sent. */
      comment: commentAllowed,
      /** 64 hex characters: what an invoice holds in place of a description. */
      descriptionHash: sha256(metadata),
      /** What it demands to know of each payer, which cannot be told here; null where that is nothing. */
      demands: Object.entries(payerData ?? {}).find(([, how]) => isDemanded(how))?.[0] ?? null
    }
  }
)
export type LnurlTerms = StaticDecode<typeof LnurlTerms>

/** The invoice in the response to the second request; `verify` is null where the server gives none. */
export const LnurlInvoice = Type.Object({ pr: Text, verify: orNull(Text) })

const Verification = Type.Object({ settled: Type.Boolean(), pr: orNull(Text), preimage: orNull(Text) })

/**
 * Whether an invoice was paid, by the response of its verify address; null when it cannot be used: about another invoice,
 * or with a preimage that does not fit. The preimage goes no further than here.
 */
export function readLnurlVerify(body: unknown, paymentHash: string): { readonly isSettled: boolean } | null {
  const read = readResponse(Verification, body)
  if (read === null || (read.pr !== null && invoiceOrNull(read.pr)?.paymentHash !== paymentHash)) return null
  const { settled, preimage } = read
  const isProven =
    preimage === null || (/^[0-9a-f]{64}$/i.test(preimage) && sha256(Buffer.from(preimage, 'hex')) === paymentHash)
  return settled && !isProven ? null : { isSettled: settled }
}

function sha256(data: string | Buffer): string {
  return createHash('sha256').update(data).digest('hex')
}
