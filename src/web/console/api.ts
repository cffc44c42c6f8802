import { createHash } from 'node:crypto'
import type { Context, Principal } from '../../engine/message/context.ts'
import type { WholeReply } from '../../engine/message/reply.ts'
import type { RawJson } from '../../lightning/money/decimal.ts'
import { InternalContext, type InProcessRequest } from '../../engine/pipeline/in-process.ts'

/** A body as a page reads it: exact decimals are numbers, or texts where a double cannot hold them. */
export type AsRead<T> = T extends RawJson
  ? number | string
  : T extends object
    ? { [Name in keyof T]: AsRead<T[Name]> }
    : T

/** Answers what a page asks of the API in-process. */
export type AskApi = (ctx: InternalContext) => Promise<WholeReply>

/** The API refused what a page asked of it, and why, in words for people. */
export class ApiRefusal extends Error {
  readonly status: number
  /** Words by member of the body, where single members are wrong. */
  readonly fields: Readonly<Record<string, string>>

  constructor(status: number, message: string, fields: Readonly<Record<string, string>> = {}) {
    super(message)
    this.name = 'ApiRefusal'
    this.status = status
    this.fields = fields
  }
}

/**
 * Refuses a change of what somebody else has changed since the form was made; its `was` holds the value that it showed.
 * `words` say what it is now where the value itself is none for people.
 * @throws ApiRefusal
 */
export function expectUnchanged(form: URLSearchParams, now: string, words = now): void {
  if (form.get('was') !== now)
    throw new ApiRefusal(
      409,
      `Somebody has changed this since you opened the page: it is ${words === '' ? 'not set' : words} now. Nothing was changed; look at it and send it again.`
    )
}

/** A short mark of a value that is too long for a form's `was`: other values have another one. */
export function markOf(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('base64url').slice(0, 22)
}

/** Writes a query, without the parameters that have no value: `?a=1`, or nothing. */
export function queryOf(parameters: Readonly<Record<string, string | number | null | undefined>>): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters))
    if (value !== null && value !== undefined && value !== '') query.set(name, String(value))
  return query.size === 0 ? '' : `?${query}`
}

/** The gateway's API, as the reader of a page may use it. Every permission, limit and check of the API holds. */
export class PageApi {
  readonly #ask: AskApi
  readonly #page: Context
  /** Who reads, while nothing has changed since the page's own chain established it. */
  #reader: Principal | null

  constructor(ask: AskApi, page: Context) {
    this.#ask = ask
    this.#page = page
    this.#reader = page.principal
  }

  /** What a GET gives. `T` is the type of the operation's view. @throws ApiRefusal */
  async get<T>(target: string): Promise<AsRead<T>> {
    return await this.send<T>({ method: 'GET', target })
  }

  /** The same, and null for what is not there. @throws ApiRefusal */
  async find<T>(target: string): Promise<AsRead<T> | null> {
    try {
      return await this.get<T>(target)
    } catch (error) {
      if (error instanceof ApiRefusal && error.status === 404) return null
      throw error
    }
  }

  /** What a change gives. @throws ApiRefusal */
  async send<T>(request: InProcessRequest): Promise<AsRead<T>> {
    if (request.method !== 'GET') this.#reader = null
    const { status, body } = await this.#ask(new InternalContext(this.#page, request, this.#reader))
    const text = typeof body === 'string' ? body : Buffer.from(body ?? '').toString()
    if (status < 200 || status > 299) throw refusalOf(status, text)
    // The operation wrote it through the very schema that the type was made of.
    return (text === '' ? undefined : JSON.parse(text, exactly as Reviver)) as AsRead<T>
  }
}

/**
 * What a GET gives; null where the plan of the account, or the role in it, does not let it be read. For a part of a page
 * that can be left out.
 */
export async function permitted<T>(api: PageApi, target: string): Promise<AsRead<T> | null> {
  try {
    return await api.get<T>(target)
  } catch (error) {
    if (error instanceof ApiRefusal && error.status === 403) return null
    throw error
  }
}

// The library's types do not know the third parameter yet (ECMAScript 2026, JSON.parse source text access).
type Reviver = (key: string, value: unknown) => unknown

/** What a double would not write as it was sent stays the text: money never goes through one. */
function exactly(_key: string, value: unknown, { source }: { readonly source: string }): unknown {
  return typeof value === 'number' && String(value) !== source ? source : value
}

/** What an error's body tells people, in each of its shapes (contract, Errors). */
function refusalOf(status: number, text: string): ApiRefusal {
  const body = membersOf(text)
  const fields: Record<string, string> = {}
  const { errors } = body
  if (typeof errors === 'object' && errors !== null)
    for (const [name, words] of Object.entries(errors))
      fields[name] = Array.isArray(words) ? words.join(' ') : String(words)
  const words = [body['message'], body['detail'], body['error'], body['title']].find(
    (each): each is string => typeof each === 'string' && each !== ''
  )
  return new ApiRefusal(status, words ?? `The gateway answered ${status}.`, fields)
}

function membersOf(text: string): Readonly<Record<string, unknown>> {
  try {
    const body: unknown = JSON.parse(text)
    // Only members are read, and each is looked at before it is used.
    return typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : {}
  } catch {
    // A response that is no JSON says nothing that people could use; its status does.
    return {}
  }
}
