import { createHash } from 'node:crypto'
import { Type, type StaticDecode } from 'typebox'
import { mapped, orNull, readResponse, Text } from '../../../engine/formats/response-schema.ts'
import { invoiceOrNull } from '../../provider-calls/lightning-charge.ts'
import { JsonRecord, Whole } from '../../provider-calls/errors.ts'
import { lnurlPlace } from './key.ts'

/** Responses of LNURL servers (LUD-06, -12, -18 and -21). Errors have status 200. Amounts are millisatoshis. */

const ErrorBody = Type.Object({ status: Type.Unknown(), reason: orNull(Text), detail: orNull(Text) })

/** The reason of an LNURL error; null for none. Some servers use their web framework's form. */
export function lnurlMessage(body: unknown): string | null {
  const { reason = null, detail = null } = readResponse(ErrorBody, body) ?? {}
  return isLnurlError(body) ? (reason ?? 'it gave no reason') : detail
}

export function isLnurlError(body: unknown): boolean {
  const status = readResponse(ErrorBody, body)?.status
  return typeof status === 'string' && status.toUpperCase() === 'ERROR'
}

/** LNbits sends the total supply of bitcoin, beyond safe integers. */
const Bound = Type.Decode(Type.Unknown(), value =>
  typeof value === 'number' && value > 0 ? Math.min(value, Number.MAX_SAFE_INTEGER) : 0
)

const Demand = Type.Object({ mandatory: Type.Literal(true) })

/** The terms of an address: response to the first request. */
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
      /** Bounds of an invoice, in whole satoshis. */
      least,
      most,
      /** Characters of a comment; 0 for none. */
      comment: commentAllowed,
      /** 64 hex characters, in the invoice instead of a description. */
      descriptionHash: sha256(metadata),
      /** Mandatory payer data, which we cannot give; null for none. */
      demands: Object.entries(payerData ?? {}).find(([, how]) => isDemanded(how))?.[0] ?? null
    }
  }
)
export type LnurlTerms = StaticDecode<typeof LnurlTerms>

/** The invoice in the second response; `verify` is null where unsupported. */
export const LnurlInvoice = Type.Object({ pr: Text, verify: orNull(Text) })

const Verification = Type.Object({ settled: Type.Boolean(), pr: orNull(Text), preimage: orNull(Text) })

/**
 * Whether an invoice was paid, from its verify response. Null when unusable: another invoice, or a wrong preimage. The
 * preimage is dropped here.
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
