/** The Payment-Receipt header of a 2xx response to a modern credential. */
import { jsonOrUndefined } from '../../engine/formats/json-reader.ts'
import { isHex32 } from '../codecs/hmac.ts'
import { formatTimestamp } from '../codecs/timestamp.ts'

/** `reference`: the payment hash (64 lower-case hex), never the preimage. `timestamp`: RFC 3339. */
export interface Receipt {
  readonly challengeId: string
  readonly method: string
  readonly reference: string
  readonly status: string
  readonly timestamp: string
}

/**
 * base64url without padding of `{challengeId, method, reference, status, timestamp}`, already canonical. `settledAt` in
 * Unix seconds.
 * @throws TypeError for an invalid `paymentHash`
 */
export function encodeReceipt(challengeId: string, paymentHash: string, settledAt: number): string {
  if (!isHex32(paymentHash))
    throw new TypeError('The reference of a receipt must be a payment hash of 64 lower-case hex characters')
  const receipt: Receipt = {
    challengeId,
    method: 'lightning',
    reference: paymentHash,
    status: 'success',
    timestamp: formatTimestamp(settledAt)
  }
  return Buffer.from(JSON.stringify(receipt)).toString('base64url')
}

export function decodeReceipt(text: string): Receipt | null {
  if (!/^[A-Za-z0-9_-]+={0,2}$/.test(text)) return null
  const value = jsonOrUndefined(Buffer.from(text, 'base64url'))
  if (typeof value !== 'object' || value === null) return null
  // Members are checked below.
  const { challengeId, method, reference, status, timestamp } = value as Record<string, unknown>
  if (typeof challengeId !== 'string' || typeof method !== 'string' || typeof reference !== 'string') return null
  if (typeof status !== 'string' || typeof timestamp !== 'string') return null
  return { challengeId, method, reference, status, timestamp }
}
