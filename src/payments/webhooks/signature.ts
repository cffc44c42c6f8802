import { createHmac } from 'node:crypto'
import type { Secret } from '../../platform/keys/secrets.ts'

/**
 * X-Service-Signature: `t=<unix seconds>,v1=<hex>`, the hex being HMAC-SHA256 of `<t>.<raw body>`, keyed with the UTF-8
 * bytes of the webhook secret (contract, Events 4). `now` in milliseconds since the epoch.
 */
export function signatureHeader(secret: Secret<string>, now: number, body: Uint8Array): string {
  const t = Math.floor(now / 1000)
  const v1 = createHmac('sha256', secret.reveal()).update(`${t}.`).update(body).digest('hex')
  return `t=${t},v1=${v1}`
}
