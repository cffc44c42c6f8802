import type { Dispatcher } from 'undici'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import { reachable } from '../../engine/config/listen-address.ts'
import { readKeys } from '../../platform/keys/keyfile.ts'
import { loadNamed } from './configuration.ts'
import { callGateway, type WholeResponse } from './gateway-call.ts'
import { UsageError } from './output.ts'
import { addressOption } from './request-options.ts'

/**
 * Calls the admin API of a running gateway with the admin key of its configuration.
 * @throws UsageError, ConfigError, CodedError
 */
export async function callAdmin(
  method: Dispatcher.HttpMethod,
  path: string,
  body: object | null,
  options: { readonly url?: string | undefined; readonly config?: string | undefined }
): Promise<WholeResponse & { readonly url: string }> {
  const given = options.url === undefined ? null : addressOption('--url', options.url).href
  const { config } = await loadNamed(options.config)
  const adminKey = adminKeyOf(config)
  const url = given ?? addressOf(config)
  const response = await callGateway(new URL(path, url), {
    method,
    headers: { 'x-api-key': adminKey, ...(body === null ? {} : { 'content-type': 'application/json' }) },
    body: body === null ? null : JSON.stringify(body)
  })
  return { ...response, url }
}

/** @throws UsageError without one */
export function adminKeyOf({ data, secrets }: Pick<GatewayConfig, 'data' | 'secrets'>): string {
  const adminKey = secrets.adminKey === '' ? readKeys(data)?.adminKey.reveal() : secrets.adminKey
  if (adminKey !== undefined) return adminKey
  throw new UsageError(
    `There is no admin key in the configuration, and none in ${data}. Run this where the gateway runs, or set secrets.adminKey.`
  )
}

export function addressOf({ server: { listen, tls, publicUrl } }: GatewayConfig): string {
  // Only its public name has a certificate.
  if (tls.length > 0 || (listen.port === 0 && publicUrl !== '')) return publicUrl
  return `http://${reachable(listen)}`
}
