import { request, type Dispatcher } from 'undici'
import { NOT_REACHED, OTHER_RESPONSE } from './output.ts'
import { jsonOrUndefined } from '../../platform/system/json.ts'
import { CodedError } from '../../platform/system/errors.ts'

export interface WholeResponse {
  readonly status: number
  readonly headers: Dispatcher.ResponseData['headers']
  readonly text: string
}

export interface GatewayRequest {
  readonly method: Dispatcher.HttpMethod
  readonly headers: Readonly<Record<string, string | string[]>>
  readonly body: string | null
}

/** @throws CodedError when the address does not speak HTTP */
export async function callGateway(url: URL, { method, headers, body }: GatewayRequest): Promise<WholeResponse> {
  try {
    const response = await request(url, { method, headers, body })
    return { status: response.statusCode, headers: response.headers, text: await response.body.text() }
  } catch (error) {
    // The input was validated: only the network or the server can fail.
    throw new CodedError(
      NOT_REACHED,
      `${url.origin} cannot be reached: ${reasonOf(error)}; start the gateway there, or correct the address`,
      { cause: error }
    )
  }
}

/**
 * Pays an invoice at a sandbox and returns its preimage.
 * @throws CodedError
 */
export async function payAtSandbox(sandbox: URL, invoice: string | undefined): Promise<string> {
  const { status, text } = await callGateway(sandbox, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ invoice })
  })
  const preimage = status === 200 ? preimageIn(text) : null
  if (preimage !== null) return preimage
  throw new CodedError(
    OTHER_RESPONSE,
    `The invoice could not be paid: ${sandbox.href} answered ${status}: ${beginningOf(text)}\nOnly the sandbox can be paid from here. With a real provider, pay the invoice with a wallet.`
  )
}

/** Excerpt of a body for a message. */
export function beginningOf(text: string): string {
  return text.trim() === '' ? 'nothing more' : text.trim().slice(0, 300)
}

function preimageIn(text: string): string | null {
  const found = jsonOrUndefined(text)
  return typeof found === 'object' && found !== null && 'preimage' in found && typeof found.preimage === 'string'
    ? found.preimage
    : null
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  // OpenSSL's own text does not help.
  if ('code' in error && String(error.code).startsWith('ERR_SSL_'))
    return 'what answers there speaks no TLS, or another version of it (is it http:// and not https://?)'
  return error.message
}
