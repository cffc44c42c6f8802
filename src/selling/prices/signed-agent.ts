import { isObject } from '../../platform/system/json.ts'
import { createPublicKey, hash, verify, type KeyObject } from 'node:crypto'
import type { Context } from '../../engine/message/context.ts'
import { checkTargetUrl, AddressRefused } from '../../engine/upstream/guard.ts'
import type { OutboundCall } from '../../engine/upstream/outbound.ts'
import { StateUnavailable, type Maybe } from '../../platform/state/state.ts'
import { Lookups, type Finding, type LookupDependencies } from './lookups.ts'
import { readSignature, readString, type MessageSignature } from './message-signature.ts'

export interface SignedAgentDependencies extends LookupDependencies {
  readonly call: OutboundCall
  readonly production: boolean
}

const DIRECTORY = '/.well-known/http-message-signatures-directory'
const MAX_DIRECTORY = 65_536
const MAX_KEYS = 100
const TEN_MINUTES = 600_000
/** Seconds. The draft recommends that signatures live no longer than a day; clocks may differ a little. */
const MAX_VALIDITY = 86_400
const SKEW = 10

type Keys = ReadonlyMap<string, KeyObject>

/** Verifies agents by Web Bot Auth (draft-ietf-webbotauth-httpsig-protocol; RFC 9421). */
export class SignedAgents {
  readonly #dependencies: SignedAgentDependencies
  readonly #directories: Lookups<Keys>

  constructor(dependencies: SignedAgentDependencies) {
    this.#dependencies = dependencies
    this.#directories = new Lookups('agent directory', origin => this.#fetch(origin), dependencies)
  }

  /**
   * Host of the agent that signed this request for `authority`; null unless proven. Each signature counts once.
   * @param authority our own, never the request's: a site that the agent visits could pass its signature on
   * @param agents whose signatures count; null for any host's
   */
  agent(ctx: Context, authority: string, agents: readonly string[] | null): Maybe<string | null> {
    const signed = readSignature(ctx, authority)
    const origin = signed === null ? null : this.#origin(signed)
    if (signed === null || origin === null || !isCurrent(signed, this.#dependencies.clock.now() / 1000)) return null
    const { host } = new URL(origin)
    if (agents !== null && !agents.includes(host)) return null
    const judge = (keys: Keys | null): Maybe<string | null> => {
      const key = keys?.get(signed.keyId)
      return key !== undefined && verify(null, Buffer.from(signed.base), key, signed.signature)
        ? this.#first(signed, host)
        : null
    }
    const keys = this.#directories.find(origin, ctx.clientAddress)
    return keys instanceof Promise ? keys.then(judge) : judge(keys)
  }

  #origin({ agent }: MessageSignature): string | null {
    const text = readString(agent)
    if (text === null) return null
    try {
      return checkTargetUrl(text, { production: this.#dependencies.production }).origin
    } catch (error) {
      if (error instanceof AddressRefused) return null
      throw error
    }
  }

  /** A signature that was seen proves nothing: anyone who saw it can send it (decision 448). Without shared state it is unknown. */
  async #first({ keyId, nonce, signature, expires }: MessageSignature, host: string): Promise<string | null> {
    const { clock, state } = this.#dependencies
    const once = hash('sha256', JSON.stringify([host, keyId, nonce ?? Buffer.from(signature).toString('base64')]))
    const left = Math.max(1000, Math.ceil(expires * 1000 - clock.now()))
    try {
      return (await state.takeFixed(`agent signature ${once}`, 1, left)).allowed ? host : null
    } catch (error) {
      if (error instanceof StateUnavailable) return null
      throw error
    }
  }

  async #fetch(origin: string): Promise<Finding<Keys>> {
    const { status, body } = await this.#dependencies.call({
      method: 'GET',
      url: `${origin}${DIRECTORY}`,
      headers: ['accept', 'application/http-message-signatures-directory+json', 'user-agent', 'boltgate'],
      timeout: 2000,
      keep: MAX_DIRECTORY
    })
    if (status !== 200) throw new Error(`status ${status}`)
    return { value: keysOf(body, this.#dependencies.clock.now() / 1000), ttl: TEN_MINUTES }
  }
}

function isCurrent({ created, expires }: MessageSignature, now: number): boolean {
  return created <= now + SKEW && expires > now && expires > created && expires - created <= MAX_VALIDITY
}

/** Ed25519 keys by their thumbprint (RFC 7638; RFC 8037, appendix A.3). A cut document is no JSON and throws. */
function keysOf(body: Uint8Array, now: number): Keys {
  const document = JSON.parse(Buffer.from(body).toString()) as unknown
  const listed = isObject(document) ? document['keys'] : null
  if (!Array.isArray(listed)) throw new TypeError('no keys')
  const keys = new Map<string, KeyObject>()
  for (const jwk of listed.slice(0, MAX_KEYS) as unknown[]) {
    if (!isObject(jwk)) continue
    const { kty, crv, x, exp, nbf } = jwk
    if (kty !== 'OKP' || crv !== 'Ed25519' || typeof x !== 'string' || !/^[A-Za-z0-9_-]{43}$/.test(x)) continue
    if ((typeof exp === 'number' && exp <= now) || (typeof nbf === 'number' && nbf > now)) continue
    const members = { crv: 'Ed25519', kty: 'OKP', x }
    keys.set(hash('sha256', JSON.stringify(members), 'base64url'), createPublicKey({ key: members, format: 'jwk' }))
  }
  return keys
}
