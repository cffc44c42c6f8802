import { hash, randomBytes } from 'node:crypto'
import { signSchnorr, verifySchnorr, xOnlyPointFromScalar } from 'tiny-secp256k1'
import { Type } from 'typebox'
import { readResponse, SafeInteger } from '../../../engine/formats/response-schema.ts'
import { Hash } from '../../provider-calls/errors.ts'

/** NIP-01. */
export interface NostrEvent {
  /** SHA-256 of all but the signature: 64 lower-case hex characters. */
  readonly id: string
  readonly pubkey: string
  /** Seconds since the epoch. */
  readonly created_at: number
  readonly kind: number
  readonly tags: ReadonlyArray<readonly string[]>
  readonly content: string
  readonly sig: string
}

/** Event kinds of Nostr Wallet Connect (NIP-47). */
export const KINDS = Object.freeze({
  info: 13_194,
  request: 23_194,
  response: 23_195,
  /** NIP-04 encrypted. */
  oldNotification: 23_196,
  notification: 23_197
})

export function publicKeyOf(secret: string): string {
  return Buffer.from(xOnlyPointFromScalar(Buffer.from(secret, 'hex'))).toString('hex')
}

/** Signs an event (BIP 340). The key is hex. */
export function signEvent(
  secret: string,
  event: Pick<NostrEvent, 'created_at' | 'kind' | 'tags' | 'content'>
): NostrEvent {
  const whole = { ...event, pubkey: publicKeyOf(secret) }
  const id = idOf(whole)
  const sig = signSchnorr(Buffer.from(id, 'hex'), Buffer.from(secret, 'hex'), randomBytes(32))
  return { ...whole, id, sig: Buffer.from(sig).toString('hex') }
}

/** Tags are bounded: NIP-47 events have a few short ones. */
const Event = Type.Object({
  id: Hash,
  pubkey: Hash,
  created_at: SafeInteger,
  kind: SafeInteger,
  tags: Type.Array(Type.Array(Type.String({ maxLength: 1024 }), { maxItems: 16 }), { maxItems: 64 }),
  content: Type.String(),
  sig: Type.String({ pattern: '^[0-9a-f]{128}$' })
})

/** An event with an unverified signature; null when malformed or oversized. */
export function readNostrEvent(value: unknown): NostrEvent | null {
  return readResponse(Event, value)
}

/** Whether id and signature are valid. */
export function isGenuine(event: NostrEvent): boolean {
  return (
    event.id === idOf(event) &&
    verifySchnorr(Buffer.from(event.id, 'hex'), Buffer.from(event.pubkey, 'hex'), Buffer.from(event.sig, 'hex'))
  )
}

export function tagOf({ tags }: NostrEvent, name: string): string | null {
  return tags.find(([one]) => one === name)?.[1] ?? null
}

function idOf({ pubkey, created_at, kind, tags, content }: Omit<NostrEvent, 'id' | 'sig'>): string {
  return hash('sha256', JSON.stringify([0, pubkey, created_at, kind, tags, content]), 'hex')
}
