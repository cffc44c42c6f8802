import { t } from '../../engine/formats/language.ts'
import { createHash } from 'node:crypto'
import { isObject, jsonOrUndefined } from '../../platform/system/json.ts'
import type { Context, Principal } from '../../engine/message/context.ts'
import type { WholeReply } from '../../engine/message/reply.ts'
import type { RawJson } from '../../lightning/money/decimal.ts'
import { InternalContext, type InProcessRequest } from '../../engine/pipeline/in-process.ts'

/** A parsed body: exact decimals are numbers, or texts beyond a double's precision. */
export type AsRead<T> = T extends RawJson
  ? number | string
  : T extends object
    ? { [Name in keyof T]: AsRead<T[Name]> }
    : T

export type AskApi = (ctx: InternalContext) => Promise<WholeReply>

export class ApiRefusal extends Error {
  readonly status: number
  /** Messages by invalid member of the body. */
  readonly fields: Readonly<Record<string, string>>

  constructor(status: number, message: string, fields: Readonly<Record<string, string>> = {}) {
    super(message)
    this.name = 'ApiRefusal'
    this.status = status
    this.fields = fields
  }
}

/** Refuses a member of a form before the API is called. */
export function invalid(name: string, words: string): ApiRefusal {
  return new ApiRefusal(422, words, { [name]: words })
}

/**
 * Optimistic lock of a form: its `was` holds the value that it showed. `words`: the current value for people.
 * @throws ApiRefusal
 */
export function expectUnchanged(form: URLSearchParams, now: string, words = now): void {
  if (form.get('was') !== now)
    throw new ApiRefusal(
      409,
      t`This was changed after you opened the page: it is now ${words === '' ? t('not set') : words}. Your change was not saved. Review it and submit again.`
    )
}

/** Fingerprint of a value that is too long for a form's `was`. */
export function markOf(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('base64url').slice(0, 22)
}

export function queryOf(parameters: Readonly<Record<string, string | number | null | undefined>>): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters))
    if (value !== null && value !== undefined && value !== '') query.set(name, String(value))
  return query.size === 0 ? '' : `?${query}`
}

export class PageApi {
  readonly #ask: AskApi
  readonly #page: Context
  /** Principal of the page's chain, until something has changed. */
  #reader: Principal | null

  constructor(ask: AskApi, page: Context, reader: Principal | null = page.principal) {
    this.#ask = ask
    this.#page = page
    this.#reader = reader
  }

  /**
   * `T` is the operation's view.
   * @throws ApiRefusal
   */
  async get<T>(target: string): Promise<AsRead<T>> {
    return await this.#send<T>({ method: 'GET', target })
  }

  /**
   * Null for 404.
   * @throws ApiRefusal
   */
  async find<T>(target: string): Promise<AsRead<T> | null> {
    return await this.#unless<T>(404, target)
  }

  /**
   * Null where the account's plan or role forbids it. For optional parts of a page.
   * @throws ApiRefusal
   */
  async permitted<T>(target: string): Promise<AsRead<T> | null> {
    return await this.#unless<T>(403, target)
  }

  /**
   * `key`: a form's own, which deduplicates double clicks and resubmissions.
   * @throws ApiRefusal
   */
  async post<T>(target: string, body?: object, key?: string): Promise<AsRead<T>> {
    const headers = key === undefined ? [] : ['Idempotency-Key', `console-${key}`]
    return await this.#send<T>({ method: 'POST', target, body, headers })
  }

  /** @throws ApiRefusal */
  async put<T>(target: string, body: object): Promise<AsRead<T>> {
    return await this.#send<T>({ method: 'PUT', target, body })
  }

  /** @throws ApiRefusal */
  async delete(target: string): Promise<void> {
    await this.#send({ method: 'DELETE', target })
  }

  async #unless<T>(status: number, target: string): Promise<AsRead<T> | null> {
    try {
      return await this.get<T>(target)
    } catch (error) {
      if (error instanceof ApiRefusal && error.status === status) return null
      throw error
    }
  }

  async #send<T>(request: InProcessRequest): Promise<AsRead<T>> {
    if (request.method !== 'GET') this.#reader = null
    const { status, body } = await this.#ask(new InternalContext(this.#page, request, this.#reader))
    const text = typeof body === 'string' ? body : Buffer.from(body ?? '').toString()
    if (status < 200 || status > 299) throw refusalOf(status, text)
    // The operation serialized it by the schema of the type.
    return (text === '' ? undefined : JSON.parse(text, exactly as Reviver)) as AsRead<T>
  }
}

// Missing in the library's types (ECMAScript 2026, JSON.parse source text access).
type Reviver = (key: string, value: unknown) => unknown

/** Keeps numbers as text that a double would change: money never passes through one. */
function exactly(_key: string, value: unknown, { source }: { readonly source: string }): unknown {
  return typeof value === 'number' && String(value) !== source ? source : value
}

/** Messages of an error body in each of its shapes (contract, Errors). */
function refusalOf(status: number, text: string): ApiRefusal {
  const body = membersOf(text)
  const fields: Record<string, string> = {}
  const { errors } = body
  if (typeof errors === 'object' && errors !== null)
    for (const [name, words] of Object.entries(errors))
      fields[memberOf(name)] = Array.isArray(words) ? words.join(' ') : String(words)
  const words = [body['message'], body['detail'], body['error'], body['title']].find(
    (each): each is string => typeof each === 'string' && each !== ''
  )
  return new ApiRefusal(status, words ?? `The gateway answered ${status}.`, fields)
}

/** `Endpoints[0].PriceSats` as the body spells it. */
function memberOf(name: string): string {
  return name.replaceAll(/(?<=^|\.)[A-Z]/g, letter => letter.toLowerCase())
}

function membersOf(text: string): Readonly<Record<string, unknown>> {
  // Without JSON the status is the message.
  const body = jsonOrUndefined(text)
  return isObject(body) ? body : {}
}
