import type { PublishedApi } from '../../payments/proxies/open.ts'
import type { PriceList } from '../../selling/challenges/schema.ts'
import type { WebhookFacts } from '../../engine/openapi/openapi.ts'
import { openApiPath, pricedRoutes, servedOperations, type PricedRoute } from '../../engine/openapi/paid.ts'
import { acceptsGzip, prefersJson } from '../../engine/message/accept.ts'
import { notFound } from '../../engine/operations/errors.ts'
import { defineOperation, type AnyOperation, type Result } from '../../engine/operations/operation.ts'
import { apiText, openApiText, saleDocument } from './documents.ts'
import { llmsText, type ListedStore } from './llms.ts'
import { gzipSync } from 'node:zlib'
import { Type } from 'typebox'
import type { Context } from '../../engine/message/context.ts'
import { l402Manifest, l402Services, type PublishedConfig, type SaleFacts } from './manifests.ts'
import { titleOf } from '../../engine/sections/suite.ts'

/** Lazy document, rebuilt when `version` changes. Compressed for clients that accept gzip. */
class PublishedDocument {
  readonly #version: () => unknown
  readonly #make: () => string
  #made: { readonly version: unknown; readonly plain: string; gzip: Uint8Array | null } | null = null

  constructor(version: () => unknown, make: () => string) {
    this.#version = version
    this.#make = make
  }

  reply(ctx: Context): Result {
    const version = this.#version()
    let created = this.#made
    if (created === null || created.version !== version)
      created = this.#made = { version, plain: this.#make(), gzip: null }
    const headers = [...FOR_A_MINUTE, 'Vary', 'Accept-Encoding']
    if (!acceptsGzip(ctx.headers.get('accept-encoding'))) return { status: 200, body: created.plain, headers }
    return {
      status: 200,
      body: (created.gzip ??= gzipSync(created.plain)),
      headers: [...headers, 'Content-Encoding', 'gzip']
    }
  }
}

export interface DiscoveryFacts {
  publicUrl(): string
  /** Current configuration; a new object after each reload. */
  config(): PublishedConfig
  /** Response of `/api/l402/pricing`. */
  prices(): PriceList
  /** Every mounted operation; called on the first read of a document. */
  operations(): readonly AnyOperation[]
  webhooks(): Readonly<Record<string, WebhookFacts>>
  stores(): Promise<readonly ListedStore[]>
  apis(): Promise<readonly PricedRoute[]>
  api(proxyId: string): Promise<PublishedApi | null>
}

interface DocumentOperation extends Pick<AnyOperation, 'id' | 'path' | 'summary' | 'description' | 'responses'> {
  write(sale: SaleFacts): string | Promise<string>
}

const JSON_TYPE = 'application/json; charset=utf-8'
const HTML_TYPE = 'text/html; charset=utf-8'

export function discoveryOperations(facts: DiscoveryFacts): AnyOperation[] {
  const common = {
    method: 'GET',
    tag: 'discovery',
    access: 'public',
    mount: { use: 'service', chain: 'service-public' }
  } as const
  let known: { readonly config: unknown; readonly operations: AnyOperation[] } | null = null
  /** Built once per configuration: it takes a router. */
  const served = (): AnyOperation[] => {
    const config = facts.config()
    if (known?.config !== config) known = { config, operations: servedOperations(config, facts.operations()) }
    return known.operations
  }
  const written = () => ({
    config: facts.config(),
    publicUrl: facts.publicUrl(),
    operations: served(),
    webhooks: facts.webhooks()
  })
  const sold = async (): Promise<SaleFacts> => {
    const config = facts.config()
    return { config, publicUrl: facts.publicUrl(), pricedRoutes: [...pricedRoutes(config), ...(await facts.apis())] }
  }
  /** A text about what is sold, made for each request: merchants' APIs change at any time. */
  const document = ({ write, ...operation }: DocumentOperation): AnyOperation =>
    defineOperation({
      ...common,
      ...operation,
      handle: async () => ({ status: 200, body: await write(await sold()), headers: FOR_A_MINUTE })
    })
  /** Every operation in a line, by tag, with the address of the tag's document. */
  const index = (): string => {
    const base = facts.publicUrl()
    const tags = Map.groupBy(served(), ({ tag }) => tag)
    return JSON.stringify({
      title: titleOf(facts.config()),
      everything: `${base}/api/openapi.json`,
      parts: [...tags].map(([tag, operations]) => ({
        tag,
        url: `${base}/api/openapi/${partOf(tag)}`,
        operations: operations.map(({ id, method, path, summary }) => ({
          operationId: id,
          method,
          path: openApiPath(path),
          summary
        }))
      }))
    })
  }
  const parts = new Map<string, PublishedDocument>()
  const partsByName = (name: string): PublishedDocument | null => {
    const known = parts.get(name)
    if (known !== undefined) return known
    const tag = served().find(operation => partOf(operation.tag) === name)?.tag
    if (tag === undefined && name !== INDEX) return null
    const created = new PublishedDocument(
      facts.config,
      tag === undefined ? index : () => openApiText({ tag }, written())
    )
    parts.set(name, created)
    return created
  }
  const sale = new PublishedDocument(facts.config, () => saleDocument(written()).text)
  const whole = new PublishedDocument(facts.config, () => openApiText('whole', written()))
  return [
    defineOperation({
      ...common,
      tag: 'browsers',
      id: 'getHome',
      path: '/',
      summary: 'The price list as a page',
      description:
        'A page with what is for sale and the ways of agents; for clients that prefer JSON what /.well-known/l402.json says. ' +
        '`pages.home` turns it off, or leads elsewhere.',
      responses: {
        200: { description: 'The page, or the manifest.', mediaType: HTML_TYPE, also: JSON_TYPE },
        302: { description: 'Redirect to Location.' },
        404: 'There is no such page.'
      },
      async handle({ ctx }) {
        const config = facts.config()
        const { home, colour } = config.pages
        if (home === false) throw notFound()
        if (typeof home === 'string') return { status: 302, body: null, headers: ['Location', home] }
        if (prefersJson(ctx.headers.all('accept').join(',')))
          return {
            status: 200,
            body: l402Manifest(await sold(), facts.prices()),
            mediaType: JSON_TYPE,
            headers: ['Vary', 'Accept']
          }
        // Lazy: gateways for programs need no pages.
        const { homePage } = await import('../../web/pay/home-page.ts')
        const { body, headers } = homePage({
          seller: titleOf(config),
          colour,
          routes: (await sold()).pricedRoutes,
          stores: await facts.stores(),
          hasStorePages: config.routes.some(({ match }) => match.path.some(path => path.startsWith('/storefront/'))),
          signIn: !config.routes.some(({ match }) => match.path.includes('/sign-in'))
            ? 'none'
            : config.pages.signUp
              ? 'sign-up'
              : 'sign-in'
        })
        return { status: 200, body, headers: [...headers.slice(2), 'Vary', 'Accept'] }
      }
    }),
    defineOperation({
      ...common,
      id: 'getOpenApi',
      path: '/openapi.json',
      summary: 'The paid routes, as OpenAPI 3.1',
      description:
        'Every request that can be paid without parameters, with its price in x-payment-info, and how to find the others. ' +
        'It stays under 64 KB, where registries stop reading; the whole is at /api/openapi.json.',
      responses: { 200: { description: 'The document.', mediaType: JSON_TYPE } },
      handle: ({ ctx }) => sale.reply(ctx)
    }),
    defineOperation({
      ...common,
      id: 'getWholeOpenApi',
      path: '/api/openapi.json',
      summary: 'Every operation of this gateway, as OpenAPI 3.1',
      description:
        'The merchant API, stores, plans, administration and the webhooks that are sent, beside what is for sale.',
      responses: { 200: { description: 'The document.', mediaType: JSON_TYPE } },
      handle: ({ ctx }) => whole.reply(ctx)
    }),
    defineOperation({
      ...common,
      id: 'getOpenApiPart',
      path: '/api/openapi/:part',
      params: Type.Object({
        part: Type.String({ description: 'index.json, the name of a topic, or the id of a listed API with .json.' })
      }),
      summary: 'The operations of one topic, as OpenAPI 3.1',
      description:
        '`index.json` lists every operation in a line, under 64 KB, and the document of each topic. `{proxyId}.json` has the operations of a listed API with their prices.',
      responses: { 200: { description: 'The document.', mediaType: JSON_TYPE }, 404: 'There is no such part.' },
      async handle({ ctx, params }) {
        const part = partsByName(params.part)
        if (part !== null) return part.reply(ctx)
        const api = params.part.endsWith('.json') ? await facts.api(params.part.slice(0, -5)) : null
        if (api === null) throw notFound()
        return { status: 200, body: apiText(api, written()), headers: FOR_A_MINUTE }
      }
    }),
    document({
      id: 'getLlmsText',
      path: '/llms.txt',
      summary: 'Instructions for agents, in plain text',
      description: 'Paid routes, how to pay, stores, and further documents.',
      responses: { 200: { description: 'The text.', mediaType: 'text/plain; charset=utf-8' } },
      async write(sale) {
        const paths = new Set(served().map(({ path }) => path.replaceAll(/:[A-Za-z]+/g, 'x')))
        return llmsText({
          ...sale,
          stores: await facts.stores(),
          serves: path => paths.has(path.replace(INDEX, 'x')),
          isSandbox: paths.has('/sandbox/pay') && sale.config.mode === 'development'
        })
      }
    }),
    document({
      id: 'getL402Manifest',
      path: '/.well-known/l402.json',
      summary: 'The paid routes, for L402 clients',
      description: 'The service, its default price, and each paid route with its price.',
      responses: { 200: { description: 'The manifest.', mediaType: JSON_TYPE } },
      write: sale => l402Manifest(sale, facts.prices())
    }),
    document({
      id: 'getL402Services',
      path: '/.well-known/l402-services',
      summary: 'The paid routes, for directories',
      description: 'Each paid URL with its price in satoshis, and the request body if examples show one.',
      responses: { 200: { description: 'The services.', mediaType: JSON_TYPE } },
      write: l402Services
    }),
    ...PROOFS.map(([id, file]) =>
      defineOperation({
        ...common,
        tag: 'browsers',
        id,
        path: `/.well-known/${file}`,
        summary: `Proof of the domain: ${file}`,
        description: 'The text that a directory gave the operator; `discovery.verify` has it.',
        responses: {
          200: { description: 'The text.', mediaType: 'text/plain; charset=utf-8' },
          404: 'The operator has none.'
        },
        handle() {
          const text = facts.config().discovery.verify[file]
          if (text === undefined) throw notFound()
          return { status: 200, body: text, headers: FOR_A_MINUTE }
        }
      })
    ),
    defineOperation({
      ...common,
      tag: 'browsers',
      id: 'getIcon',
      path: '/favicon.ico',
      summary: 'The icon for browsers',
      description: 'An SVG, whatever the name of the address says.',
      responses: { 200: { description: 'The picture.', mediaType: 'image/svg+xml' } },
      async handle() {
        const { ICON_SVG } = await import('../../web/kit/document.ts')
        return { status: 200, body: ICON_SVG, headers: FOR_A_DAY }
      }
    }),
    defineOperation({
      ...common,
      tag: 'browsers',
      id: 'getRobots',
      path: '/robots.txt',
      summary: 'Rules for crawlers',
      description: 'Pages whose addresses are secrets, and what only callers with a key can use, are left out.',
      responses: { 200: { description: 'The text.', mediaType: 'text/plain; charset=utf-8' } },
      handle: () => ({ status: 200, body: ROBOTS, headers: FOR_A_DAY })
    })
  ]
}

const INDEX = 'index.json'

const PROOFS = [
  ['get402IndexProof', '402index-verify.txt'],
  ['getSatringProof', 'satring-verify']
] as const

function partOf(tag: string): string {
  return `${tag.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}.json`
}

const FOR_A_MINUTE = Object.freeze(['Cache-Control', 'public, max-age=60'])
const FOR_A_DAY = Object.freeze(['Cache-Control', 'public, max-age=86400'])
const ROBOTS = [
  'User-agent: *',
  ...['/pay/', '/storefront/*/claim', '/sign-in', '/billing/', '/jobs', '/api/merchant/', '/api/admin/'].map(
    path => `Disallow: ${path}`
  ),
  ''
].join('\n')
