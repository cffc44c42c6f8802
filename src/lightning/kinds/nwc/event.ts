import { hash, randomBytes } from 'node:crypto'
import { signSchnorr, verifySchnorr, xOnlyPointFromScalar } from 'tiny-secp256k1'
import { Type } from 'typebox'
import { readResponse, SafeInteger } from '../../../engine/formats/response-schema.ts'
import { Hash } from '../../provider-calls/responses.ts'

/** What travels over Nostr (NIP-01), in its own spelling. */
export interface NostrEvent {
  /** SHA-256 of all but the signature: 64 lower-case hex characters. */
  readonly id: string
  /** Who signed it, likewise. */
  readonly pubkey: string
  /** Seconds since the epoch. */
  readonly created_at: number
  readonly kind: number
  readonly tags: ReadonlyArray<readonly string[]>
  readonly content: string
  readonly sig: string
}

/** Kinds of events of Nostr Wallet Connect (NIP-47). */
export const KINDS = Object.freeze({
  info: 13_194,
  request: 23_194,
  response: 23_195,
  /** In NIP-04. */
  oldNotification: 23_196,
  notification: 23_197
})

/** The public key of a private one: both are hex. */
export function publicKeyOf(secret: string): string {
  return Buffer.from(xOnlyPointFromScalar(Buffer.from(secret, 'hex'))).toString('hex')
}

/** Signs an event with a private key, which is hex (BIP 340). */
export function signEvent(
  secret: string,
  event: Pick<NostrEvent, 'created_at' | 'kind' | 'tags' | 'content'>
): NostrEvent {
  const whole = { ...event, pubkey: publicKeyOf(secret) }
  const id = idOf(whole)
  const sig = signSchnorr(Buffer.from(id, 'hex'), Buffer.from(secret, 'hex'), randomBytes(32))
  return { ...whole, id, sig: Buffer.from(sig).toString('hex') }
}

/** Tags, values of a tag and characters of each are bounded: events of NIP-47 have a few short ones. */
const Event = Type.Object({
  id: Hash,
  pubkey: Hash,
  created_at: SafeInteger,
  kind: SafeInteger,
  tags: Type.Array(Type.Array(Type.String({ maxLength: 1024 }), { maxItems: 16 }), { maxItems: 64 }),
  content: Type.String(),
  sig: Type.String({ pattern: '^[0-9a-f]{128}$' })
})

/** An event as it was received, whose signature is not verified; null for anything else and for one of absurd size. */
export function readNostrEvent(value: unknown): NostrEvent | null {
  return readResponse(Event, value)
}

/** Whether whom it names has signed it, and nothing of it was changed. */
export function isGenuine(event: NostrEvent): boolean {
  return (
    event.id === idOf(event) &&
    verifySchnorr(Buffer.from(event.id, 'hex'), Buffer.from(event.pubkey, 'hex'), Buffer.from(event.sig, 'hex'))
  )
}

/** The first value of a tag; null where there is none. */
export function tagOf({ tags }: NostrEvent, name: string): string | null {
  return tags.find(([one]) => one === name)?.[1] ?? null
}

function idOf({ pubkey, created_at, kind, tags, content }: Omit<NostrEvent, 'id' | 'sig'>): string {
  return hash('sha256', JSON.stringify([0, pubkey, created_at, kind, tags, content]), 'hex')
}
