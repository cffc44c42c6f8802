import { ProviderRefused, ProviderUnavailable } from '../../provider-calls/errors.ts'
import { jsonList, jsonMembers, jsonText, type JsonMembers } from '../../provider-calls/json-members.ts'
import { unusableAnswer, type CallProvider } from '../../provider-calls/provider-call.ts'

/**
 * Blink's GraphQL (blinkbitcoin/blink, its public schema): every call is one POST, and says with status 200 what went
 * wrong, either beside the data or inside the operation's own payload.
 */

/** One operation. */
export interface BlinkOperation {
  /** As the document names it. */
  readonly name: string
  readonly document: string
  /** The scope that a key needs for it. */
  readonly scope: 'READ' | 'RECEIVE' | 'WRITE'
}

/** An error of Blink's. */
export interface BlinkError {
  /** In its own spelling; empty where it says none. */
  readonly code: string
  readonly message: string
}

/** What an operation answered. */
export interface BlinkAnswer {
  readonly data: JsonMembers | null
  /** Of the operation as a whole. */
  readonly errors: readonly BlinkError[]
}

/** Seconds for which Blink blocks an account that asked too often. */
const BLOCKED = 300
const AWAY = /^(INTERNAL_SERVER_ERROR|UNEXPECTED_CLIENT_ERROR|UNKNOWN_CLIENT_ERROR|LND_OFFLINE|SERVICE_ERROR|DB_ERROR)$/

/** What an error with a status of its own says; null when its body says nothing. */
export function blinkMessage(body: unknown): string | null {
  const answer = jsonMembers(body)
  return readErrors(answer?.['errors'])[0]?.message ?? jsonText(jsonMembers(answer?.['error'])?.['message'])
}

/** Asks, and gives what was said, errors included. @throws ProviderRefused, ProviderUnavailable for what is no answer */
export async function askBlink(
  call: CallProvider,
  { name, document, scope }: BlinkOperation,
  variables: Readonly<Record<string, unknown>> = {}
): Promise<BlinkAnswer> {
  const body = { operationName: name, query: document, variables }
  const answer = jsonMembers((await call({ method: 'POST', path: '/graphql', body, scope })).body)
  if (answer === null) throw unusableAnswer('no answer to an operation')
  const data = jsonMembers(answer['data'])
  const errors = readErrors(answer['errors'])
  if (data === null && errors.length === 0) throw unusableAnswer('neither data nor errors')
  for (const error of errors) {
    const fault = faultOf(error, scope)
    if (fault !== null) throw fault
  }
  return { data, errors }
}

/** The payload of a mutation. @throws ProviderRefused, ProviderUnavailable for its errors */
export function payloadOf({ data, errors }: BlinkAnswer, field: string, { scope }: BlinkOperation): JsonMembers {
  const { payload, refused } = mutationOf({ data, errors }, field, scope)
  if (refused !== null) throw blinkRefusal(refused)
  if (payload === null) throw unusableAnswer('no payload of a mutation')
  return payload
}

/** The payload of a mutation, and the first thing that is wrong with what was asked, if anything. @throws for other faults */
export function mutationOf(
  { data, errors }: BlinkAnswer,
  field: string,
  scope: BlinkOperation['scope']
): { readonly payload: JsonMembers | null; readonly refused: BlinkError | null } {
  const payload = jsonMembers(data?.[field])
  const own = readErrors(payload?.['errors'])
  for (const error of own) {
    const fault = faultOf(error, scope)
    if (fault !== null) throw fault
  }
  return { payload, refused: own[0] ?? errors[0] ?? null }
}

/** What an error of Blink's means for who asked. */
export function blinkRefusal({ message }: BlinkError): ProviderRefused {
  return new ProviderRefused('request', `Blink refused the request: ${message}`)
}

/** What is wrong with the key, or with Blink, by an error's code; null where it is what was asked. */
function faultOf({ code }: BlinkError, scope: string): ProviderRefused | ProviderUnavailable | null {
  if (/^(NOT_AUTHENTICATED|UNAUTHENTICATED)$/.test(code))
    return new ProviderRefused('key', 'Blink does not accept this key.')
  if (/^(NOT_AUTHORIZED|FORBIDDEN)$/.test(code))
    return new ProviderRefused('scope', `The Blink key lacks the scope ${scope}.`, scope)
  if (/^TOO_MANY_REQUESTS?$/.test(code))
    return new ProviderUnavailable('Blink asks us to wait before the next call.', BLOCKED, undefined, 'rate')
  return AWAY.test(code) ? unusableAnswer(`an error of its own, ${code}`) : null
}

/** Codes stand in the error or in its extensions. Messages become one short line. */
function readErrors(value: unknown): BlinkError[] {
  return jsonList(value).map(one => {
    const error = jsonMembers(one)
    const code = jsonText(error?.['code']) ?? jsonText(jsonMembers(error?.['extensions'])?.['code']) ?? ''
    const text = (jsonText(error?.['message']) ?? '').replace(/[\p{C}\p{Z}]+/gu, ' ').trim()
    return { code, message: text === '' ? 'it gave no reason' : text.slice(0, 200) }
  })
}
