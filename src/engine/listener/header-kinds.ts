import { isToken, NameTable } from '../message/header-names.ts'

export type HeaderKind = number

export const OTHER = 0
export const HOST = 1
export const CONTENT_LENGTH = 2
export const TRANSFER_ENCODING = 3
export const AUTHORIZATION = 4
export const EXPECT = 5
export const UPGRADE = 6
export const CORRELATION = 7
/** May appear once, because two readers would take two different values. */
export const SINGLE = 8
export const NOT_A_TOKEN = 9

const KINDS: ReadonlyMap<string, HeaderKind> = new Map<string, HeaderKind>([
  ['host', HOST],
  ['content-length', CONTENT_LENGTH],
  ['transfer-encoding', TRANSFER_ENCODING],
  ['authorization', AUTHORIZATION],
  ['expect', EXPECT],
  ['upgrade', UPGRADE],
  ['x-correlation-id', CORRELATION],
  ['content-type', SINGLE],
  ['x-payment', SINGLE],
  ['payment', SINGLE],
  ['macaroon', SINGLE],
  ['grpc-metadata-macaroon', SINGLE],
  ['x-api-key', SINGLE],
  ['idempotency-key', SINGLE],
  ['x-idempotency-key', SINGLE]
])

const table = new NameTable(decide)

export function headerKind(name: string): HeaderKind {
  return table.of(name)
}

function decide(name: string): HeaderKind {
  if (!isToken(name)) return NOT_A_TOKEN
  const lower = name.toLowerCase()
  return KINDS.get(lower) ?? (lower.startsWith('payment-') ? SINGLE : OTHER)
}
