import { createHmac } from 'node:crypto'
import type { StaticDecode, TSchema } from 'typebox'
import { tooDeep } from '../../engine/formats/json-reader.ts'
import { jsonOrUndefined } from '../../platform/system/json.ts'
import { readResponse } from '../../engine/formats/response-schema.ts'
import { equalBytes, type Secret } from '../../platform/keys/secrets.ts'
import { ProviderNotificationError } from './errors.ts'

/**
 * Parses a JSON object.
 * @throws ProviderNotificationError
 */
export function parseNotification<T extends TSchema>(schema: T, body: Uint8Array): StaticDecode<T> {
  const value = parse(Buffer.from(body).toString('utf8'))
  // LNbits sends JSON text inside JSON.
  const read = readResponse(schema, typeof value === 'string' ? parse(value) : value)
  if (read === null) throw new ProviderNotificationError('The notification is not a JSON object.')
  return read
}

function parse(text: string): unknown {
  if (tooDeep(text)) throw new ProviderNotificationError('The notification is nested too deeply.')
  const value = jsonOrUndefined(text)
  if (value === undefined) throw new ProviderNotificationError('The notification is not JSON.')
  return value
}

/** @throws ProviderNotificationError naming the missing field */
export function requireSubject(id: string | null, what: string): string {
  if (id === null) throw new ProviderNotificationError(`The event does not say which ${what} it is about.`)
  return id
}

/** HMAC-SHA256 of the bytes, in hex of either case. */
export function isSigned(body: Uint8Array, signature: string, secret: Secret<string>): boolean {
  return (
    /^[0-9a-f]{64}$/i.test(signature) &&
    equalBytes(Buffer.from(signature, 'hex'), createHmac('sha256', secret.reveal()).update(body).digest())
  )
}

/** Token in the receiver address of providers that sign nothing. Reveals nothing of the secret. */
export function receiverToken(secret: Secret<string>): string {
  return createHmac('sha256', secret.reveal()).update('boltgate notifications').digest('base64url').slice(0, 22)
}

export function hasToken(token: string | null, secret: Secret<string>): boolean {
  return equalBytes(Buffer.from(token ?? ''), Buffer.from(receiverToken(secret)))
}
