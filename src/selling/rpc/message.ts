import { MCP_OPERATIONS, priceOfName, type CallAmount, type CallPrices } from '../../engine/checks/price.ts'
import { contentDigest } from '../../lightning/payment-scheme/payment-challenge.ts'
import type { Offer } from '../offers/offer.ts'
import { MAX_CREDENTIAL_CHARS } from '../../lightning/codecs/credential.ts'
import { isMoreFiat } from '../../lightning/money/prices.ts'
import { MAX_MEMBERS, outlineAt, readJson, textAt, type Outline } from '../../engine/formats/json-reader.ts'
import { JsonError, type Span } from '../../engine/formats/json-scan.ts'
import { canonicalText, type Budget } from './json-text.ts'
import {
  CREDENTIALS,
  credentialsOf,
  hasExtension,
  isSame,
  partsOf,
  stringIn,
  toolOf,
  valueAt,
  withoutCredentials,
  type CredentialName,
  type Parts
} from './meta.ts'
import { MAX_SPELLINGS, spellingsOf } from './spellings.ts'
import { CREDENTIAL, INVALID_PARAMS, INVALID_REQUEST, META, PARSE_ERROR, X402_PAYMENT } from './wire.ts'

export interface PricedCall {
  readonly key: string
  readonly id: string | number
  /** Binding of a credential, after the route's path: `tools/call/get-sum`. */
  readonly operation: string
  /** Display name, from the settings alone: `tools/call get-sum`. */
  readonly label: string
  readonly amount: CallAmount
  /** `sha-256=:…:` of method and parameters without payment metadata. */
  readonly digest: string
  readonly credential: unknown
  /** PaymentPayload of x402; undefined without one. */
  readonly x402: unknown
  /** The client takes x402 by its extension of MCP. */
  readonly hasX402Extension: boolean
  /** As in `Offer.tool`. */
  readonly tool: Offer['tool'] | null
}

/** A request whose result gets a payment capability. */
export interface Announced {
  readonly key: string
  readonly method: 'initialize' | 'server/discover'
}

/** One message of a body. `text` is the upstream's version, without the credential. */
export type RpcMessage =
  | { readonly kind: 'free'; readonly text: string; readonly announces: Announced | null }
  | { readonly kind: 'priced'; readonly text: string; readonly call: PricedCall }
  /** A priced call that expects no response, so it cannot be paid. */
  | { readonly kind: 'dropped' }
  | { readonly kind: 'refused'; readonly refusal: Refusal }

export interface Refusal {
  /** Null if unreadable. */
  readonly id: string | number | null
  readonly code: number
  readonly message: string
}

interface RpcMessages {
  readonly isBatch: boolean
  readonly messages: readonly RpcMessage[]
  /** Nothing was changed or dropped: the body can be forwarded as is. */
  readonly isUntouched: boolean
}

/** Message fields that newer clients repeat in headers, by which a server may route. */
export interface RoutingHeaders {
  readonly method: string | undefined
  readonly name: string | undefined
}

const MAX_MESSAGES = 1000
const LIMITS = { depth: 64, members: MAX_MESSAGES, names: MAX_MEMBERS }
/** Maximum values in the parameters of a body's priced calls: bounds unpaid sorting and hashing. */
const MAX_VALUES = 16_384
/** Values that looking up another spelling counts as. */
const SPELLING_COST = 16
/** Maximum priced calls in a batch: each may cause an invoice. */
const MAX_PRICED = 32
/** Maximum length of a called name in a path, in characters: both must fit into a challenge. */
const MAX_NAME = 800

/** Names that case-insensitive readers would take for these. */
const MESSAGE_NAMES = ['jsonrpc', 'id', 'method', 'params', 'result', 'error', META] as const
const PARAMETER_NAMES = ['name', 'uri', 'arguments', META] as const

/**
 * Reads and prices the messages of a POST. Refuses what the upstream could read differently. `routing` must match the
 * only message.
 */
export function readMessages(
  body: Uint8Array,
  prices: CallPrices,
  routing: RoutingHeaders | null = null,
  takesX402 = false
): RpcMessages | Refusal {
  try {
    return messagesOf(readJson(body, LIMITS), prices, routing, takesX402)
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    return error.kind === 'utf-8' || error.kind === 'syntax'
      ? { id: null, code: PARSE_ERROR, message: `Parse error: it ${error.message}` }
      : invalid(`it ${error.message}`)
  }
}

function messagesOf(
  root: Outline,
  prices: CallPrices,
  routing: RoutingHeaders | null,
  takesX402: boolean
): RpcMessages | Refusal {
  const parts = root.isList
    ? Array.from({ length: root.size }, (_none, index) => partsOf(outlineAt(root.text, root.span(index), MAX_MEMBERS)))
    : [partsOf(root)]
  const fault = routing === null ? null : routingFault(root, parts[0], routing)
  if (fault !== null) return invalid(fault)
  const budget = { left: MAX_VALUES }
  const messages: RpcMessage[] = []
  let priced = 0
  for (const each of parts) {
    const message = readMessage(each, prices, budget, takesX402 ? CREDENTIALS : CREDENTIALS.slice(0, 1))
    if (message.kind === 'priced' && ++priced > MAX_PRICED)
      return invalid(`at most ${MAX_PRICED} calls of a batch may cost something`)
    messages.push(message)
  }
  const twice = priced > 0 ? repeatedId(parts) : null
  if (twice !== null) return invalid(`two calls of the batch have the id ${twice}`)
  return {
    isBatch: root.isList,
    messages,
    isUntouched: messages.every((message, at) => 'text' in message && message.text.length === lengthOf(parts[at]))
  }
}

function lengthOf(parts: Parts | undefined): number {
  return parts === undefined ? 0 : parts.message.end - parts.message.start
}

function invalid(message: string): Refusal {
  return { id: null, code: INVALID_REQUEST, message: `Invalid Request: ${message}` }
}

/** Why `Mcp-Method` and `Mcp-Name` contradict the message; null without a fault or without them. */
function routingFault(root: Outline, parts: Parts | undefined, { method, name }: RoutingHeaders): string | null {
  if (method === undefined && name === undefined) return null
  if (!root.isObject || parts === undefined) return 'Mcp-Method and Mcp-Name are of one message, and this is a batch'
  if (method !== undefined && stringIn(root, 'method') !== method) return 'Mcp-Method is not the method of the message'
  if (name === undefined) return null
  const encoded = /^=\?base64\?(.*)\?=$/i.exec(name)?.[1]
  const meant = encoded === undefined ? name : Buffer.from(encoded, 'base64').toString('utf8')
  const isNamed = ['name', 'uri', 'taskId'].some(member => stringIn(parts.params, member) === meant)
  return isNamed ? null : 'Mcp-Name is not what the message names'
}

function readMessage(parts: Parts, prices: CallPrices, budget: Budget, names: readonly CredentialName[]): RpcMessage {
  const { message } = parts
  const { text } = message
  if (!message.isObject) return refused(null, INVALID_REQUEST, 'Invalid Request: a message is an object')
  const id = message.member('id')
  const known = id === null ? null : usableId(text, id)
  const alike = lookalike(message, MESSAGE_NAMES)
  if (alike !== null) return refused(known, INVALID_REQUEST, `Invalid Request: it has the member ${alike}`)
  if (message.member('method') === null) {
    // The client's response to a request of the server.
    if (message.member('result') !== null || message.member('error') !== null) return free(parts, names)
    return refused(known, INVALID_REQUEST, 'Invalid Request: there is no method')
  }
  const method = stringIn(message, 'method')
  if (method === null) return refused(known, INVALID_REQUEST, 'Invalid Request: the method is not a string')
  const found = operationOf(method, parts.params, prices, budget)
  if (found === null) {
    const isX402 = method === 'server/discover' && names.length > 1
    if (prices.protocol !== 'mcp' || known === null || (method !== 'initialize' && !isX402)) return free(parts, names)
    return free(parts, names, { key: keyOf(known), method })
  }
  if ('message' in found) return refused(known, INVALID_PARAMS, found.message)
  if (id === null) return { kind: 'dropped' }
  if (known === null)
    return refused(
      null,
      INVALID_REQUEST,
      'Invalid Request: the id of a call that costs something is a string or a whole number of at most 15 digits'
    )
  const credentials = credentialsOf(parts, names)
  const [credential, second] = credentials
  if (credential !== undefined && credential.value.end - credential.value.start > MAX_CREDENTIAL_CHARS)
    return refused(
      known,
      INVALID_PARAMS,
      `Invalid params: the credential is longer than ${MAX_CREDENTIAL_CHARS} characters`
    )
  if (credential !== undefined && second !== undefined && !isSame(text, credential, second, budget))
    return refused(known, INVALID_PARAMS, 'Invalid params: the message has two different payment credentials')
  let digest: string
  try {
    digest = digestOf(parts, method, budget)
  } catch (error) {
    if (error instanceof JsonError) return refused(known, INVALID_PARAMS, `Invalid params: it ${error.message}`)
    throw error
  }
  return {
    kind: 'priced',
    text: withoutCredentials(parts, names),
    call: {
      key: keyOf(known),
      id: known,
      ...found,
      digest,
      credential: credential?.name === CREDENTIAL ? valueAt(text, credential.value) : undefined,
      x402: credential?.name === X402_PAYMENT ? valueAt(text, credential.value) : undefined,
      ...(method === 'tools/call' && names.length > 1
        ? { hasX402Extension: hasExtension(parts), tool: toolOf(parts) }
        : { hasX402Extension: false, tool: null })
    }
  }
}

function free(parts: Parts, names: readonly CredentialName[], announces: Announced | null = null): RpcMessage {
  return { kind: 'free', text: withoutCredentials(parts, names), announces }
}

function refused(id: string | number | null, code: number, message: string): RpcMessage {
  return { kind: 'refused', refusal: { id, code, message } }
}

type Operation = Pick<PricedCall, 'operation' | 'label' | 'amount'>

/** What a call would buy; null if free, a reason if unclear. */
function operationOf(
  method: string,
  params: Outline | null,
  prices: CallPrices,
  budget: Budget
): Operation | { readonly message: string } | null {
  if (prices.protocol === 'json-rpc') {
    const price = priceOf(prices.methods ?? {}, method, false, budget)
    if (typeof price === 'string') return { message: `Invalid params: the method has ${price}` }
    if (price === null || price.amount === 0) return null
    const operation = inPath(method)
    return operation === null
      ? { message: `Invalid params: the method ${TOO_LONG}` }
      : { operation, label: price.key, amount: price.amount }
  }
  const kind = MCP_OPERATIONS.find(operation => operation.method === method)
  const list = kind === undefined ? undefined : prices[kind.setting]
  if (kind === undefined || list === undefined || Object.keys(list).length === 0) return null
  if (params === null) return { message: 'Invalid params: params is an object' }
  const alike = lookalike(params, PARAMETER_NAMES)
  if (alike !== null) return { message: `Invalid params: params has the member ${alike}` }
  const name = stringIn(params, kind.member)
  if (name === null) return { message: `Invalid params: params.${kind.member} is a string` }
  const written = inPath(name)
  if (written === null) return { message: `Invalid params: params.${kind.member} ${TOO_LONG}` }
  const price = priceOf(list, name, kind.member === 'uri', budget)
  if (typeof price === 'string') return { message: `Invalid params: params.${kind.member} has ${price}` }
  if (price === null || price.amount === 0) return null
  return {
    operation: `${method}/${written}`,
    label: `${method} ${price.key}`,
    amount: price.amount
  }
}

const TOO_LONG = `has more than ${MAX_NAME} characters in percent encoding, or half of a surrogate pair`

function inPath(name: string): string | null {
  if (name.length > MAX_NAME || !name.isWellFormed()) return null
  const written = encodeURIComponent(name)
  return written.length > MAX_NAME ? null : written
}

/** Highest price among the spellings of an unlisted name; null for none, or the reason of a refusal. */
function priceOf(
  prices: Readonly<Record<string, CallAmount>>,
  name: string,
  isUri: boolean,
  budget: Budget
): ReturnType<typeof priceOfName> | string {
  // Finding the spellings costs as much as looking them up.
  if (budget.left < 0) return 'too many spellings'
  // Longer names cannot be sold.
  const isOwn = name.length > MAX_NAME || Object.hasOwn(prices, name)
  const spellings = isOwn ? [name] : spellingsOf(name, isUri)
  budget.left -= SPELLING_COST * ((spellings?.length ?? MAX_SPELLINGS) - 1)
  if (spellings === null || budget.left < 0) return 'too many spellings'
  let found: ReturnType<typeof priceOfName> = null
  for (const spelling of spellings) {
    const price = priceOfName(prices, spelling)
    if (price === null || price.amount === found?.amount) continue
    if (found === null || found.amount === 0) found = price
    else if (price.amount !== 0) {
      const isMore = compared(price.amount, found.amount)
      if (isMore === null) return 'spellings with prices in different currencies'
      if (isMore) found = price
    }
  }
  return found
}

function compared(one: CallAmount, other: CallAmount): boolean | null {
  if (typeof one === 'number' || typeof other === 'number')
    return typeof one === 'number' && typeof other === 'number' ? one > other : null
  return one.slice(0, 3) === other.slice(0, 3) ? isMoreFiat(one, other) : null
}

/**
 * Quoted name of a member that case-insensitive readers, such as Go's, would take for one of `known`; null for none.
 */
function lookalike(object: Outline, known: readonly string[]): string | null {
  for (const name of known)
    for (const index of object.indexesOf(name, true))
      if (object.nameOf(index) !== name) return JSON.stringify(object.nameOf(index))
  return null
}

/** An id that every server returns unchanged; else null. */
function usableId(text: string, span: Span): string | number | null {
  const string = textAt(text, span)
  if (string !== null) return string.length <= 256 && string.isWellFormed() ? string : null
  const raw = text.slice(span.start, span.end)
  return /^(?:0|-?[1-9][0-9]{0,14})$/.test(raw) ? Number(raw) : null
}

/** Key of a response: strings and numbers are never the same id. */
export function keyOf(id: string | number): string {
  return `${typeof id} ${id}`
}

function repeatedId(parts: readonly Parts[]): string | null {
  const seen = new Set<string>()
  for (const { message } of parts) {
    const id = message.member('id')
    if (id === null || message.member('method') === null) continue
    const raw = message.text.slice(id.start, id.end)
    const usable = usableId(message.text, id)
    const key = usable === null ? raw : keyOf(usable)
    if (seen.has(key)) return raw.slice(0, 40)
    seen.add(key)
  }
  return null
}

/**
 * Binds a payment to method and parameters.
 * @throws JsonError for parameters that readers read differently
 */
function digestOf({ message, params }: Parts, method: string, budget: Budget): string {
  const span = message.member('params')
  const inside = span === null ? 'null' : canonicalText(message.text, span, budget, params?.member(META) ?? null)
  return contentDigest(Buffer.from(`{"method":${JSON.stringify(method)},"params":${inside}}`))
}
