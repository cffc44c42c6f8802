/**
 * Bitcoin addresses: base58check (P2PKH, P2SH) and segwit in bech32 and bech32m (BIP 173, BIP 350). Detects typos and
 * the network, not ownership.
 */
import { bech32, bech32m, createBase58check } from '@scure/base'
import type { InvoiceNetwork } from './bolt11.ts'
import { sha256 } from './hmac.ts'

/** `witness`: a segwit version or length without rules yet, spendable by anyone. */
type AddressKind = 'p2pkh' | 'p2sh' | 'p2wpkh' | 'p2wsh' | 'p2tr' | 'witness'

export type AddressErrorCode = 'form' | 'checksum' | 'network' | 'version' | 'length'

/** Not a Bitcoin address. The message gives the reason without the text. */
export class AddressError extends Error {
  override readonly name = 'AddressError'
  readonly code: AddressErrorCode

  constructor(code: AddressErrorCode, message: string) {
    super(message)
    this.code = code
  }
}

interface BitcoinAddress {
  readonly kind: AddressKind
  /** All matching networks: test networks share most forms. */
  readonly networks: readonly InvoiceNetwork[]
}

const TEST_NETWORKS: readonly InvoiceNetwork[] = ['testnet', 'signet', 'regtest']

const BASE58_VERSIONS: ReadonlyMap<number, BitcoinAddress> = new Map([
  [0x00, { kind: 'p2pkh', networks: ['mainnet'] }],
  [0x05, { kind: 'p2sh', networks: ['mainnet'] }],
  [0x6f, { kind: 'p2pkh', networks: TEST_NETWORKS }],
  [0xc4, { kind: 'p2sh', networks: TEST_NETWORKS }]
])

const SEGWIT_PREFIXES: ReadonlyMap<string, readonly InvoiceNetwork[]> = new Map([
  ['bc', ['mainnet']],
  ['tb', ['testnet', 'signet']],
  ['bcrt', ['regtest']]
])

/** BIP 173's limit, in characters. */
const MAX_CHARS = 90
const HASH_BYTES = 20

const base58check = createBase58check(sha256)

/** @throws AddressError */
export function readAddress(text: string): BitcoinAddress {
  if (text.length > MAX_CHARS)
    throw new AddressError('length', `A Bitcoin address has at most ${MAX_CHARS} characters, not ${text.length}`)
  // Base58 may contain a 1, but none of our base58 versions begins with these prefixes.
  return /^(?:bc|tb|bcrt)1/i.test(text) ? readSegwit(text) : readBase58(text)
}

function readBase58(text: string): BitcoinAddress {
  // 25 bytes. Checked first, for a clear error on other text.
  if (!/^[1-9A-HJ-NP-Za-km-z]{25,36}$/.test(text)) {
    throw new AddressError('form', 'A Bitcoin address is base58 with a checksum, or begins with bc1, tb1 or bcrt1')
  }
  const bytes = checked(() => base58check.decode(text))
  const version = BASE58_VERSIONS.get(bytes[0] ?? -1)
  if (version === undefined) throw new AddressError('network', "The address is of another network than Bitcoin's")
  if (bytes.length !== 1 + HASH_BYTES)
    throw new AddressError('length', `A base58 address holds a hash of ${HASH_BYTES} bytes, not ${bytes.length - 1}`)
  return version
}

function readSegwit(text: string): BitcoinAddress {
  if (text !== text.toLowerCase() && text !== text.toUpperCase())
    throw new AddressError('form', 'A segwit address is in lower case or in upper case, not in both')
  if (!/^[a-z]+1[ac-hj-np-z02-9]+$/i.test(text))
    throw new AddressError('form', 'The address has a character that no segwit address has')
  const lower = text.toLowerCase()
  // Version 0 uses bech32, whose checksum misses q inserted before a final p; later ones bech32m (BIP 350).
  const isFirst = lower.at(lower.lastIndexOf('1') + 1) === 'q'
  const code = isFirst ? bech32 : bech32m
  const {
    prefix,
    words: [version = -1, ...program]
  } = checked(() => code.decode(lower, MAX_CHARS))
  const networks = SEGWIT_PREFIXES.get(prefix)
  if (networks === undefined) throw new AddressError('network', "The address is of another network than Bitcoin's")
  if (version < 0 || version > 16) throw new AddressError('version', 'The version of a segwit address is from 0 to 16')
  const bytes = code.fromWordsUnsafe(program)
  if (!(bytes instanceof Uint8Array)) throw new AddressError('length', 'The address has bits left over')
  if (bytes.length < 2 || bytes.length > 40)
    throw new AddressError('length', `A witness program has 2 to 40 bytes, not ${bytes.length}`)
  return { kind: kindOf(version, bytes.length), networks }
}

function kindOf(version: number, bytes: number): AddressKind {
  if (version === 0) {
    if (bytes === 20) return 'p2wpkh'
    if (bytes === 32) return 'p2wsh'
    throw new AddressError('length', `A witness program of version 0 has 20 or 32 bytes, not ${bytes}`)
  }
  return version === 1 && bytes === 32 ? 'p2tr' : 'witness'
}

/** The library's messages hold the text; only the checksum can still fail. */
function checked<T>(decode: () => T): T {
  try {
    return decode()
  } catch {
    throw new AddressError('checksum', 'The checksum is wrong: a character was mistyped or left out')
  }
}
