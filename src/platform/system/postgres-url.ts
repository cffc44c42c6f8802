interface PostgresUrl {
  readonly hosts: ReadonlyArray<{ readonly host: string; readonly port: number }>
  readonly socketFolder: string | null
  readonly user: string | undefined
  readonly password: string | undefined
  readonly database: string | undefined
  readonly tls: PostgresTls
  readonly target: 'read-write' | 'primary' | undefined
  /** Null for the default. */
  readonly connectTimeout: number | null
  /** Seconds of silence before TCP keep-alive probes; null for the default. */
  readonly keepAlive: number | null
  readonly settings: Readonly<Record<string, string>>
  /** Parameters without effect, each with an alternative. */
  readonly ignored: readonly string[]
}

export interface PostgresTls {
  readonly mode: (typeof MODES)[number]
  readonly rootCert: string | null
  readonly cert: string | null
  readonly key: string | null
  readonly passphrase: string | null
  /** TLS from the first byte (`sslnegotiation=direct`). */
  readonly direct: boolean
}

/** The message names the parameter, never its secrets. */
export class PostgresUrlError extends Error {
  override name = 'PostgresUrlError'
}

const MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const

/** Other spellings: of drivers, and of values that are not libpq's own. */
const ALIASES: Readonly<Record<string, string>> = {
  ssl: 'sslmode',
  dbname: 'database',
  username: 'user',
  currentSchema: 'schema',
  ApplicationName: 'application_name',
  fallback_application_name: 'application_name',
  connectTimeout: 'connect_timeout',
  loginTimeout: 'connect_timeout',
  tcpKeepAlive: 'keepalives',
  targetServerType: 'target_session_attrs',
  TimeZone: 'timezone'
}
const MODE_ALIASES: Readonly<Record<string, PostgresTls['mode']>> = {
  false: 'disable',
  '0': 'disable',
  true: 'verify-full',
  '1': 'verify-full',
  'no-verify': 'require',
  '': 'verify-full'
}

const SATISFIED: Readonly<Record<string, RegExp>> = {
  channel_binding: /^(disable|prefer)$/,
  client_encoding: /^(auto|utf-?8)$/i,
  gssencmode: /^(disable|prefer)$/,
  keepalives_count: /^\d+$/,
  keepalives_interval: /^\d+$/,
  pool_timeout: /./,
  prepareThreshold: /./,
  reWriteBatchedInserts: /./,
  sslcompression: /^0$/,
  sslsni: /^1$/,
  tcp_user_timeout: /^\d+$/,
  timezone: /^(UTC|Etc\/UTC|GMT)$/i
}
const HINTS: Readonly<Record<string, string>> = {
  channel_binding: 'is not supported: sslmode=verify-full proves who the server is',
  connection_limit: 'is set by database.connections',
  pgbouncer: 'is set by database.listenUrl'
}
/** Allowed session settings, without those the gateway sets itself (time zone, encoding, date style). */
const SETTING =
  /^(application_name|client_min_messages|default_transaction_\w+|idle_in_transaction_session_timeout|idle_session_timeout|jit|lock_timeout|log_\w+|options|plan_cache_mode|role|search_path|statement_timeout|synchronous_commit|tcp_keepalives_\w+|transaction_timeout|work_mem|[a-z_]\w*\.\w+)$/

export function isPostgresUrl(text: string): boolean {
  return /^(jdbc:)?postgres(ql)?:\/\//.test(text)
}

/** @throws PostgresUrlError */
export function readPostgresUrl(text: string): PostgresUrl {
  const match = /^(?:jdbc:)?postgres(?:ql)?:\/\/([^/?#\s\\]*)(?:\/([^?#\s]*))?(?:\?([^#\s]*))?$/.exec(text)
  if (match === null)
    throw new PostgresUrlError(
      'is no address; percent-encode special characters of the password, such as / ? # and spaces'
    )
  const [, authority = '', path = '', query = ''] = match
  const at = authority.lastIndexOf('@')
  const [name, ...secret] = at === -1 ? [''] : authority.slice(0, at).split(':')
  const given = new Map<string, string>()
  for (const [key, value] of new URLSearchParams(query)) given.set(ALIASES[key] ?? key, value)
  const take = (key: string): string | undefined => {
    const value = given.get(key)
    given.delete(key)
    return value
  }
  const port = take('port')
  const hosts = (take('host') ?? authority.slice(at + 1)).split(',').map(part => hostOf(decode(part), port))
  const [first] = hosts
  const tls = tlsOf(take)
  const target = take('target_session_attrs') ?? 'any'
  const keepalives = take('keepalives') ?? '1'
  const idle = take('keepalives_idle')
  const timeout = Number(take('connect_timeout') ?? 0)
  const settings: Record<string, string> = {}
  const schema = take('schema')
  if (schema !== undefined) settings['search_path'] = schema
  const parsed = {
    hosts,
    socketFolder: first?.host.startsWith('/') === true ? first.host : null,
    user: take('user') ?? some(decode(name ?? '')),
    password: take('password') ?? some(decode(secret.join(':'))),
    database: take('database') ?? some(decode(path)),
    tls,
    // One host leaves no choice; a standby is refused by its answer.
    target: hosts.length > 1 && target !== 'any' ? targetOf(target) : undefined,
    connectTimeout: timeout > 0 ? timeout * 1_000 : null,
    keepAlive: /^(0|false)$/.test(keepalives) ? 0 : idle === undefined ? null : Number(idle)
  }
  const ignored: string[] = []
  for (const [key, value] of given) {
    if (SATISFIED[key]?.test(value) === true) continue
    if (SETTING.test(key)) settings[key] = value
    else if (key !== 'pgbouncer' || value === 'true')
      ignored.push(`${key} ${HINTS[key] ?? 'is no parameter of PostgreSQL that is known here'}`)
  }
  return { ...parsed, settings, ignored }
}

function tlsOf(take: (key: string) => string | undefined): PostgresTls {
  const accept = take('sslaccept')
  const root = take('sslrootcert') ?? null
  const written = take('sslmode')
  let mode = written === undefined ? undefined : (MODE_ALIASES[written] ?? MODES.find(known => known === written))
  if (written !== undefined && mode === undefined)
    throw new PostgresUrlError(`has sslmode=${written}; allowed: ${MODES.join(', ')}`)
  if (root === 'system') mode ??= 'verify-full'
  // As in libpq: naming the authority requires its verification.
  else if (root !== null && mode === 'require') mode = 'verify-ca'
  if (accept === 'strict' && mode !== 'disable') mode = 'verify-full'
  return {
    mode: mode ?? 'disable',
    rootCert: root === 'system' ? null : root,
    cert: take('sslcert') ?? null,
    key: take('sslkey') ?? null,
    passphrase: take('sslpassword') ?? null,
    direct: take('sslnegotiation') === 'direct'
  }
}

function hostOf(text: string, port: string | undefined): { host: string; port: number } {
  const match = /^(?:\[([\da-fA-F:.]+)\]|([^:[\]]*))(?::(\d{0,5}))?$/.exec(text)
  const own = Number(match?.[3] || port || 5432)
  if (match === null || !(own <= 65_535))
    throw new PostgresUrlError('has an invalid host or port; several hosts are written host1:5432,host2:5432')
  return { host: (match[1] ?? match[2]) || 'localhost', port: own }
}

function targetOf(text: string): 'read-write' | 'primary' {
  if (text === 'primary' || text === 'read-write') return text
  throw new PostgresUrlError(`has target_session_attrs=${text}; a gateway writes, so allowed: any, primary, read-write`)
}

function some(text: string): string | undefined {
  return text === '' ? undefined : text
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    // The cause would show a part of the password.
    throw new PostgresUrlError('has a percent sign that encodes nothing; write % as %25')
  }
}
