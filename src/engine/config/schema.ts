import type { HostAndPort, ListenAddress } from './listen-address.ts'
import { Type, type Static, type TSchema } from 'typebox'
import type { Problem } from './diagnose.ts'
import { described, List, SecretText, type DeepReadonly } from './fields.ts'
import type { ApiFile } from '../checks/api-file.ts'
import type { MeterConfig } from '../checks/meter.ts'
import { PRESET_NAMES, type PresetName } from './presets.ts'
import {
  BillingSchema,
  PlansSchema,
  type plansOf,
  StorefrontSchema,
  MailSchema,
  DiscoverySchema,
  PagesSchema
} from '../sections/suite.ts'
import { lightningSchema, type ProviderFacts } from '../sections/lightning.ts'
import { ServerSchema, SecretsSchema } from '../sections/server.ts'
import { PaymentSchema, PricesSchema } from '../sections/payment.ts'
import { PolicySchema, type PolicyConfig } from '../sections/policy.ts'
import { RouteSchema } from '../sections/route.ts'
import { NamedUpstreamSchema, type UpstreamConfig, type UrlUpstreamConfig } from '../sections/upstream.ts'
import type { ValueConfig, WhenConfig } from '../sections/when.ts'

/** The editors' schema replaces this keyword by the forms of chain entries. */
const chainEntry = Type.Unsafe<unknown>({
  'x-form': 'chain-entry',
  description: 'A plugin name or path, or `{ name: { settings } }` with `when`, `disabled` and `mode` beside it.'
})

/** The schema of `gateway.yaml` with these provider kinds; any kind without. */
export const fileSchema = (providers: readonly ProviderFacts[] = []) =>
  Type.Object(
    {
      mode: Type.Union([Type.Literal('development'), Type.Literal('production')], {
        default: 'development',
        description: 'Production refuses the sandbox, missing secrets, the embedded database and plain HTTP.'
      }),
      server: ServerSchema,
      secrets: SecretsSchema,
      data: Type.String({
        default: './data',
        minLength: 1,
        description: 'Folder for generated keys and the embedded database, seen from this file.'
      }),
      database: Type.Object(
        {
          url: SecretText({
            default: 'pglite:',
            'x-format': 'database-url',
            description:
              '`pglite:` for the embedded database, or the address of a PostgreSQL server (15 or later), as your platform gives it: `sslmode`, `sslrootcert`, several hosts and `jdbc:` are understood.'
          }),
          connections: Type.Integer({
            default: 10,
            minimum: 1,
            maximum: 1000,
            description: 'Most connections from one worker to PostgreSQL. The embedded database has one.'
          }),
          listenUrl: SecretText({
            default: '',
            'x-format': 'listen-url',
            description:
              'Address of the same database past a pooler, where `url` leads to one such as PgBouncer that lends a session for each transaction. One connection of each worker listens there for notifications.'
          })
        },
        described('Where money and merchants are kept.')
      ),
      state: Type.Object(
        {
          url: SecretText({
            default: 'memory:',
            'x-format': 'state-url',
            description:
              '`memory:`, or the address of a Redis server. Of a Redis Cluster the addresses of at least two nodes, with commas between them, or its only address twice; the others are discovered.'
          })
        },
        described('Where counters and replays are kept.')
      ),
      lightning: lightningSchema(providers),
      payment: PaymentSchema,
      prices: PricesSchema,
      mail: MailSchema,
      operators: List(Type.String({ 'x-format': 'email' }), {
        default: [],
        description:
          'Email addresses of those who may do all that the admin key may, once they have signed in by a link in a mail.'
      }),
      storefront: StorefrontSchema,
      billing: BillingSchema,
      plans: PlansSchema,
      discovery: DiscoverySchema,
      pages: PagesSchema,
      policies: Type.Record(Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9_-]*$' }), PolicySchema, {
        default: {},
        'x-name': 'policy',
        description: 'Rate limits by name. Those of the contract are built in; a policy of the same name replaces one.'
      }),
      chains: Type.Record(
        Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9_-]*$' }),
        Type.Array(chainEntry, { minItems: 1 }),
        {
          default: {},
          'x-name': 'chain',
          description:
            'Lists of plugins by name; requests run through them in this order. `paid` and `public` are built in, as `boltgate routes` shows; a chain of the same name replaces one.'
        }
      ),
      upstreams: Type.Record(Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9_-]*$' }), NamedUpstreamSchema, {
        default: {},
        'x-name': 'upstream',
        description: 'HTTP upstreams that several routes share, by name.'
      }),
      routes: Type.Array(RouteSchema, { default: [], description: 'What is served; the most specific match wins.' }),
      use: Type.Optional(
        Type.Array(Type.Enum([...PRESET_NAMES]), {
          uniqueItems: true,
          description:
            "Parts of the gateway's own API that are served without routes in this file: `service` (/health, /metrics, /openapi.json and their like), `sandbox` (/sandbox/pay, outside production), " +
            '`merchant-api`, `operator-api`, `storefront` and `pages`. `service` and `sandbox` when left out. `boltgate routes` shows them, and `boltgate routes --as-yaml` spells them out. ' +
            'What a route of this file takes is left to it; one for everything (/*) takes what is left, but in a file without `use` it takes all.'
        })
      ),
      log: Type.Object(
        {
          level: Type.Enum(['error', 'warn', 'info', 'debug', 'silent'], {
            default: 'info',
            description: 'Least important lines that are written.'
          })
        },
        described('Log lines, as JSON on standard output.')
      )
    },
    described('The configuration of the gateway.')
  )

export type FileConfig = Static<ReturnType<typeof fileSchema>>

/** Lines and columns start at 1. */
export interface Position {
  readonly file: string
  readonly line: number
  readonly column: number
}

/** One step of a chain, with its plugin's settings read, defaulted and frozen. */
export interface ChainEntryConfig {
  readonly plugin: string
  readonly file?: string
  /** As written where the loader had no schema for the plugin. */
  readonly config: unknown
  readonly when?: WhenConfig
  readonly disabled: boolean
  /** `observe` decides and logs but does not act. */
  readonly mode: 'enforce' | 'observe'
  readonly at: Position
}

/** A resolved route: lists, satoshis, milliseconds, bytes. */
export type RouteConfig = DeepReadonly<Omit<Static<typeof RouteSchema>, 'name' | 'match' | 'upstream' | 'meter'>> & {
  readonly name: string
  /** Its `bundle` is the route's price. */
  readonly meter?: MeterConfig
  /** What `openapi` says. */
  readonly api?: ApiFile
  readonly match: ValueConfig & {
    readonly host?: string
    readonly method?: readonly string[]
    readonly path: readonly string[]
  }
  readonly upstream: UpstreamConfig
  readonly at: Position
}

/** The whole configuration, checked and frozen. Milliseconds, bytes, satoshis; `data` is absolute. */
export type GatewayConfig = DeepReadonly<
  Omit<FileConfig, 'server' | 'chains' | 'routes' | 'upstreams' | 'plans' | 'policies' | 'use'>
> & {
  readonly use: readonly PresetName[]
  readonly usesNamed: boolean
  readonly file: string
  readonly server: DeepReadonly<Omit<FileConfig['server'], 'listen'>> & {
    /** The first that is no Unix socket. */
    readonly listen: HostAndPort
    readonly addresses: readonly ListenAddress[]
  }
  readonly plans: ReturnType<typeof plansOf>
  /** Built-in policies (contract, Limits) and the file's own. */
  readonly policies: Readonly<Record<string, PolicyConfig>>
  readonly chains: Readonly<Record<string, readonly ChainEntryConfig[]>>
  readonly upstreams: Readonly<Record<string, UrlUpstreamConfig>>
  readonly routes: readonly RouteConfig[]
  readonly warnings: readonly Problem[]
}

export type FreeCallsConfig = NonNullable<RouteConfig['free']>

export interface PluginFacts {
  readonly name: string
  /** One paragraph for the reference page. */
  readonly description?: string
  readonly config: TSchema
  readonly needs?: readonly string[]
  readonly provides?: readonly string[]
  /** Answers the request: must be last. A chain without one ends with the route's upstream. */
  readonly terminal?: boolean
  readonly before?: readonly string[]
  readonly after?: readonly string[]
}
