import { isPostgresUrl, PostgresUrlError, readPostgresUrl } from '../../platform/system/postgres-url.ts'
import { formatNames, type Findings, type Path } from '../config/diagnose.ts'
import { factsOf, type PlacedProvider } from './provider-checks.ts'
import type { FileConfig } from '../config/schema.ts'
import type { ProviderFacts } from '../sections/lightning.ts'

/** Several processes need external stores, in every mode. */
export function checkWorkers(config: FileConfig, findings: Findings): void {
  const { workers } = config.server
  if (workers < 2) return
  if (config.state.url === 'memory:')
    findings.report(
      'BG_CONFIG_CONFLICT',
      ['server', 'workers'],
      `found ${workers} workers with state in memory; allowed: 1 worker, or state.url with the address of a Redis server`
    )
  if (config.database.url.startsWith('pglite:'))
    findings.report(
      'BG_CONFIG_CONFLICT',
      ['server', 'workers'],
      `found ${workers} workers with the embedded database; allowed: 1 worker, or database.url with the address of a PostgreSQL server`
    )
}

/** The embedded database has one session and no pooler. */
export function checkDatabase({ database }: FileConfig, findings: Findings): void {
  const { url, listenUrl } = database
  for (const [name, text] of Object.entries({ url, listenUrl })) {
    if (!isPostgresUrl(text)) continue
    try {
      for (const ignored of readPostgresUrl(text).ignored)
        findings.warn('BG_CONFIG_CONFLICT', ['database', name], `the parameter ${ignored}; it has no effect`)
    } catch (error) {
      if (!(error instanceof PostgresUrlError)) throw error
      findings.report('BG_CONFIG_VALUE', ['database', name], `the address ${error.message}`)
    }
  }
  if (url.startsWith('pglite:') && listenUrl !== '')
    findings.report(
      'BG_CONFIG_CONFLICT',
      ['database', 'listenUrl'],
      'found with the embedded database; allowed: with the address of a PostgreSQL server in url'
    )
}

/** A public address can be derived from a port, not from a Unix socket. */
export function checkListen({ server: { listen, publicUrl } }: FileConfig, findings: Findings): void {
  if (publicUrl === '' && listen.every(text => text.startsWith('unix:')))
    findings.report(
      'BG_CONFIG_CONFLICT',
      ['server', 'listen'],
      'found Unix sockets alone; allowed: with server.publicUrl, the address that clients use'
    )
}

/** Cookies ignore the port: another origin of the same host is not isolated. */
export function checkProxyUrl({ mode, server: { proxyUrl, publicUrl } }: FileConfig, findings: Findings): void {
  if (proxyUrl === '') return
  const url = new URL(proxyUrl)
  if (publicUrl !== '' && url.hostname === new URL(publicUrl).hostname)
    findings.report(
      'BG_CONFIG_CONFLICT',
      ['server', 'proxyUrl'],
      `found the host of publicUrl, ${url.hostname}; allowed: another host name, such as https://apis.example.net`
    )
  if (mode === 'production' && url.protocol !== 'https:')
    findings.report(
      'BG_CONFIG_PRODUCTION',
      ['server', 'proxyUrl'],
      'found a plain http address in production; allowed: an https address, such as https://apis.example.net'
    )
}

/** Several addresses are a cluster, which has no numbered databases. */
export function checkState({ state: { url } }: FileConfig, findings: Findings): void {
  const addresses = url.split(/,(?=rediss?:\/\/)/)
  if (addresses.length > 1 && addresses.some(address => !['', '/', '/0'].includes(new URL(address).pathname)))
    findings.report(
      'BG_CONFIG_CONFLICT',
      ['state', 'url'],
      'found the number of a database of a cluster; allowed: addresses such as redis://host:6379'
    )
}

function isPlainAndAway(address: string): boolean {
  const { protocol, hostname } = new URL(address)
  return (
    protocol === 'http:' && hostname !== 'localhost' && hostname !== '[::1]' && !/^127\.\d+\.\d+\.\d+$/.test(hostname)
  )
}

/** A mail server needs a sender. */
export function checkSettings(config: FileConfig, findings: Findings): void {
  if (findings.isSound(['mail']) && config.mail.smtp !== '' && config.mail.from === '') {
    findings.report(
      'BG_CONFIG_CONFLICT',
      ['mail', 'from'],
      'found nothing beside a mail server; allowed: the sender of mail, such as Example <no-reply@example.com>'
    )
  }
}

export function checkBilling({ billing }: FileConfig, findings: Findings): void {
  if (!findings.isSound(['billing']) || billing.kind !== 'stripe') return
  if (billing.key === undefined)
    findings.report(
      'BG_CONFIG_CONFLICT',
      ['billing', 'key'],
      'found nothing beside kind stripe; allowed: the secret key of the account, such as sk_live_…'
    )
  if (billing.webhookSecret === undefined)
    findings.report(
      'BG_CONFIG_CONFLICT',
      ['billing', 'webhookSecret'],
      'found nothing beside kind stripe; allowed: the signing secret of the webhook endpoint, such as whsec_…'
    )
  if (billing.url !== undefined && new URL(billing.url).pathname !== '/')
    findings.report(
      'BG_CONFIG_CONFLICT',
      ['billing', 'url'],
      "found an address with a path; allowed: one without, since the path is the API's own"
    )
  if (billing.prices.individual === undefined)
    findings.report(
      'BG_CONFIG_CONFLICT',
      ['billing', 'prices', 'individual'],
      'found nothing beside kind stripe; allowed: the id of a monthly price, such as price_…'
    )
}

export function checkProduction(
  config: FileConfig,
  placed: readonly PlacedProvider[],
  providers: readonly ProviderFacts[] | undefined,
  findings: Findings
): void {
  if (config.mode !== 'production') return
  const report = (path: Path, message: string): void => {
    findings.report('BG_CONFIG_PRODUCTION', path, message, 'value', ['mode'])
  }
  const forMoney = formatNames((providers ?? []).filter(({ isSandbox }) => !isSandbox).map(({ name }) => name))
  for (const { path, provider } of placed) {
    const { kind, url } = provider
    if (factsOf(kind, providers)?.isSandbox === true)
      report([...path, 'kind'], `found the ${kind} in production; allowed: ${forMoney}`)
    // Every call carries a key that can receive or send money.
    if (url !== undefined && isPlainAndAway(url))
      report(
        [...path, 'url'],
        'found a plain http address in production; allowed: an https address, or http to this machine'
      )
  }
  for (const part of ['storefront', 'billing'] as const) {
    const { kind, url } = config[part]
    if (kind === 'sandbox')
      report(
        [part, 'kind'],
        `found the sandbox in production; allowed: ${part === 'storefront' ? 'shopify' : 'stripe, none'}`
      )
    if (url !== undefined && isPlainAndAway(url))
      report(
        [part, 'url'],
        'found a plain http address in production; allowed: an https address, or http to this machine'
      )
  }
  if (config.billing.kind === 'stripe' && /^(sk|rk)_test_/.test(config.billing.key ?? '')) {
    report(
      ['billing', 'key'],
      'found a key of test mode in production, with which test cards buy plans; allowed: a live key, such as sk_live_…'
    )
  }
  for (const [source, url] of Object.entries(config.prices.urls)) {
    // Anyone who can change the responses sets the prices.
    if (isPlainAndAway(url))
      report(
        ['prices', 'urls', source],
        'found a plain http address in production; allowed: an https address, or http to this machine'
      )
  }
  if (config.secrets.master === '')
    report(
      ['secrets', 'master'],
      'found nothing in production; allowed: at least 32 characters, such as the output of `openssl rand -base64 48`. Set BOLTGATE_SECRET, or write secrets: { master: "${MY_SECRET}" }'
    )
  if (config.database.url.startsWith('pglite:'))
    report(
      ['database', 'url'],
      'found the embedded database in production; allowed: an address such as postgres://user:password@host:5432/name. Set DATABASE_URL, or write database: { url: "${MY_DATABASE}" }'
    )
  const { publicUrl } = config.server
  if (publicUrl === '')
    report(
      ['server', 'publicUrl'],
      'found nothing in production; allowed: the https address that clients use, such as https://api.example.com. Set PUBLIC_URL, or write server: { publicUrl: https://api.example.com }'
    )
  else if (!publicUrl.startsWith('https:'))
    report(
      ['server', 'publicUrl'],
      'found a plain http address in production; allowed: an https address, such as https://api.example.com'
    )
}
