import type { TSchema, StaticDecode } from 'typebox'
import type { Dispatcher } from 'undici'
import { isObject, jsonOrUndefined } from '../../platform/system/json.ts'
import { readResponse } from '../../engine/formats/response-schema.ts'
import { decodeInvoice } from '../../lightning/codecs/bolt11.ts'
import { CodedError } from '../../platform/system/errors.ts'
import { callGateway, type WholeResponse } from '../cli/gateway-call.ts'
import { OTHER_RESPONSE, type Output } from '../cli/output.ts'
import { challengeIn, credentialFor, fieldOf, paidHeaders } from './mint.ts'
import type { Wallet } from './pay.ts'

/** Shows each request, and sends it unless this is a dry run. */
export class DirectoryCalls {
  readonly #at: URL
  readonly #wallet: Wallet | null
  readonly #sends: boolean
  readonly #out: Output

  constructor(at: URL, wallet: Wallet | null, sends: boolean, out: Output) {
    this.#at = at
    this.#wallet = wallet
    this.#sends = sends
    this.#out = out
  }

  /** Null in a dry run. @throws CodedError when the directory is not reached */
  async send(method: Dispatcher.HttpMethod, path: string, body: object | null = null): Promise<WholeResponse | null> {
    const url = new URL(path, this.#at)
    const text = body === null ? null : JSON.stringify(body)
    this.#out.print(`> ${method} ${url.href}`)
    if (body !== null) this.#out.print(JSON.stringify(body, null, 2))
    if (!this.#sends) return null
    const headers = text === null ? {} : { 'content-type': 'application/json' }
    const first = await callGateway(url, { method, headers, body: text })
    this.#show(first)
    if (first.status !== 402) return first
    const challenge = challengeIn(first.headers, 'l402')
    const invoice = challenge.parameters.get('invoice') ?? ''
    if (this.#wallet === null) {
      const { amountMsat } = decodeInvoice(invoice)
      this.#out.print(`This costs ${(amountMsat ?? 0n) / 1000n} sats. Give a wallet that pays it: --wallet.`)
      return first
    }
    this.#out.print(`Paying ${invoice.slice(0, 40)}… ${this.#wallet.name}`)
    const credential = credentialFor(challenge, await this.#wallet.pay(invoice))
    const paid = await callGateway(url, { method, headers: paidHeaders(headers, challenge, credential), body: text })
    this.#show(paid)
    if (paid.status >= 400)
      this.#out.print(`Paid. The request can be sent again with ${fieldOf(challenge)}: ${credential}`)
    return paid
  }

  #show({ status, text }: WholeResponse): void {
    this.#out.print(`< ${status} ${wordsOf(text)}`.trimEnd())
  }
}

/** @throws CodedError for a response in another form */
export function read<T extends TSchema>(schema: T, { text }: WholeResponse): StaticDecode<T> {
  const found = readResponse(schema, jsonOrUndefined(text))
  if (found === null) throw new CodedError(OTHER_RESPONSE, `The directory answered in another form: ${printable(text)}`)
  return found
}

/** What an answer says in words. */
function wordsOf(text: string): string {
  const body = jsonOrUndefined(text)
  if (!isObject(body)) return printable(text)
  return printable(['message', 'error', 'detail'].flatMap(name => body[name] ?? []).join(' '))
}

/** A directory's text, without control characters of a terminal. */
export function printable(text: string): string {
  return text.replaceAll(/\p{Cc}+/gu, ' ').slice(0, 300)
}
