import { createHmac } from 'node:crypto'
import type { ReadonlyHeaders } from '../../../engine/message/headers.ts'
import { equalBytes } from '../../../platform/keys/constant-time.ts'
import { ProviderNotificationError } from '../../provider-calls/errors.ts'
import type { ProviderNotification } from '../../providers/provider.ts'

/**
 * What a notification in the sandbox's own form says: JSON `{"chargeId": "sbx_…"}`, with the hex HMAC-SHA256 of the
 * bytes under the account's key in `X-Sandbox-Signature`. So a receiver can be tried before there is a real provider
 * (decision 163).
 * @throws ProviderNotificationError for what has another form
 */
export function readSandboxNotification(headers: ReadonlyHeaders, body: Uint8Array): ProviderNotification {
  const chargeId = chargeIdOf(body)
  const signature = Buffer.from(headers.get('x-sandbox-signature') ?? '', 'hex')
  return {
    chargeId,
    verify: secret => equalBytes(createHmac('sha256', secret.reveal()).update(body).digest(), signature)
  }
}

function chargeIdOf(body: Uint8Array): string {
  let parsed: unknown
  try {
    parsed = JSON.parse(Buffer.from(body).toString('utf8'))
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new ProviderNotificationError('A notification must be JSON.')
  }
  const chargeId = typeof parsed === 'object' && parsed !== null && 'chargeId' in parsed ? parsed.chargeId : null
  if (typeof chargeId !== 'string' || !/^[\w-]{1,100}$/.test(chargeId))
    throw new ProviderNotificationError('A notification must have a chargeId.')
  return chargeId
}
