import { Resolver } from 'node:dns/promises'
import { normalAddress } from '../../engine/message/addresses.ts'
import type { Context } from '../../engine/message/context.ts'
import type { Maybe } from '../../platform/state/state.ts'
import { hasCode } from '../../platform/system/errors.ts'
import { Lookups, type LookupDependencies } from './lookups.ts'

export interface NameService {
  reverse(address: string): Promise<readonly string[]>
  addresses(name: string): Promise<readonly string[]>
}

/** Crawlers' name in User-Agent, and the domains of their hosts, as each search engine documents them. */
const ENGINES: ReadonlyArray<readonly [agent: string, domains: readonly string[]]> = [
  ['googlebot', ['.googlebot.com']],
  ['bingbot', ['.search.msn.com']],
  ['applebot', ['.applebot.apple.com']],
  ['yandex', ['.yandex.com', '.yandex.ru', '.yandex.net']],
  ['baiduspider', ['.baidu.com', '.baidu.jp']],
  ['seznambot', ['.seznam.cz']],
  ['petalbot', ['.petalsearch.com']]
]
const HOUR = 3_600_000
/** Names of one address that are looked up; a longer list is an attempt to multiply queries. */
const MAX_NAMES = 3

/** Recognizes crawlers of search engines: their address has a name of the engine, and that name has the address. */
export class SearchEngines {
  readonly #lookups: Lookups<readonly string[]>

  constructor(dependencies: LookupDependencies, names: NameService = systemNames()) {
    this.#lookups = new Lookups('reverse DNS', address => confirmedNames(names, address), dependencies)
  }

  includes(ctx: Context): Maybe<boolean> {
    const agent = ctx.headers.get('user-agent')?.slice(0, 512).toLowerCase() ?? ''
    const domains = ENGINES.find(([name]) => agent.includes(name))?.[1]
    if (domains === undefined) return false
    const judge = (names: readonly string[] | null): boolean =>
      names?.some(name => domains.some(domain => name.endsWith(domain))) === true
    const names = this.#lookups.find(normalAddress(ctx.clientAddress), ctx.clientAddress)
    return names instanceof Promise ? names.then(judge) : judge(names)
  }
}

async function confirmedNames(dns: NameService, address: string): Promise<{ value: readonly string[]; ttl: number }> {
  const confirmed: string[] = []
  const found = (await absent(dns.reverse(address))).map(name => name.toLowerCase().replace(/\.$/, ''))
  const known = found.filter(name => ENGINES.some(([, domains]) => domains.some(domain => name.endsWith(domain))))
  for (const name of known.slice(0, MAX_NAMES)) {
    const addresses = await absent(dns.addresses(name))
    if (addresses.some(one => normalAddress(one) === address)) confirmed.push(name)
  }
  return { value: confirmed, ttl: confirmed.length === 0 ? HOUR : 24 * HOUR }
}

/** A name or address without records is an answer; a failing server is none. */
async function absent(pending: Promise<readonly string[]>): Promise<readonly string[]> {
  try {
    return await pending
  } catch (error) {
    if (hasCode(error, 'ENOTFOUND') || hasCode(error, 'ENODATA')) return []
    throw error
  }
}

function systemNames(): NameService {
  const resolver = new Resolver({ timeout: 1000, tries: 1 })
  return {
    reverse: address => resolver.reverse(address),
    addresses: async name =>
      (await Promise.all([absent(resolver.resolve4(name)), absent(resolver.resolve6(name))])).flat()
  }
}
