import type { GatewayConfig } from '../engine/config/schema.ts'
import { TokenKeyRing } from '../lightning/l402/root-key.ts'
import { randomToken } from '../platform/system/ids.ts'
import { ApertureKeys } from '../lightning/l402/aperture-tokens.ts'
import {
  aperturePath,
  KEY_FILE,
  loadMasters,
  readApertureKeys,
  readKeys,
  writeKeys,
  type Keys
} from '../platform/keys/keyfile.ts'
import { KeyRing, Secret } from '../platform/keys/secrets.ts'
import { CodedError } from '../platform/system/errors.ts'

export interface Secrets {
  readonly ring: KeyRing
  /** Macaroon root keys and Payment id keys, current and previous. */
  readonly macaroonKeys: TokenKeyRing
  readonly adminKey: Secret<string>
}

/**
 * Loads the secrets, and generates missing ones: a master secret in `<data>/master.key`, the admin key in
 * `<data>/keys.json`.
 * @throws CodedError
 */
export function loadSecrets(config: GatewayConfig): Secrets {
  return { ...loadRings(config), adminKey: adminKeyOf(config) }
}

/** The keys from the master secrets, without the admin key. */
export function loadRings(config: GatewayConfig): Omit<Secrets, 'adminKey'> {
  const configured = config.secrets.previous.map(text => new Secret(text))
  const { current, previous } =
    config.secrets.master === ''
      ? loadMasters(config.data)
      : { current: new Secret(config.secrets.master), previous: [] }
  const former = [...previous, ...configured]
  return {
    ring: new KeyRing(current, former),
    macaroonKeys: new TokenKeyRing(bytes(current), former.map(bytes), apertureKeysOf(config))
  }
}

function apertureKeysOf({ data }: GatewayConfig): ApertureKeys | null {
  const text = readApertureKeys(data)
  if (text === null) return null
  try {
    return new ApertureKeys(text)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new CodedError(KEY_FILE, `${aperturePath(data)}: ${error.message}; run boltgate import again`)
  }
}

function bytes(secret: Secret<string>): Uint8Array {
  return Buffer.from(secret.reveal())
}

function adminKeyOf(config: GatewayConfig): Secret<string> {
  if (config.secrets.adminKey !== '') return new Secret(config.secrets.adminKey)
  const present = readKeys(config.data)
  if (present !== null) return present.adminKey
  const keys: Keys = { adminKey: new Secret(`bgadmin_${randomToken(32)}`), merchant: null }
  writeKeys(config.data, keys)
  return keys.adminKey
}
