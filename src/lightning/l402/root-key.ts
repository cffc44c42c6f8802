/**
 * Keys that are computed, never stored. Everything comes from master secrets: the root key of each macaroon, the key of
 * the Payment challenge ids, and whatever else another part asks for by purpose. A master can be rotated: the current
 * one makes new keys, the previous ones still verify until they are removed from the configuration.
 *
 * The root key of a token is HKDF-SHA256(master, salt = token id, info = purpose and generation). The token id begins
 * with the four bytes that name the generation, so a verifier knows which master to use. All macaroons share one
 * purpose: were merchant or service part of it, a foreign token would fail its signature before its 403 could be said
 * (decision 117).
 */
import { hkdfSha256 } from '../codecs/hmac.ts'
import { MASTER_SECRET } from '../../platform/keys/secrets.ts'
import { CodedError } from '../../platform/system/errors.ts'

/** Bytes of a token id; the first `GENERATION_BYTES` name the key generation, the rest are random. */
const TOKEN_ID_BYTES = 32

/** Bytes that name a key generation. */
const GENERATION_BYTES = 4

/** The fewest bytes a master secret may have. */
const MIN_MASTER_BYTES = 32

const NO_SALT = Buffer.alloc(0)
const ROOT_KEY_PURPOSE = 'boltgate/macaroon'
const PAYMENT_ID_PURPOSE = 'boltgate/payment-id'

/** A key with the name of the generation it came from (8 hex characters). */
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

/** All live generations of the master secret. Immutable; a change of configuration makes a new one. */
export class TokenKeyRing {
  readonly #generations: readonly [Generation, ...Generation[]]

  /** Keys for Payment challenge ids: the current one signs, all of them verify. Current first. */
  readonly paymentIdKeys: readonly [DerivedKey, ...DerivedKey[]]

  /**
   * @param current the master secret that makes new keys, at least 32 bytes
   * @param previous master secrets that still verify
   * @throws CodedError when one is too short, or two are the same
   */
  constructor(current: Uint8Array, previous: readonly Uint8Array[] = []) {
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

  /** The name of the generation that makes new keys, 8 hex characters. */
  get currentGeneration(): string {
    return this.#generations[0].name
  }

  /** The names of all generations that verify, current first. */
  get generations(): readonly string[] {
    return this.#generations.map(generation => generation.name)
  }

  /**
   * A token id of the current generation.
   * @param random 28 fresh random bytes (further ones are ignored)
   */
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

  /** The name of the generation that a token id claims, live or not. */
  generationOf(tokenId: Uint8Array): string {
    return Buffer.from(tokenId.subarray(0, GENERATION_BYTES)).toString('hex')
  }

  /** The root key (32 bytes) of a token, or null when its generation is not live. */
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
   * A 32-byte key for another use, named by `purpose` (for example `provider-key-encryption`): of the current
   * generation, or of the one named. Different purposes give unrelated keys. Null when that generation is not live.
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
  // A copy: the caller may wipe or reuse its buffer.
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
