import { formatNames, quote, type Path, type Findings } from '../config/diagnose.ts'
import type { ReadEntry } from './chains.ts'
import { isFree } from './price.ts'
import { sellsCalls } from './sale.ts'
import type { FileConfig, RouteConfig } from '../config/schema.ts'
import type { ProviderFacts } from '../sections/lightning.ts'

export interface PlacedProvider {
  readonly slot: 'primary' | 'alternate'
  readonly path: Path
  readonly provider: FileConfig['lightning']['primary'][number]
}

export function placedProviders({ lightning }: FileConfig, given: unknown): readonly PlacedProvider[] {
  const written = writtenMember(given, 'lightning')
  return (['primary', 'alternate'] as const).flatMap(slot =>
    lightning[slot].map((provider, index) => ({
      slot,
      provider,
      path: Array.isArray(writtenMember(written, slot)) ? ['lightning', slot, index] : ['lightning', slot]
    }))
  )
}

export function writtenMember(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Object.getOwnPropertyDescriptor(value, name)?.value : undefined
}

/** Invoices are attributed by provider name: names in a slot must be unique and not another kind's. */
export function checkNames(placed: readonly PlacedProvider[], kinds: readonly string[], findings: Findings): void {
  const seen = new Set<string>()
  for (const { slot, path, provider } of placed) {
    const { kind, name = kind } = provider
    const at = provider.name === undefined ? path : [...path, 'name']
    if (name !== kind && (kinds.includes(name) || name === 'demo'))
      findings.report('BG_CONFIG_CONFLICT', at, `found ${quote(name)}, which is a kind; allowed: a name of its own`)
    else if (seen.has(`${slot} ${name}`))
      findings.report(
        'BG_CONFIG_CONFLICT',
        at,
        `found a second provider called ${quote(name)} in ${slot}; allowed: a name of its own, as in { kind: ${kind}, name: ${kind}-2 }`
      )
    seen.add(`${slot} ${name}`)
  }
}

export function factsOf(kind: string, providers: readonly ProviderFacts[] | undefined): ProviderFacts | undefined {
  return providers?.find(({ name }) => name === kind)
}

/**
 * An unreadable key would end the start. Sellers through a kind that cannot pay should know before the first refund.
 */
export function checkKeys(
  placed: readonly PlacedProvider[],
  providers: readonly ProviderFacts[] | undefined,
  findings: Findings
): void {
  for (const { path, provider } of placed) {
    const { kind, key } = provider
    const facts = factsOf(kind, providers)
    if (facts?.onlyReceives === true)
      findings.warn(
        'BG_CONFIG_PROVIDER_RECEIVES',
        [...path, 'kind'],
        `found ${kind}, which only receives; allowed, but nothing that is paid through it can be refunded`
      )
    const fault = key === undefined ? undefined : facts?.keyFault(key)
    if (fault !== undefined) findings.report('BG_CONFIG_PROVIDER_KEY', [...path, 'key'], fault)
  }
}

/**
 * Sales need an account to receive the money; only the sandbox needs no key. In development this is a warning:
 * merchants with their own keys can be tried beside operator routes that answer 503.
 */
export function checkOperatorKey(
  { mode }: FileConfig,
  placed: readonly PlacedProvider[],
  providers: readonly ProviderFacts[] | undefined,
  selling: readonly RouteConfig[],
  findings: Findings
): void {
  const own = placed.filter(({ slot }) => slot === 'primary')
  const [first] = own
  if (
    selling.length === 0 ||
    first === undefined ||
    own.some(({ provider }) => provider.key !== undefined || factsOf(provider.kind, providers)?.isSandbox !== false)
  )
    return
  const lines = formatNames(selling.map(({ at }) => String(at.line)))
  const who =
    selling.length === 1 ? `the route on line ${lines} has a price` : `the routes on lines ${lines} have a price`
  const message = `found nothing, but ${who}; allowed: the provider key that its payments go to`
  if (mode === 'production') findings.report('BG_CONFIG_PROVIDER_KEY', [...first.path, 'key'], message)
  else findings.warn('BG_CONFIG_PROVIDER_KEY', [...first.path, 'key'], `${message}, or every sale answers 503`)
}

/** Calls inside messages are paid for by the Payment scheme only. */
export function checkCallSchemes(
  { payment }: FileConfig,
  routes: readonly { readonly route: RouteConfig; readonly index: number }[],
  chains: ReadonlyMap<string, readonly ReadEntry[]>,
  findings: Findings
): void {
  if (payment.schemes.includes('payment')) return
  for (const { route, index } of routes)
    if (sellsCalls(chains.get(route.chain) ?? []))
      findings.report(
        'BG_CONFIG_CONFLICT',
        ['routes', index, 'chain'],
        `found the chain ${quote(route.chain)}, which sells calls inside messages, but payment.schemes leaves out the Payment scheme, whose challenges these messages carry; allowed: such a chain with payment among the schemes`
      )
}

/** x402 binds each invoice to a public address, by the hash of its description, and some clients know it alone. */
export function checkX402(
  { payment, server }: FileConfig,
  placed: readonly PlacedProvider[],
  providers: readonly ProviderFacts[] | undefined,
  findings: Findings
): void {
  if (!payment.schemes.includes('x402')) return
  const at = ['payment', 'schemes']
  if (payment.schemes.length === 1)
    findings.report('BG_CONFIG_CONFLICT', at, 'found x402 alone; allowed: x402 beside l402 or payment')
  if (server.publicUrl === '')
    findings.warn(
      'BG_CONFIG_CONFLICT',
      at,
      'found x402, but no server.publicUrl to bind invoices to: no 402 offers x402'
    )
  for (const { path, provider } of placed)
    if (factsOf(provider.kind, providers)?.hashesDescriptions === undefined)
      findings.warn(
        'BG_CONFIG_CONFLICT',
        [...path, 'kind'],
        `found ${provider.kind}, whose invoices cannot be bound to a request: its 402s offer no x402`
      )
}

/**
 * The rest of a session is paid back, so its provider must be able to pay; and sessions need the Payment scheme. Free
 * routes need no session.
 */
export function checkSessionProvider(
  { payment }: FileConfig,
  placed: readonly PlacedProvider[],
  providers: readonly ProviderFacts[] | undefined,
  routes: readonly { readonly route: RouteConfig; readonly index: number }[],
  findings: Findings
): void {
  const own = placed.filter(({ slot }) => slot === 'primary').map(({ provider }) => factsOf(provider.kind, providers))
  const receiving = own.find(facts => facts?.onlyReceives === true)?.name
  const wanting = own.find(facts => facts?.wantsAmounts === true)?.name
  for (const { route, index } of routes) {
    if (route.sessions === undefined) continue
    const found =
      receiving !== undefined
        ? `but ${receiving} only receives, and what is left of a session is paid back; allowed: sessions with a provider that pays out in lightning.primary`
        : wanting !== undefined
          ? `but ${wanting} pays no invoice without an amount, and what is left of a session is paid back to one; allowed: sessions with a provider that does in lightning.primary`
          : !payment.schemes.includes('payment')
            ? 'but payment.schemes leaves the Payment scheme out, which sessions belong to; allowed: sessions with payment among the schemes'
            : route.price !== undefined && isFree(route.price)
              ? 'but nothing costs anything there; allowed: sessions beside a price or a meter'
              : null
    if (found !== null)
      findings.report('BG_CONFIG_CONFLICT', ['routes', index, 'sessions'], `found sessions, ${found}`, 'key')
  }
}
