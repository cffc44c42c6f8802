import { hash } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { createLocalJWKSet, errors, jwtVerify, type JSONWebKeySet, type JWTVerifyGetKey } from 'jose'
import {
  definePlugin,
  hasPaymentCredential,
  KEY_INVALID,
  List,
  LongError,
  paidKey,
  paymentScheme,
  Type,
  Unavailable,
  VALIDATION,
  type ClientCertificate,
  type Clock,
  type Context,
  type Log,
  type OutboundCall
} from '../src/index.ts'

const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'] as const
/** Milliseconds between looks at the keys file. */
const LOOK = 1_000
/** Milliseconds after which a key set is fetched again. */
const FRESH = 600_000
/** Milliseconds for which a key set is good while its address does not answer. */
const GOOD = 3_600_000
/** Milliseconds between two fetches, whatever key ids clients invent. */
const PAUSE = 30_000
const FETCH_TIMEOUT = 5_000
const MAX_KEY_SET = 256 * 1024
const MAX_ID = 200
/** Characters of the longest key or token. */
const MAX_KEY = 16_384

/** Names by the SHA-256 of their key. */
type Names = ReadonlyMap<string, string>

/** @throws TypeError on a line other than a name and a hash */
function readNames(file: string): Names {
  const names = new Map<string, string>()
  for (const [index, line] of readFileSync(file, 'utf8').split('\n').entries()) {
    const [name = '', digest = '', ...more] = line.trim().split(/[ \t]+/)
    if (name === '' || name.startsWith('#')) continue
    if (!/^[0-9a-f]{64}$/.test(digest) || more.length > 0 || name.length > MAX_ID)
      throw new TypeError(
        `${file}:${index + 1}: expected a name and the SHA-256 of its key in 64 lower-case hex digits`
      )
    names.set(digest, name)
  }
  return names
}

/** The keys file, read again after it changed. A file that cannot be read changes nothing. */
class KeysFile {
  #names: Names
  #mark: string
  #looked: number
  readonly #file: string
  readonly #clock: Clock
  readonly #log: Log

  constructor(file: string, clock: Clock, log: Log) {
    this.#file = file
    this.#clock = clock
    this.#log = log
    this.#mark = markOf(file)
    this.#looked = clock.monotonic()
    this.#names = readNames(file)
  }

  get names(): Names {
    const now = this.#clock.monotonic()
    if (now - this.#looked < LOOK) return this.#names
    this.#looked = now
    try {
      const mark = markOf(this.#file)
      if (mark === this.#mark) return this.#names
      this.#mark = mark
      this.#names = readNames(this.#file)
      this.#log.info({ file: this.#file, keys: this.#names.size }, 'the keys file was read again')
    } catch (error) {
      this.#log.error({ err: error, file: this.#file }, 'the keys file cannot be read; its former keys stay valid')
    }
    return this.#names
  }
}

function markOf(file: string): string {
  const { ino, mtimeMs, size } = statSync(file)
  return `${ino} ${mtimeMs} ${size}`
}

class KeySet {
  #find: JWTVerifyGetKey | null = null
  #at = 0
  #tried = Number.NEGATIVE_INFINITY
  #fetching: Promise<void> | null = null
  readonly #url: string
  readonly #clock: Clock
  readonly #call: OutboundCall
  readonly #log: Log

  constructor(url: string, clock: Clock, call: OutboundCall, log: Log) {
    this.#log = log
    this.#url = url
    this.#clock = clock
    this.#call = call
  }

  /**
   * The key of a token.
   * @throws Unavailable while the key set is not known; an error of jose if it has no such key
   */
  readonly find: JWTVerifyGetKey = async (header, token) => {
    const age = this.#find === null ? Number.POSITIVE_INFINITY : this.#clock.monotonic() - this.#at
    if (age >= FRESH) await this.#fetch(age >= GOOD)
    try {
      return await this.#known()(header, token)
    } catch (error) {
      // A rotated key; made-up ids are looked up once in a while only.
      if (!(error instanceof errors.JWKSNoMatchingKey) || this.#isTooSoon()) throw error
      await this.#fetch(false)
      return await this.#known()(header, token)
    }
  }

  #known(): JWTVerifyGetKey {
    if (this.#find === null) throw away()
    return this.#find
  }

  #isTooSoon(): boolean {
    return this.#clock.monotonic() - this.#tried < PAUSE
  }

  async #fetch(isNeeded: boolean): Promise<void> {
    if (this.#fetching === null && this.#isTooSoon()) {
      if (isNeeded) throw away()
      return
    }
    this.#fetching ??= this.#load().finally(() => {
      this.#fetching = null
    })
    try {
      await this.#fetching
    } catch (error) {
      if (isNeeded) throw away(error)
      this.#log.warn(
        { err: error, url: this.#url },
        'the key set cannot be renewed; its former keys stay valid for an hour'
      )
    }
  }

  async #load(): Promise<void> {
    this.#tried = this.#clock.monotonic()
    const { status, body } = await this.#call({
      method: 'GET',
      url: this.#url,
      headers: ['Accept', 'application/json'],
      timeout: FETCH_TIMEOUT,
      keep: MAX_KEY_SET
    })
    if (status !== 200) throw new Error(`${this.#url} answered ${status}`)
    // jose checks the form.
    this.#find = createLocalJWKSet(JSON.parse(Buffer.from(body).toString('utf8')) as JSONWebKeySet)
    this.#at = this.#clock.monotonic()
  }
}

function away(cause?: unknown): Unavailable {
  const message = 'API keys cannot be checked at the moment. Try again shortly.'
  return new Unavailable('Service unavailable', message, 5, {}, cause)
}

/** Lets subscribers pass: who sends a good key pays nothing here. Requests without one go on to the 402. */
export default definePlugin({
  name: 'api-key',
  description:
    "Lets subscribers pass without paying: by keys of your own, kept as SHA-256, by JWTs of an identity provider, or by client certificates. A good one skips the 402 and is the principal of throttle, log and metrics. A bad one is 401; after more than 20 from one client address in 60 seconds its keys are 429. A request without one goes on to the 402. Payment credentials and paid keys are none of this plugin's. A key beside a payment is 400. The key is not sent on to the upstream. Put it before throttle, credential and challenge. Routes to proxies of merchants refuse it.",
  config: Type.Object(
    {
      header: Type.Union([Type.Literal('authorization'), Type.Literal('x-api-key'), Type.Literal('api-key')], {
        default: 'authorization',
        description: 'Where the key comes; in `authorization` as `Bearer <key>`.'
      }),
      keys: List(
        Type.Object(
          {
            name: Type.String({ minLength: 1, maxLength: MAX_ID, description: 'Whose key it is.' }),
            sha256: Type.String({ pattern: '^[0-9a-f]{64}$', description: 'SHA-256 of the key, in lower-case hex.' })
          },
          { additionalProperties: false, description: 'A key.' }
        ),
        { default: [], description: 'Keys in this file.' }
      ),
      file: Type.Optional(
        Type.String({
          'x-format': 'file',
          description:
            'Further keys: a name and the SHA-256 of its key on each line. Read again within a second of a change.'
        })
      ),
      jwt: Type.Optional(
        Type.Object(
          {
            jwks: Type.String({
              'x-format': 'http-url',
              description:
                'Address of the public keys. They are kept for ten minutes, and for an hour while it does not answer; then tokens are 503.'
            }),
            issuer: Type.String({ minLength: 1, description: 'Required `iss`.' }),
            audience: Type.String({ minLength: 1, description: 'Required `aud`.' }),
            algorithms: List(Type.Union(ALGORITHMS.map(name => Type.Literal(name))), {
              default: ['RS256', 'ES256', 'EdDSA'],
              description: 'Signatures that are accepted. Only those with public keys are possible.'
            }),
            subject: Type.String({ default: 'sub', minLength: 1, description: 'Claim that names the subscriber.' }),
            claims: Type.Optional(
              Type.Record(Type.String({ minLength: 1 }), Type.String(), {
                description: 'Claims that must have this text, or a list with it, such as `plan: pro`.'
              })
            )
          },
          { additionalProperties: false, description: 'Tokens of an identity provider. `exp` is required.' }
        )
      ),
      certificates: Type.Optional(
        Type.Object(
          {
            names: Type.Optional(
              List(Type.String({ minLength: 1, maxLength: MAX_ID }), {
                description:
                  "Common names of their subjects, or `sha256:` and the fingerprint in lower-case hex for those without one. Without it all of the authorities'."
              })
            )
          },
          {
            additionalProperties: false,
            description:
              'Client certificates by the authorities in `server.clientCa`. A key in a header goes first. Not behind trusted proxies.'
          }
        )
      ),
      forward: Type.Boolean({ default: false, description: 'Send the key on to the upstream.' })
    },
    { additionalProperties: false, description: 'Who need not pay.' }
  ),
  uses: ['challenges', 'authThrottle', 'outbound', 'clock', 'log', 'metrics'],
  provides: ['principal'],
  setup({ header, keys, file, jwt, certificates, forward }, { services, route, slot }) {
    if (route.config === null) throw new TypeError('the plugin api-key needs a route of the configuration')
    if (route.config.upstream.kind === 'proxy')
      throw new TypeError("the plugin api-key cannot give away what is sold by merchants' proxies")
    if (keys.length === 0 && file === undefined && jwt === undefined && certificates === undefined)
      throw new TypeError('the plugin api-key needs keys, a file, jwt or certificates')
    const { authThrottle, challenges, clock, log, metrics, outbound } = services
    const offers = challenges.routeOffers(route.config)
    const named: Names = new Map(keys.map(({ name, sha256 }) => [sha256, name]))
    const keysFile = file === undefined ? null : new KeysFile(file, clock, log)
    const keySet = jwt === undefined ? null : new KeySet(jwt.jwks, clock, outbound, log)
    const allowed = certificates?.names === undefined ? null : new Set(certificates.names)
    const presented = slot<string>('api key')
    const counted = metrics.counter(
      'boltgate_api_key_requests_total',
      'Requests with an API key of the plugin api-key, by the name of the key (jwt for tokens, cert for certificates of any name, none for bad ones).',
      ['key']
    )

    const used = metrics.counter(
      'boltgate_api_key_units_total',
      'Units that requests with a good API key used on routes with a meter, by the name of the key (jwt for tokens, cert for certificates of any name).',
      ['key', 'part']
    )

    const subjectOf = async (token: string): Promise<string | null> => {
      if (jwt === undefined || keySet === null) return null
      try {
        const { payload } = await jwtVerify(token, keySet.find, {
          algorithms: [...jwt.algorithms],
          issuer: jwt.issuer,
          audience: jwt.audience,
          requiredClaims: ['exp'],
          currentDate: new Date(clock.now())
        })
        const has = ([name, wanted]: [string, string]): boolean => {
          const value = Object.hasOwn(payload, name) ? payload[name] : undefined
          return Array.isArray(value) ? value.includes(wanted) : value === wanted
        }
        const subject = Object.hasOwn(payload, jwt.subject) ? payload[jwt.subject] : undefined
        if (typeof subject !== 'string' || subject === '' || subject.length > MAX_ID) return null
        return Object.entries(jwt.claims ?? {}).every(has) ? `jwt:${subject}` : null
      } catch (error) {
        if (error instanceof errors.JOSEError) return null
        throw error
      }
    }

    /** The name behind a key. Guesses learn nothing from time: what is compared is a hash of theirs. */
    const nameOf = async (key: string): Promise<string | null> => {
      if (key.length > MAX_KEY) return null
      const digest = hash('sha256', key)
      const name = named.get(digest) ?? keysFile?.names.get(digest)
      return name ?? (key.split('.').length === 3 ? subjectOf(key) : null)
    }

    /** Subjects of tokens and certificates are too many for labels; the access log has them. */
    const labelOf = (id: string): string => {
      if (id.startsWith('jwt:')) return 'jwt'
      return id.startsWith('cert:') && allowed === null ? 'cert' : id
    }

    const subscribe = (ctx: Context, id: string): void => {
      counted.labels(labelOf(id)).inc()
      ctx.principal = { kind: 'subscriber', id }
      ctx.offer = { ...offers.at(ctx, 0), sessions: null }
    }

    const authenticate = async (ctx: Context, value: string, key: string): Promise<void> => {
      refusePayment(ctx, 'an API key')
      await authThrottle.admit(ctx)
      const id = await nameOf(key)
      if (id === null) {
        counted.labels('none').inc()
        await authThrottle.failed(ctx)
        const message = `The API key in the header ${header} is not valid. Without one, the request can be paid for.`
        throw new LongError(KEY_INVALID, 'Invalid API key', message, {}, [
          ...(header === 'authorization' ? ['WWW-Authenticate', 'Bearer error="invalid_token"'] : []),
          'Cache-Control',
          'no-store'
        ])
      }
      subscribe(ctx, id)
      ctx.set(presented, value)
    }

    /** The handshake has verified it. No limit on failures: there is nothing to guess. */
    const present = (ctx: Context, { name, fault, until }: ClientCertificate): void => {
      refusePayment(ctx, 'a client certificate')
      const problem =
        fault ??
        (until < ctx.now ? 'cert has expired' : allowed?.has(name) === false ? 'its name is not allowed' : null)
      if (problem !== null) {
        counted.labels('none').inc()
        const message = `The client certificate is not valid here: ${problem}. Without one, the request can be paid for.`
        throw new LongError(KEY_INVALID, 'Invalid client certificate', message, {}, ['Cache-Control', 'no-store'])
      }
      subscribe(ctx, `cert:${name}`)
    }

    return {
      request(ctx) {
        for (const value of ctx.headers.all(header)) {
          const key = keyIn(value, header === 'authorization')
          if (key !== null) return authenticate(ctx, value, key)
        }
        if (certificates !== undefined && ctx.clientCertificate !== null) present(ctx, ctx.clientCertificate)
      },
      done({ principal }) {
        if (principal?.kind !== 'subscriber' || principal.used === undefined) return
        for (const part of ['input', 'output'] as const)
          used.labels(labelOf(principal.id), part).inc(principal.used[part])
      },
      upstream(ctx, out) {
        const value = ctx.get(presented)
        // The upstream's own key may have replaced it.
        if (!forward && value !== undefined && out.headers.get(header) === value) out.headers.delete(header)
      }
    }
  }
})

function refusePayment(ctx: Context, credential: string): void {
  if (hasPaymentCredential(ctx.headers))
    throw new LongError(VALIDATION, 'Two credentials', `Send ${credential} or a payment credential, not both.`)
}

/** The key in a field's value; null for a payment, another scheme or nothing. */
function keyIn(value: string, isBearer: boolean): string | null {
  const text = value.trim()
  if (text === '' || paidKey(text) !== null) return null
  if (!isBearer) return text
  if (paymentScheme(text) !== null || !/^bearer(?:\s|$)/i.test(text)) return null
  return text.slice('bearer'.length).trim()
}
