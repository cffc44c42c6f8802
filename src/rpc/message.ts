import { MCP_OPERATIONS, priceOfName, type CallAmount, type CallPrices } from '../config/call-prices.ts'
import { contentDigest } from '../lightning/content-digest.ts'
import { isMoreFiat } from '../prices/fiat.ts'
import { isObject, itemsOf, memberOf, membersOf, rootOf, textOf, valueOf, type Span } from '../gateway/json-spans.ts'
import { canonicalText, JsonTextError, readJson, withoutMember } from './json-text.ts'
import { CREDENTIAL, INVALID_PARAMS, INVALID_REQUEST, META, PARSE_ERROR } from './wire.ts'

/** A call that costs something and can be answered. */
export interface PricedCall {
  /** What its response is found by. */
  readonly key: string
  /** Its id, as it goes into a response. */
  readonly id: string | number
  /** What a credential is bound to, after the path of the route: `tools/call/get-sum`. */
  readonly operation: string
  /** The same as people read it, from the settings alone: `tools/call get-sum`. */
  readonly label: string
  readonly amount: CallAmount
  /** `sha-256=:…:` of the method and its parameters without what is said about payment. */
  readonly digest: string
  /** What stands as its credential; undefined without one. */
  readonly credential: unknown
}

/** One message of a body. `text` is what the upstream gets of it: all but the credential. */
export type RpcMessage =
  | { readonly kind: 'free'; readonly text: string; readonly initializes: string | null }
  | { readonly kind: 'priced'; readonly text: string; readonly call: PricedCall }
  /** A priced call that nobody can be answered for, and so cannot be paid for. */
  | { readonly kind: 'dropped' }
  | { readonly kind: 'refused'; readonly refusal: Refusal }

/** Why a message is not passed on: a JSON-RPC error. */
export interface Refusal {
  /** Null where the message does not say it. */
  readonly id: string | number | null
  readonly code: number
  readonly message: string
}

/** What a POST holds. */
export interface RpcMessages {
  readonly isBatch: boolean
  readonly messages: readonly RpcMessage[]
  /** Nothing of it was changed or left out: the body can go on as it came. */
  readonly isUntouched: boolean
}

/** What newer clients repeat of a message in headers, by which a server may choose what it does. */
export interface RoutingHeaders {
  readonly method: string | undefined
  readonly name: string | undefined
}

/**
 * Why the headers `Mcp-Method` and `Mcp-Name` do not say what the message says; null where they do, and without them.
 * `body` is one that `readMessages` has taken.
 */
export function routingFault(body: Uint8Array, { method, name }: RoutingHeaders): string | null {
  if (method === undefined && name === undefined) return null
  const text = Buffer.from(body).toString('utf8')
  const root = rootOf(text)
  if (!isObject(text, root)) return 'Mcp-Method and Mcp-Name are of one message, and this is a batch'
  const own = memberOf(text, root, 'method')
  if (method !== undefined && (own === null || textOf(text, own) !== method))
    return 'Mcp-Method is not the method of the message'
  if (name === undefined) return null
  const params = memberOf(text, root, 'params')
  const encoded = /^=\?base64\?(.*)\?=$/i.exec(name)?.[1]
  const meant = encoded === undefined ? name : Buffer.from(encoded, 'base64').toString('utf8')
  const isNamed = ['name', 'uri', 'taskId'].some(member => {
    const span = params === null ? null : memberOf(text, params, member)
    return span !== null && textOf(text, span) === meant
  })
  return isNamed ? null : 'Mcp-Name is not what the message names'
}

/** Levels of a request that are read. */
const MAX_DEPTH = 64
/** Calls of one batch that cost something: each may have an invoice made. */
const MAX_PRICED = 32
/** Characters of the name of what is called, as it stands in a path: with the path it must fit into a challenge. */
const MAX_NAME = 800

/** Names that readers with another eye for case would take for these. */
const MESSAGE_NAMES = ['jsonrpc', 'id', 'method', 'params', 'result', 'error', META] as const
const PARAMETER_NAMES = ['name', 'uri', 'arguments', META] as const

/**
 * Reads what a POST holds and says of each message whether it costs anything. Whatever the upstream could read in
 * another way is refused, never passed on.
 */
export function readMessages(body: Uint8Array, prices: CallPrices): RpcMessages | Refusal {
  let text: string
  try {
    text = readJson(body, MAX_DEPTH)
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error
    return error.isJson
      ? { id: null, code: INVALID_REQUEST, message: `Invalid Request: ${error.message}` }
      : { id: null, code: PARSE_ERROR, message: `Parse error: ${error.message}` }
  }
  const root = rootOf(text)
  const items = itemsOf(text, root)
  const messages = (items ?? [root]).map(span => readMessage(text, span, prices))
  const priced = messages.filter(({ kind }) => kind === 'priced').length
  if (priced > MAX_PRICED)
    return {
      id: null,
      code: INVALID_REQUEST,
      message: `Invalid Request: at most ${MAX_PRICED} calls of a batch may cost something, these are ${priced}`
    }
  if (items !== null && priced > 0) {
    const twice = repeatedId(text, items)
    if (twice !== null)
      return {
        id: null,
        code: INVALID_REQUEST,
        message: `Invalid Request: two calls of the batch have the id ${twice}`
      }
  }
  const slices = (items ?? [root]).map(({ start, end }) => text.slice(start, end))
  return {
    isBatch: items !== null,
    messages,
    isUntouched: messages.every((message, at) => 'text' in message && message.text === slices[at])
  }
}

function readMessage(text: string, span: Span, prices: CallPrices): RpcMessage {
  const members = membersOf(text, span)
  if (members === null) return refused(null, INVALID_REQUEST, 'Invalid Request: a message is an object')
  const at = (name: string): Span | undefined => members.find(member => member.name === name)?.value
  const id = at('id')
  const known = id === undefined ? null : usableId(text, id)
  const alike = lookalike(members, MESSAGE_NAMES)
  if (alike !== null) return refused(known, INVALID_REQUEST, `Invalid Request: it has the member ${alike}`)
  const methodSpan = at('method')
  if (methodSpan === undefined) {
    // The client's own answer to something that the server asked of it.
    if (at('result') !== undefined || at('error') !== undefined) return free(text, span)
    return refused(known, INVALID_REQUEST, 'Invalid Request: there is no method')
  }
  const method = textOf(text, methodSpan)
  if (method === null) return refused(known, INVALID_REQUEST, 'Invalid Request: the method is not a string')
  const params = at('params')
  const found = operationOf(text, method, params, prices)
  if (found === null) {
    const initializes = prices.protocol === 'mcp' && method === 'initialize' && known !== null ? keyOf(known) : null
    return free(text, span, initializes)
  }
  if ('message' in found) return refused(known, INVALID_PARAMS, found.message)
  if (id === undefined) return { kind: 'dropped' }
  if (known === null)
    return refused(
      null,
      INVALID_REQUEST,
      'Invalid Request: the id of a call that costs something is a string or a whole number of at most 15 digits'
    )
  const credential = credentialIn(text, span, params)
  if (credential === 'two')
    return refused(known, INVALID_PARAMS, 'Invalid params: the message has two different payment credentials')
  const digest = digestOf(text, method, params)
  if (digest === null) return refused(known, INVALID_PARAMS, 'Invalid params: a string holds half of a surrogate pair')
  return {
    kind: 'priced',
    text: withoutCredential(text, span),
    call: {
      key: keyOf(known),
      id: known,
      ...found,
      digest,
      credential: credential === null ? undefined : valueOf(text, credential)
    }
  }
}

function free(text: string, span: Span, initializes: string | null = null): RpcMessage {
  return { kind: 'free', text: withoutCredential(text, span), initializes }
}

function refused(id: string | number | null, code: number, message: string): RpcMessage {
  return { kind: 'refused', refusal: { id, code, message } }
}

type Operation = Pick<PricedCall, 'operation' | 'label' | 'amount'>

/** What a call would buy; null for what is free, and a reason where it cannot be told. */
function operationOf(
  text: string,
  method: string,
  params: Span | undefined,
  prices: CallPrices
): Operation | { readonly message: string } | null {
  if (prices.protocol === 'json-rpc') {
    const price = priceOfName(prices.methods ?? {}, method)
    if (price === null || price.amount === 0) return null
    const operation = inPath(method)
    return operation === null
      ? { message: `Invalid params: the method ${TOO_LONG}` }
      : { operation, label: price.key, amount: price.amount }
  }
  const kind = MCP_OPERATIONS.find(operation => operation.method === method)
  const list = kind === undefined ? undefined : prices[kind.setting]
  if (kind === undefined || list === undefined || Object.keys(list).length === 0) return null
  const members = params === undefined ? null : membersOf(text, params)
  if (members === null) return { message: 'Invalid params: params is an object' }
  const alike = lookalike(members, PARAMETER_NAMES)
  if (alike !== null) return { message: `Invalid params: params has the member ${alike}` }
  const span = members.find(({ name }) => name === kind.member)?.value
  const name = span === undefined ? null : textOf(text, span)
  if (name === null) return { message: `Invalid params: params.${kind.member} is a string` }
  const written = inPath(name)
  if (written === null) return { message: `Invalid params: params.${kind.member} ${TOO_LONG}` }
  const price = dearest(list, kind.member === 'uri' ? uriForms(name) : [name])
  if (price === 'unclear')
    return { message: 'Invalid params: the spellings of params.uri have prices in different currencies' }
  if (price === null || price.amount === 0) return null
  return {
    operation: `${method}/${written}`,
    label: `${method} ${price.key}`,
    amount: price.amount
  }
}

const TOO_LONG = `has more than ${MAX_NAME} characters in percent encoding, or half of a surrogate pair`

/** A name in percent encoding; null for one that cannot be sold. */
function inPath(name: string): string | null {
  if (name.length > MAX_NAME || !name.isWellFormed()) return null
  const written = encodeURIComponent(name)
  return written.length > MAX_NAME ? null : written
}

/**
 * A URI as servers look it up: as it is, as the URL standard writes it, decoded, and with its host in small letters, which
 * the standard leaves as it is where it does not know the scheme (RFC 3986, 6.2.2.1).
 */
function uriForms(uri: string): string[] {
  const forms = [uri]
  const url = URL.parse(uri)
  if (url === null) return forms
  for (const host of new Set([url.host, url.host.toLowerCase()])) {
    url.host = host
    forms.push(url.href)
    try {
      forms.push(decodeURIComponent(url.href))
    } catch (error) {
      // Its percent signs are no escapes, so nobody decodes it.
      if (!(error instanceof URIError)) throw error
    }
  }
  return forms
}

/** The highest price that one of the names has; two that cannot be compared are refused. */
function dearest(
  prices: Readonly<Record<string, CallAmount>>,
  names: readonly string[]
): ReturnType<typeof priceOfName> | 'unclear' {
  let found: ReturnType<typeof priceOfName> = null
  for (const name of names) {
    const price = priceOfName(prices, name)
    if (price === null || price.amount === found?.amount) continue
    if (found === null || found.amount === 0) found = price
    else if (price.amount !== 0) {
      const isMore = compared(price.amount, found.amount)
      if (isMore === null) return 'unclear'
      if (isMore) found = price
    }
  }
  return found
}

/** Whether one amount is more than another; null for those of two currencies. */
function compared(one: CallAmount, other: CallAmount): boolean | null {
  if (typeof one === 'number' || typeof other === 'number')
    return typeof one === 'number' && typeof other === 'number' ? one > other : null
  return one.slice(0, 3) === other.slice(0, 3) ? isMoreFiat(one, other) : null
}

/**
 * The name, quoted, of a member that is none of `known` and would be one for a reader that does not tell cases apart,
 * as Go's does; null for none.
 */
function lookalike(members: readonly { readonly name: string }[], known: readonly string[]): string | null {
  const names: ReadonlySet<string> = new Set(known)
  const other = members.find(({ name }) => !names.has(name) && names.has(name.toUpperCase().toLowerCase()))
  return other === undefined ? null : JSON.stringify(other.name)
}

/** An id that comes back from every server as it was sent; null of any other. */
function usableId(text: string, span: Span): string | number | null {
  const string = textOf(text, span)
  if (string !== null) return string.length <= 256 && string.isWellFormed() ? string : null
  const raw = text.slice(span.start, span.end)
  return /^(?:0|-?[1-9][0-9]{0,14})$/.test(raw) ? Number(raw) : null
}

/** What a response is known by: strings and numbers are never one id. */
export function keyOf(id: string | number): string {
  return `${typeof id} ${id}`
}

function repeatedId(text: string, items: readonly Span[]): string | null {
  const seen = new Set<string>()
  for (const item of items) {
    const id = memberOf(text, item, 'id')
    if (id === null || memberOf(text, item, 'method') === null) continue
    const usable = usableId(text, id)
    const key = usable === null ? text.slice(id.start, id.end) : keyOf(usable)
    if (seen.has(key)) return text.slice(id.start, Math.min(id.end, id.start + 40))
    seen.add(key)
  }
  return null
}

/** In `params._meta` (MCP) or at the root (plain JSON-RPC); whoever sends it in both says the same in both. */
function credentialIn(text: string, message: Span, params: Span | undefined): Span | 'two' | null {
  const inside = params === undefined ? null : metaMember(text, params)
  const atRoot = metaMember(text, message)
  if (inside !== null && atRoot !== null && safeText(text, inside) !== safeText(text, atRoot)) return 'two'
  return inside ?? atRoot
}

function metaMember(text: string, holder: Span): Span | null {
  const meta = memberOf(text, holder, META)
  return meta === null ? null : memberOf(text, meta, CREDENTIAL)
}

/** For comparing: what has no canonical text is compared as it is written. */
function safeText(text: string, span: Span): string {
  try {
    return canonicalText(text, span)
  } catch (error) {
    if (error instanceof JsonTextError) return text.slice(span.start, span.end)
    throw error
  }
}

/** The message without its credential, which is the gateway's and no upstream's. */
function withoutCredential(text: string, { start, end }: Span): string {
  let message = text.slice(start, end)
  for (const holder of ['params', null]) {
    const root = rootOf(message)
    const outer = holder === null ? root : memberOf(message, root, holder)
    const meta = outer === null ? null : memberOf(message, outer, META)
    if (meta !== null) message = withoutMember(message, meta, CREDENTIAL)
  }
  return message
}

/** Null where a string is one that readers do not read alike. */
function digestOf(text: string, method: string, params: Span | undefined): string | null {
  try {
    const inside =
      params === undefined ? 'null' : canonicalText(text, params, isObject(text, params) ? META : undefined)
    return contentDigest(Buffer.from(`{"method":${JSON.stringify(method)},"params":${inside}}`))
  } catch (error) {
    if (error instanceof JsonTextError) return null
    throw error
  }
}
