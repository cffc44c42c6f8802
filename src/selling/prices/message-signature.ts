import type { Context } from '../../engine/message/context.ts'
import { headerValue } from '../../engine/message/request-values.ts'

/** A signature with the tag `web-bot-auth` (RFC 9421), not verified. Times in seconds. */
export interface MessageSignature {
  readonly keyId: string
  readonly created: number
  readonly expires: number
  readonly nonce: string | null
  readonly signature: Uint8Array
  /** The signed text (RFC 9421, section 2.5). */
  readonly base: string
  /** The signed value of Signature-Agent, serialized. */
  readonly agent: string
}

const MAX_FIELD = 4096
const KEY = '[a-z*][a-z0-9_.*-]{0,63}'
const STRING = '"(?:[ !#-\\[\\]-~]|\\\\["\\\\]){0,512}"'
/** An item of RFC 8941: string, integer, bytes, boolean or token. */
const ITEM = `(?:${STRING}|-?[0-9]{1,15}|:[A-Za-z0-9+/=]{0,1024}:|\\?[01]|[A-Za-z*][!#$%&'*+.^_|~0-9A-Za-z:/-]{0,128})`
const PARAMETER = new RegExp(`; {0,8}(${KEY})(?:=(${ITEM}))?`, 'y')
const MEMBER = new RegExp(`(${KEY})=`, 'y')
const VALUE = new RegExp(ITEM, 'y')
const COMPONENT = new RegExp(`(${STRING})(?:;key=(${STRING}))?`, 'y')
const SPACES = /[ \t]{0,16}/y

/** Reads a member of a dictionary after another, or a part of one. Every pattern is anchored at the current position. */
class Reader {
  #at = 0
  readonly text: string

  constructor(text: string) {
    this.text = text
  }

  take(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.text)
    if (found !== null) this.#at = pattern.lastIndex
    return found
  }

  char(wanted: string): boolean {
    if (this.text[this.#at] !== wanted) return false
    this.#at++
    return true
  }

  get at(): number {
    return this.#at
  }

  get ended(): boolean {
    return this.#at >= this.text.length
  }

  parameters(): Map<string, string> | null {
    const out = new Map<string, string>()
    for (let found = this.take(PARAMETER); found !== null; found = this.take(PARAMETER)) {
      const [, name = '', value = '?1'] = found
      if (out.has(name)) return null
      out.set(name, value)
    }
    return out
  }

  /** Calls `member` for each member of a dictionary; false if it is malformed. */
  dictionary(member: (name: string) => boolean): boolean {
    while (!this.ended) {
      const name = this.take(MEMBER)?.[1]
      if (name === undefined || !member(name)) return false
      this.take(SPACES)
      if (this.ended) return true
      if (!this.char(',')) return false
      this.take(SPACES)
    }
    return false
  }
}

interface SignatureInput {
  readonly components: ReadonlyArray<{ readonly written: string; readonly name: string; readonly key: string | null }>
  readonly parameters: ReadonlyMap<string, string>
  /** As written, which is what is signed. */
  readonly written: string
}

/**
 * The request's only Web Bot Auth signature, over our authority and Signature-Agent at least. Null for anything else:
 * several of them, a component that is not read here, or malformed headers.
 */
export function readSignature(ctx: Context, authority: string): MessageSignature | null {
  const [input, signatures, agent] = ['signature-input', 'signature', 'signature-agent'].map(name => field(ctx, name))
  if (input === undefined || signatures === undefined || agent === undefined) return null
  if (input === null || signatures === null || agent === null) return null
  const found = inputOf(input)
  if (found === null) return null
  const [label, { components, parameters, written }] = found
  const signed = members(signatures)?.get(label)
  if (signed === undefined || !/^:[A-Za-z0-9+/]{86}==:$/.test(signed)) return null
  const lines: string[] = []
  let agentValue: string | null = null
  for (const { written: identifier, name, key } of components) {
    const value =
      name === 'signature-agent'
        ? (agentValue = key === null ? agent : (members(agent)?.get(key) ?? null))
        : key === null
          ? derived(ctx, name, authority)
          : null
    if (value === null) return null
    lines.push(`${identifier}: ${value}`)
  }
  const isRepeated = new Set(components.map(component => component.written)).size < components.length
  const number = (name: string): number => Number(parameters.get(name) ?? Number.NaN)
  const keyId = readString(parameters.get('keyid') ?? '')
  const nonce = parameters.get('nonce')
  const algorithm = parameters.get('alg') ?? '"ed25519"'
  const isOver = components.some(({ name }) => name === '@authority')
  if (isRepeated || !isOver || agentValue === null || keyId === null || algorithm !== '"ed25519"') return null
  if (!Number.isSafeInteger(number('created')) || !Number.isSafeInteger(number('expires'))) return null
  return {
    keyId,
    created: number('created'),
    expires: number('expires'),
    nonce: nonce === undefined ? null : nonce,
    signature: Buffer.from(signed.slice(1, -1), 'base64'),
    base: [...lines, `"@signature-params": ${written}`].join('\n'),
    agent: agentValue
  }
}

export function readString(item: string): string | null {
  return /^"((?:[^"\\]|\\.)*)"/.exec(item)?.[1]?.replaceAll(/\\(.)/g, '$1') ?? null
}

function field(ctx: Context, name: string): string | null {
  const read = headerValue(ctx.headers, name)
  return read.kind === 'value' && typeof read.value === 'string' && read.value.length <= MAX_FIELD ? read.value : null
}

/** Members of a dictionary of items, as written; null if it is malformed or repeats one. */
function members(text: string): Map<string, string> | null {
  const out = new Map<string, string>()
  const reader = new Reader(text)
  const isRead = reader.dictionary(name => {
    const from = reader.at
    if (out.has(name) || reader.take(VALUE) === null || reader.parameters() === null) return false
    out.set(name, text.slice(from, reader.at))
    return true
  })
  return isRead ? out : null
}

/** The one input with the tag of Web Bot Auth. */
function inputOf(text: string): readonly [label: string, input: SignatureInput] | null {
  const reader = new Reader(text)
  const found: Array<readonly [string, SignatureInput]> = []
  const isRead = reader.dictionary(label => {
    const from = reader.at
    const components: Array<SignatureInput['components'][number]> = []
    if (!reader.char('(')) return false
    reader.take(SPACES)
    while (!reader.char(')')) {
      const component = reader.take(COMPONENT)
      if (component === null) return false
      const [written, name = '', key] = component
      components.push({ written, name: readString(name) ?? '', key: key === undefined ? null : readString(key) })
      reader.take(SPACES)
    }
    const parameters = reader.parameters()
    if (parameters === null) return false
    if (parameters.get('tag') === '"web-bot-auth"')
      found.push([label, { components, parameters, written: text.slice(from, reader.at) }])
    return true
  })
  return isRead && found.length === 1 ? (found[0] ?? null) : null
}

/** Derived components of a request (RFC 9421, section 2.2). */
function derived(ctx: Context, name: string, authority: string): string | null {
  if (name === '@authority') return authority
  if (name === '@method') return ctx.method
  if (name === '@path') return ctx.path
  return name === '@query' ? `?${ctx.query}` : null
}
