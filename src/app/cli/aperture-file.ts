import { isObject } from '../../platform/system/json.ts'
import { parse } from 'yaml'
import { formatUnit } from '../../engine/config/units.ts'
import { KEY_VARIABLE } from './init-file.ts'

/** The parts of Aperture's file that say where its root keys are. */
export interface ApertureFile {
  readonly settings: Section
  readonly yaml: string
}

type Section = Readonly<Record<string, unknown>>

/** What has no equal, by its place in Aperture's file. */
const NO_EQUAL: Readonly<Record<string, string>> = {
  staticroot: 'add a route with `upstream: { files: FOLDER }`.',
  servestatic: 'see staticroot.',
  basedir: 'only its certificate and root keys are read.',
  invoicebatchsize: 'invoices are not read at the start.',
  strictverify: 'the preimage is the proof of a payment.',
  profile: 'there is no pprof; docs/how-to/monitoring.md has what there is.',
  idletimeout: 'limits of connections are under server.limits.',
  readtimeout: 'limits of connections are under server.limits.',
  writetimeout: 'limits of connections are under server.limits.',
  wspinginterval: 'WebSockets are passed on as they are.',
  wspongwait: 'WebSockets are passed on as they are.',
  blocklist: 'block addresses in your firewall.',
  tor: 'let Tor itself forward an onion service to server.listen.',
  hashmail: 'there is no mailbox of Lightning Node Connect.',
  prometheus: 'metrics are at /metrics, see docs/how-to/monitoring.md.',
  admin: 'the operator has a console at /operator and an API at /api/admin.',
  logging: 'log lines are JSON on standard output.'
}
/** Read elsewhere, or without meaning here. */
const READ: ReadonlySet<string> = new Set(
  'listenaddr servername insecure autocert authenticator services dbbackend sqlite postgres etcd debuglevel configfile'.split(
    ' '
  )
)
const LEVELS: Readonly<Record<string, string>> = {
  trace: 'debug',
  debug: 'debug',
  warn: 'warn',
  error: 'error',
  critical: 'error',
  off: 'silent'
}
const SERVICE_NAME = /^[A-Za-z0-9._-]{1,64}$/
const CHAIN =
  'correlation, access-log, metrics, cors, { throttle: { policy: global } }, body-limit, session, credential, challenge'

/** @throws SyntaxError unless it is a YAML mapping */
export function fromAperture(text: string, name: string, home: string): ApertureFile {
  const settings = sectionOf(parse(text) as unknown)
  if (settings === null || !('services' in settings))
    throw new SyntaxError(`${name} has no services, so it is no configuration of Aperture`)
  const services = new Services(sectionOf(settings['authenticator'])?.['disable'] === true)
  for (const each of listOf(settings['services'])) services.add(sectionOf(each) ?? {})
  const notes = Object.keys(settings).flatMap(key =>
    READ.has(key) ? [] : [`# Aperture: ${key}: ${NO_EQUAL[key] ?? 'has no equal.'}`]
  )
  const yaml = [
    `# Made from ${name} by \`boltgate import aperture\`. A comment with "Aperture:" names what has no equal here.`,
    '# Then: docs/how-to/aperture.md',
    ...notes,
    ...serverLines(settings, home),
    ...paymentLines(settings, services.schemes),
    'use: [ service, operator-api, pages ]',
    ...services.lines()
  ]
  return { settings, yaml: `${yaml.join('\n')}\n` }
}

function serverLines(settings: Section, home: string): string[] {
  const [host = '', port = ''] = textOf(settings['listenaddr']).split(/:(?=\d+$)/)
  const listen = `${host === '' ? '0.0.0.0' : host === 'localhost' ? '127.0.0.1' : host}:${port === '' ? '8081' : port}`
  const name = textOf(settings['servername'])
  const folder = textOf(settings['basedir']) || `${home}/.aperture`
  const isPlain = settings['insecure'] === true
  const level = LEVELS[textOf(settings['debuglevel'])]
  const tls = `  tls: [ { cert: ${quoted(`${folder}/tls.cert`)}, key: ${quoted(`${folder}/tls.key`)} } ]`
  const at = isPlain || port === '443' || port === '' ? '' : `:${port}`
  return [
    'server:',
    `  listen: ${quoted(listen)}`,
    ...(name === '' ? [] : [`  publicUrl: ${quoted(`https://${name}${at}`)}`]),
    ...(isPlain
      ? ['  # Aperture: insecure: name the load balancer that ends TLS in trustedProxies.']
      : settings['autocert'] === true
        ? [
            '  # Aperture: autocert: certificates come from certbot or a proxy, see docs/how-to/tls.md.',
            `  #${tls.slice(1)}`
          ]
        : [tls, '  http2: true']),
    ...(level === undefined ? [] : [`log: { level: ${level} }`])
  ]
}

function paymentLines(settings: Section, schemes: ReadonlySet<string>): string[] {
  const node = sectionOf(settings['authenticator']) ?? {}
  const lnd = textOf(node['lndhost'])
  const about =
    lnd === ''
      ? [
          '# Aperture: authenticator: there is no Lightning Node Connect and no Wavelength; connect one of docs/how-to/lightning.'
        ]
      : [
          `# ${KEY_VARIABLE} is made from the address of lnd's REST API (8080, where Aperture has gRPC at ${lnd}), ${textOf(node['tlspath']) || 'its tls.cert'}`,
          `# and invoice.macaroon of ${textOf(node['macdir']) || 'its folder'}: docs/how-to/lightning/lnd.md.`
        ]
  const mpp = node['enablempp'] === true
  return [
    ...about,
    `lightning: { primary: { kind: lnd, key: "\${${KEY_VARIABLE}}" } }`,
    ...(node['enablesessions'] === true
      ? [
          '# Aperture: enablesessions: prepaid sessions are not imported; docs/how-to/sessions.md has those of boltgate.'
        ]
      : []),
    ...(schemes.size > 1 ? ['# Aperture: authscheme: all routes offer the same schemes.'] : []),
    'payment:',
    `  schemes: [ ${mpp && !(schemes.size === 1 && schemes.has('l402')) ? 'l402, payment' : 'l402'} ]`,
    '  l402Lsat: true    # clients of Aperture may know the old name alone'
  ]
}

interface Paths {
  readonly paths: readonly string[]
  /** Of what the expression took besides. */
  readonly note: string | null
}

interface Place {
  /** '' for any, null for what no host says. */
  readonly host: string | null
  readonly path: string
}

const UNKNOWN = 'REGULAR EXPRESSION'

function takesAll(earlier: Place, later: Place): boolean {
  if (earlier.host !== '' && (earlier.host === null || earlier.host !== later.host)) return false
  return (
    earlier.path === later.path || (earlier.path.endsWith('/*') && later.path.startsWith(earlier.path.slice(0, -1)))
  )
}

/** The routes of all services, in their order. */
class Services {
  readonly schemes = new Set<string>()
  readonly #isFree: boolean
  readonly #policies: string[] = []
  readonly #chains: string[] = []
  readonly #upstreams: string[] = []
  readonly #routes: string[] = []
  /** What earlier services took: the first one wins there, the most specific path here. */
  readonly #taken: Place[] = []

  constructor(isFree: boolean) {
    this.#isFree = isFree
  }

  lines(): string[] {
    const under = (name: string, lines: readonly string[]): string[] =>
      lines.length === 0 ? [] : [`${name}:`, ...lines]
    return [
      'policies:',
      '  global: { limit: 6000, window: 1m }    # by address, before payment; Aperture has no such limit',
      ...this.#policies,
      ...under('chains', this.#chains),
      ...under('upstreams', this.#upstreams),
      ...under('routes', this.#routes)
    ]
  }

  add(service: Section): void {
    const given = textOf(service['name'])
    const name = given.replace(/[^A-Za-z0-9._-]/g, '-').slice(0, 64) || 'service'
    const key = name.replace(/[^A-Za-z0-9_-]/g, '-').replace(/^[^A-Za-z0-9]/, 's')
    const say = (words: string): void => {
      this.#routes.push(`  # Aperture: ${given}: ${words}`)
    }
    this.#routes.push(`  # ${given}`)
    if (!SERVICE_NAME.test(given)) say(`tokens that were sold name "${given}", and are not valid for "${name}".`)
    this.#addUpstream(key, service, say)
    this.schemes.add(textOf(service['authscheme']) || 'l402')
    const host = hostOf(textOf(service['hostregexp']))
    const main = pathsOf(textOf(service['pathregexp']))
    for (const what of ['capabilities', 'constraints'])
      if (service[what] !== undefined) say(`${what} are not checked: the upstream does not see the token.`)
    const terms = this.#terms(name, service, say)
    const limits = this.#limits(key, service, say)
    const everywhere = limits.filter(({ regexp }) => regexp === '').map(({ policy }) => policy)
    const byPath = new Map<
      string,
      { readonly regexp: string; isFree: boolean; isSilent: boolean; policies: string[] }
    >()
    const at = (regexp: string) => {
      const found = byPath.get(regexp) ?? { regexp, isFree: false, isSilent: false, policies: [...everywhere] }
      byPath.set(regexp, found)
      return found
    }
    for (const regexp of listOf(service['authwhitelistpaths'])) at(textOf(regexp)).isFree = true
    for (const regexp of listOf(service['authskipinvoicecreationpaths'])) at(textOf(regexp)).isSilent = true
    for (const { regexp, policy } of limits) if (regexp !== '') at(regexp).policies.push(policy)
    for (const { regexp, isFree, isSilent, policies } of byPath.values())
      this.#addRoute(
        { host, paths: pathsOf(regexp), regexp, key },
        isFree || terms === null ? null : [...terms, ...(isSilent ? ['invoices: false'] : [])],
        policies,
        say
      )
    this.#addRoute({ host, paths: main, regexp: textOf(service['pathregexp']), key }, terms, everywhere, say)
    this.#taken.push(...(main?.paths ?? []).map(path => ({ host, path })))
  }

  #addUpstream(key: string, service: Section, say: (words: string) => void): void {
    const prefix = textOf(sectionOf(service['rewrite'])?.['prefix'])
    const url = `${textOf(service['protocol']) || 'http'}://${textOf(service['address'])}${prefix}`
    const ca = textOf(service['tlscertpath'])
    const headers = Object.entries(sectionOf(service['headers']) ?? {}).flatMap(([name, value]) => {
      const text = textOf(value)
      if (!text.startsWith('!file+')) return [`${quoted(name)}: ${JSON.stringify(text)}`]
      say(`headers: ${name} reads a file; put its content into a variable.`)
      return [`${quoted(name)}: "\${${name.toUpperCase().replaceAll(/\W/g, '_')}}"`]
    })
    if (url.startsWith('https:')) say('HTTP/2 and gRPC upstreams are not supported: it is called with HTTP/1.1.')
    this.#upstreams.push(
      `  ${key}:`,
      `    url: ${quoted(url)}`,
      ...(ca === '' ? [] : [`    tls: { ca: ${quoted(ca)} }`]),
      ...(headers.length === 0 ? [] : [`    headers: { ${headers.join(', ')} }`])
    )
  }

  #terms(name: string, service: Section, say: (words: string) => void): string[] | null {
    const auth = textOf(service['auth']).toLowerCase()
    if (this.#isFree || auth === 'off' || auth === 'false') return null
    const dynamic = sectionOf(service['dynamicprice'])
    const isDynamic = dynamic?.['enabled'] === true
    if (isDynamic)
      say(
        `dynamicprice: a price server answers HTTP, not gRPC as ${textOf(dynamic['grpcaddress'])}: docs/how-to/pricing.md.`
      )
    const price = Number(service['price'] ?? 0) || 1
    const timeout = Number(service['timeout'] ?? 0)
    const calls = Number(/^freebie (\d+)$/.exec(auth)?.[1] ?? 0)
    if (calls > 0) say(`auth: the ${calls} free requests are for 30 days, not forever.`)
    if (timeout === 0) say('without a timeout tokens never expire; new ones are valid for a year.')
    return [
      `service: ${quoted(name)}`,
      `price: ${isDynamic ? '{ from: "http://127.0.0.1:9100/price" }' : `${price} sats`}`,
      `tokenValidity: ${timeout === 0 ? '365d' : formatUnit('duration', timeout * 1000)}`,
      'renewal: 402',
      ...(calls > 0 ? [`free: { calls: ${calls}, per: 30d, by: network }`] : [])
    ]
  }

  #limits(key: string, service: Section, say: (words: string) => void): { regexp: string; policy: string }[] {
    return listOf(service['ratelimits']).map((each, at) => {
      const rule = sectionOf(each) ?? {}
      const requests = Number(rule['requests'])
      const burst = Number(rule['burst'] ?? 0) || requests
      // A bucket of `burst` that fills in this time allows the same rate, and the same burst.
      const fills = (milliseconds(textOf(rule['per'])) * burst) / requests
      const longer = Math.max(1, 1000 / fills)
      const policy = `${key}-${at + 1}`
      if (fills < 1000 || fills > 86_400_000)
        say(`ratelimits: windows have 1 second to 1 day; compare the policy ${policy}.`)
      const window = Math.min(Math.max(Math.ceil(fills / 1000), 1), 86_400)
      this.#policies.push(
        `  ${policy}: { limit: ${Math.ceil(burst * longer)}, window: ${formatUnit('duration', window * 1000)}, by: token }`
      )
      return { regexp: textOf(rule['pathregexp']), policy }
    })
  }

  #addRoute(
    { host, paths, regexp, key }: { host: string | null; paths: Paths | null; regexp: string; key: string },
    terms: readonly string[] | null,
    policies: readonly string[],
    say: (words: string) => void
  ): void {
    // What is no path or host lets `boltgate check` refuse the file: without this route others would take its requests.
    if (host === null) say('write a host instead of its regular expression.')
    if (paths === null) say('write paths instead of its regular expression.')
    else if (paths.note !== null) say(paths.note)
    const hidden = paths?.paths.every(path => this.#taken.some(earlier => takesAll(earlier, { host, path }))) === true
    if (hidden) say(`an earlier service takes the requests for ${regexp}.`)
    const match = [
      ...(host === '' ? [] : [`host: ${quoted(host ?? UNKNOWN)}`]),
      `path: [ ${(paths?.paths ?? [`${UNKNOWN} ${regexp}`]).map(quoted).join(', ')} ]`
    ].join(', ')
    const lines = [
      `  - match: { ${match} }`,
      ...[...(terms ?? []), `chain: ${terms === null ? 'public' : this.#chain(policies)}`, `upstream: ${key}`].map(
        line => `    ${line}`
      )
    ]
    this.#routes.push(...(hidden ? lines.map(line => `  #${line.slice(1)}`) : lines))
  }

  #chain(policies: readonly string[]): string {
    const [first] = policies
    if (first === undefined) return 'paid'
    const name = policies.join('-and-')
    const line = `  ${name}: [ ${CHAIN}, ${policies.map(policy => `{ throttle: { policy: ${policy} } }`).join(', ')}, meter ]`
    if (!this.#chains.includes(line)) this.#chains.push(line)
    return name
  }
}

/** The host that an expression matches, '' for any; null for several. */
export function hostOf(regexp: string): string | null {
  if (regexp === '^$') return null
  const bare = regexp.replace(/^\^/, '').replace(/\$$/, '')
  if (/^(?:\.[*+])?$/.test(bare)) return ''
  const host = bare.replaceAll('\\.', '.').replace(/:\d+$/, '')
  return /^[A-Za-z0-9.-]+$/.test(host) && !/[.-]{2}/.test(host) ? host : null
}

export function pathsOf(regexp: string): Paths | null {
  if (/^\^?\/?(?:\.\*\$?)?$/.test(regexp)) return { paths: ['/*'], note: null }
  const isExact = regexp.endsWith('$') && !regexp.endsWith('.*$')
  const body = regexp.replace(/^\^/, '').replace(/(?:\.\*)?\$?$/, '')
  // A colon would begin a named segment.
  if (body.includes(':')) return null
  let count = 0
  const path = body
    .replaceAll(/(?<=\/)(?:\[\^\/\]\+|\\w\+|\\d\+|\[0-9\]\+)(?=\/|$)/g, () => `:p${(count += 1)}`)
    .replaceAll(/\\([./_-])/g, '$1')
  if (!/^\/[A-Za-z0-9._~:/-]*$/.test(path)) return null
  if (isExact) return { paths: [path], note: null }
  if (path.endsWith('/')) return { paths: [`${path}*`], note: null }
  return { paths: [path, `${path}/*`], note: `${regexp} took paths such as ${path}x too.` }
}

function milliseconds(duration: string): number {
  const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }
  let sum = 0
  for (const [, amount, unit] of duration.matchAll(/(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h)/g))
    sum += Number(amount) * (units[unit ?? ''] ?? 0)
  return sum || 1000
}

const sectionOf = (value: unknown): Section | null => (isObject(value) ? { ...value } : null)

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

const textOf = (value: unknown): string =>
  typeof value === 'string' ? value : typeof value === 'number' || typeof value === 'boolean' ? String(value) : ''

const quoted = (text: string): string => JSON.stringify(text.replaceAll('${', '$${'))
