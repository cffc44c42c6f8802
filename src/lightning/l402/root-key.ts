/**
 * Derived keys, never stored: macaroon root keys, the Payment challenge id key, and others by purpose. Masters rotate:
 * the current one makes keys, previous ones verify until removed from the configuration.
 *
 * A token's root key is HKDF-SHA256(master, salt = token id, info = purpose and generation). The token id's first four
 * bytes name the generation. All macaroons share one purpose: with merchant or service in it, a foreign token would
 * fail its signature before its 403 (decision 117).
 */
import { hkdfSha256, equalDigests, hmacSha256 } from '../codecs/hmac.ts'
import type { ApertureKeys } from './aperture-tokens.ts'
import { MASTER_SECRET } from '../../platform/keys/secrets.ts'
import { CodedError } from '../../platform/system/errors.ts'

/** Bytes: `GENERATION_BYTES` name the key generation, the rest are random. */
const TOKEN_ID_BYTES = 32

const GENERATION_BYTES = 4

const MIN_MASTER_BYTES = 32

const NO_SALT = Buffer.alloc(0)
const ROOT_KEY_PURPOSE = 'boltgate/macaroon'
const PAYMENT_ID_PURPOSE = 'boltgate/payment-id'

export interface DerivedKey {
  readonly generation: string
  readonly key: Uint8Array
}

interface Generation {
  readonly name: string
  readonly mark: Uint8Array
  readonly master: Uint8Array
  readonly rootKeyInfo: Uint8Array
}

/** All live generations of the master secret. Immutable. */
export class TokenKeyRing {
  readonly #generations: readonly [Generation, ...Generation[]]

  /** Keys of Payment challenge ids, current first; all verify. */
  readonly paymentIdKeys: readonly [DerivedKey, ...DerivedKey[]]

  /** Of tokens that were sold before by Aperture; null for none. */
  readonly aperture: ApertureKeys | null

  /**
   * @param current the master secret for new keys, at least 32 bytes
   * @param previous master secrets that still verify
   * @throws CodedError when one is too short, or two are equal
   */
  constructor(current: Uint8Array, previous: readonly Uint8Array[] = [], aperture: ApertureKeys | null = null) {
    this.aperture = aperture
    const generations: [Generation, ...Generation[]] = [generationOf(current)]
    for (const master of previous) {
      const generation = generationOf(master)
      if (generations.some(other => other.name === generation.name)) {
        throw new CodedError(MASTER_SECRET, `The master secret of generation ${generation.name} is listed twice`)
      }
      generations.push(generation)
    }
    this.#generations = generations
    const [first, ...rest] = generations
    this.paymentIdKeys = [
      derived(first, PAYMENT_ID_PURPOSE),
      ...rest.map(generation => derived(generation, PAYMENT_ID_PURPOSE))
    ]
  }

  /** 8 hex characters. */
  get currentGeneration(): string {
    return this.#generations[0].name
  }

  /** Current first. */
  get generations(): readonly string[] {
    return this.#generations.map(generation => generation.name)
  }

  /** @param random 28 fresh random bytes (further ones are ignored) */
  newTokenId(random: Uint8Array): Uint8Array {
    if (random.length < TOKEN_ID_BYTES - GENERATION_BYTES) {
      throw new CodedError(
        MASTER_SECRET,
        `A token id needs ${TOKEN_ID_BYTES - GENERATION_BYTES} random bytes, not ${random.length}`
      )
    }
    const tokenId = Buffer.alloc(TOKEN_ID_BYTES)
    tokenId.set(this.#generations[0].mark)
    tokenId.set(random.subarray(0, TOKEN_ID_BYTES - GENERATION_BYTES), GENERATION_BYTES)
    return tokenId
  }

  generationOf(tokenId: Uint8Array): string {
    return Buffer.from(tokenId.subarray(0, GENERATION_BYTES)).toString('hex')
  }

  /** The root key (32 bytes), or null when its generation is not live. */
  rootKey(tokenId: Uint8Array): Uint8Array | null {
    const generations = this.#generations
    for (let index = 0; index < generations.length; index++) {
      const generation = generations[index]
      if (generation !== undefined && startsWith(tokenId, generation.mark)) {
        return hkdfSha256(generation.master, tokenId, generation.rootKeyInfo)
      }
    }
    return null
  }

  /**
   * A 32-byte key for another purpose (such as `provider-key-encryption`), of the current or the named generation. Null
   * when that is not live.
   */
  deriveKey(purpose: string, generation: string = this.currentGeneration): Uint8Array | null {
    const found = this.#generations.find(candidate => candidate.name === generation)
    return found === undefined ? null : derived(found, `boltgate/use/${purpose}`).key
  }
}

function generationOf(master: Uint8Array): Generation {
  if (master.length < MIN_MASTER_BYTES) {
    throw new CodedError(
      MASTER_SECRET,
      `A master secret needs at least ${MIN_MASTER_BYTES} bytes, this one has ${master.length}`
    )
  }
  const mark = hkdfSha256(master, NO_SALT, Buffer.from('boltgate/generation')).subarray(0, GENERATION_BYTES)
  const name = mark.toString('hex')
  // Copied: callers may wipe or reuse their buffer.
  return { name, mark, master: Uint8Array.from(master), rootKeyInfo: Buffer.from(`${ROOT_KEY_PURPOSE}/${name}`) }
}

function derived(generation: Generation, purpose: string): DerivedKey {
  return {
    generation: generation.name,
    key: hkdfSha256(generation.master, NO_SALT, Buffer.from(`${purpose}/${generation.name}`))
  }
}

function startsWith(bytes: Uint8Array, mark: Uint8Array): boolean {
  if (bytes.length !== TOKEN_ID_BYTES) return false
  for (let index = 0; index < GENERATION_BYTES; index++) {
    if (bytes[index] !== mark[index]) return false
  }
  return true
}

/**
 * A paid key: `bg_` and the base64url of a proof (32 bytes) and a macaroon. Another spelling of an L402 credential, for
 * clients that know a base URL and a key. The proof is the preimage, or the gateway's own after it saw the payment, so
 * that a buyer whose wallet hides the preimage has a key too. Holders narrow it by caveats without asking.
 */
const PREFIX = 'bg_'
const PROOF_BYTES = 32
const PURPOSE = Buffer.from('boltgate/key')
const FORM = /^bg_([A-Za-z0-9_-]+)$/

/** `proof` is 32 bytes, `macaroon` binary. */
export function encodePaidKey(proof: Uint8Array, macaroon: Uint8Array): string {
  return PREFIX + Buffer.concat([proof, macaroon]).toString('base64url')
}

/** In the spelling of an L402 credential: hex proof, base64 macaroon. Null if it is no key. */
export function decodePaidKey(key: string): { readonly proof: string; readonly macaroon: string } | null {
  const [, text] = FORM.exec(key) ?? []
  if (text === undefined) return null
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.length <= PROOF_BYTES) return null
  return { proof: bytes.toString('hex', 0, PROOF_BYTES), macaroon: bytes.toString('base64', PROOF_BYTES) }
}

/** The gateway's proof of a payment, made only once the payment is known. `rootKey` is the token's. */
export function keyProof(rootKey: Uint8Array, paymentHash: string): Buffer {
  return hmacSha256(rootKey, Buffer.concat([PURPOSE, Buffer.from(paymentHash, 'hex')]))
}

/** Compares in constant time. `proof` is 64 hex characters. */
export function isKeyProof(proof: string, rootKey: Uint8Array, paymentHash: string): boolean {
  return equalDigests(keyProof(rootKey, paymentHash), Buffer.from(proof, 'hex'))
}
