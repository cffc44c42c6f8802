import { openApiDocument, type WebhookFacts } from '../../engine/openapi/openapi.ts'
import { operationPrices, pricedRoutes, type PricedRoute } from '../../engine/openapi/paid.ts'
import type { PublishedApi } from '../../payments/proxies/open.ts'
import type { AnyOperation } from '../../engine/operations/operation.ts'
import examples from './examples.json' with { type: 'json' }
import { aboutOf, type PublishedConfig } from './manifests.ts'
import { titleOf } from '../../engine/sections/suite.ts'

interface WrittenFacts {
  readonly config: Omit<PublishedConfig, 'lightning' | 'mode'>
  readonly publicUrl: string
  /** See `servedOperations`. */
  readonly operations: readonly AnyOperation[]
  readonly webhooks: Readonly<Record<string, WebhookFacts>>
}

/** Operations for buyers: offers, payment and reachability. */
const FOR_BUYERS: ReadonlySet<string> = new Set(['discovery', 'L402', 'health'])

const WHERE_THE_REST_IS =
  'Merchants sell APIs of their own below /l402/proxy/{proxyId}/, described at /api/openapi/{proxyId}.json, and goods at ' +
  '/api/storefront/{slug}/llms.txt, each at prices of its own. Every operation, those of merchants too, is at /api/openapi.json.'

/** OpenAPI of what is sold, of everything, or of one topic. `paid`: routes of the configuration. */
export function openApiText(
  which: 'sale' | 'whole' | { readonly tag: string },
  { config, publicUrl, operations, webhooks }: WrittenFacts,
  paid: readonly PricedRoute[] = pricedRoutes(config)
): string {
  const priceOf = operationPrices(config)
  // Only the full document has operations without a payable address of their own: a registry calls each entry.
  const isForSale = (operation: AnyOperation): boolean =>
    operation.access === 'credential' && (priceOf(operation)?.price ?? null) !== null
  const isWritten = (operation: AnyOperation): boolean =>
    which === 'whole' ||
    (which === 'sale'
      ? isForSale(operation) || (operation.access === 'public' && FOR_BUYERS.has(operation.tag))
      : operation.tag === which.tag)
  const { categories, contact, icon } = config.discovery
  const document = openApiDocument(operations.filter(isWritten), {
    title: titleOf(config),
    description: which === 'sale' ? `${aboutOf(config)} ${WHERE_THE_REST_IS}` : aboutOf(config),
    publicUrl,
    pricedRoutes:
      which === 'whole'
        ? paid
        : which === 'sale'
          ? paid.filter(route => route.price !== null || route.calls !== undefined)
          : [],
    sellsByX402: config.payment.schemes.includes('x402'),
    priceOf,
    examples,
    service: {
      categories,
      docs: {
        homepage: `${publicUrl}/`,
        apiReference: `${publicUrl}/api/openapi.json`,
        llms: `${publicUrl}/llms.txt`
      },
      ...(contact === undefined ? {} : { contact }),
      ...(icon === undefined ? {} : { icon })
    },
    ...(which === 'whole' ? { webhooks } : {})
  })
  return JSON.stringify(document)
}

export function apiText(
  { name, description, routes }: PublishedApi,
  { config, publicUrl }: Pick<WrittenFacts, 'config' | 'publicUrl'>
): string {
  return JSON.stringify(
    openApiDocument([], {
      title: name,
      description: `${description}. ${aboutOf({ ...config, discovery: { ...config.discovery, description: '' } })}`,
      publicUrl,
      pricedRoutes: routes,
      sellsByX402: config.payment.schemes.includes('x402')
    })
  )
}

/** Registries read no more of `/openapi.json`. */
export const SALE_BYTES = 65_536

interface SaleDocument {
  readonly text: string
  /** With all that `openapi` files say. */
  readonly wholeBytes: number
  /** What of these files it has no room for. */
  readonly leftOut: 'schemas' | 'operations' | null
}

/** `/openapi.json`: without schemas, or else operations, of `openapi` files if it would be too large. */
export function saleDocument(facts: WrittenFacts): SaleDocument {
  const paid = pricedRoutes(facts.config)
  let text = openApiText('sale', facts, paid)
  const wholeBytes = Buffer.byteLength(text)
  const isOfFile = ({ api }: PricedRoute): boolean => api !== undefined
  if (wholeBytes <= SALE_BYTES || !paid.some(isOfFile)) return { text, wholeBytes, leftOut: null }
  text = openApiText(
    'sale',
    facts,
    paid.map(({ api: _schemas, ...route }) => route)
  )
  if (Buffer.byteLength(text) <= SALE_BYTES) return { text, wholeBytes, leftOut: 'schemas' }
  text = openApiText(
    'sale',
    facts,
    paid.filter(route => !isOfFile(route))
  )
  return { text, wholeBytes, leftOut: 'operations' }
}
