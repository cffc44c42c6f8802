/** The Payment-Receipt header, sent with a 2xx answer to a modern Payment credential. */
import { isHex32 } from '../codecs/preimage.ts'
import { formatTimestamp } from '../codecs/timestamp.ts'

/**
 * What a receipt says. `reference` is the payment hash (64 lower-case hex), never the preimage; `timestamp` is RFC
 * 3339.
 */
export interface Receipt {
  readonly challengeId: string
  readonly method: string
  readonly reference: string
  readonly status: string
  readonly timestamp: string
}

/**
 * The header's value: base64url without padding of `{challengeId, method, reference, status, timestamp}`, in this
 * order, which is already canonical. `settledAt` is in unix seconds.
 * @throws TypeError when `paymentHash` is not 64 lower-case hex.
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

/** Reads a receipt, for clients and tests. Null when it is not base64url of an object with these five strings. */
export function decodeReceipt(text: string): Receipt | null {
  if (!/^[A-Za-z0-9_-]+={0,2}$/.test(text)) return null
  let value: unknown
  try {
    value = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'))
  } catch {
    return null // Not JSON, so no receipt: the response says so.
  }
  if (typeof value !== 'object' || value === null) return null
  // An object of unknown members; each one is checked below.
  const { challengeId, method, reference, status, timestamp } = value as Record<string, unknown>
  if (typeof challengeId !== 'string' || typeof method !== 'string' || typeof reference !== 'string') return null
  if (typeof status !== 'string' || typeof timestamp !== 'string') return null
  return { challengeId, method, reference, status, timestamp }
}
