import { Type, type Static, type TSchema } from 'typebox'
import type { Problem } from './diagnose.ts'
import { List, Reference, SecretText } from './fields.ts'
import { MeterSchema, type MeterConfig } from './meter.ts'
import { SessionsSchema } from './sessions.ts'
import { PRESET_NAMES, type PresetName } from './presets.ts'
import { RequestPrice } from './price.ts'
import { Duration, Price, Size } from './units.ts'

/** Every object of the file is strict: a key that is not listed is an error. */
const strict = { additionalProperties: false } as const
const describe = (description: string): { additionalProperties: false; description: string } => ({
  ...strict,
  description
})

const limits = Type.Object(
  {
    headerDeadline: Duration({
      default: '10s',
      minimum: '1ms',
      description: 'Time for a request head to arrive completely, from its first byte.'
    }),
    idleReadDeadline: Duration({
      default: '60s',
      minimum: '1ms',
      description: 'Longest pause between two pieces of a request body.'
    }),
    idleWriteDeadline: Duration({
      default: '60s',
      minimum: '1ms',
      description: 'Longest time a client may leave written bytes unread.'
    }),
    keepAlive: Duration({
      default: '75s',
      description: 'How long an idle client connection is kept between two requests.'
    }),
    headerSize: Size({
      default: '80KiB',
      minimum: '1KiB',
      maximum: '1MiB',
      description: 'Largest request head. Payment credentials of up to 64 KiB must fit.'
    }),
    headerCount: Type.Integer({
      default: 200,
      minimum: 10,
      maximum: 10000,
      description: 'Most header lines of a request.'
    }),
    connectionsPerAddress: Type.Integer({
      default: 1024,
      minimum: 1,
      description: 'Most open connections from one client address.'
    }),
    uploadFloor: Size({ default: '64B', description: 'Slowest upload, in bytes a second. 0 switches it off.' }),
    downloadFloor: Size({
      default: '64B',
      description: 'Slowest reading of a response that waits for its client, in bytes a second. 0 switches it off.'
    }),
    floorWindow: Duration({
      default: '20s',
      minimum: '1ms',
      description: 'Time over which the slowest upload and reading are measured.'
    }),
    buffer: Size({
      default: '256KiB',
      description:
        "Bytes of a response, and of a request body, that are kept for a client slower than the upstream, so that the upstream's connection is free sooner."
    }),
    buffers: Size({
      default: '64MiB',
      description:
        'Bytes that are kept so for all clients together, in one worker; and the same once more for bodies of operations that anybody may call.'
    }),
    drainTimeout: Duration({
      default: '30s',
      description: 'How long running requests may go on after SIGTERM before they are cut.'
    })
  },
  describe('What a single client may take from the listener.')
)

const server = Type.Object(
  {
    listen: Type.String({
      default: '127.0.0.1:8080',
      'x-format': 'listen',
      description:
        'Address and port to listen on, such as 127.0.0.1:8080, [::1]:8080 or 0.0.0.0:80. Port 0 takes any free one.'
    }),
    publicUrl: Type.String({
      default: '',
      'x-format': 'origin',
      description:
        'The address that clients use, without a path. Derived from `listen` when empty; required and https in production. Never taken from a request.'
    }),
    workers: Type.Integer({
      default: 1,
      minimum: 1,
      maximum: 1024,
      description: 'Processes that share the port. More than one needs PostgreSQL and Redis.'
    }),
    trustedProxies: Type.Array(Type.String({ 'x-format': 'address-range' }), {
      default: [],
      description: 'Addresses or ranges (CIDR) whose X-Forwarded-* headers are believed.'
    }),
    limits
  },
  describe('The listener.')
)

const secrets = Type.Object(
  {
    master: SecretText({
      default: '',
      pattern: '^$|^.{32}',
      'x-allowed': 'at least 32 characters, such as the output of `openssl rand -base64 48`',
      description:
        'At least 32 characters, from which every key is derived. Generated into the data folder when empty; required in production.'
    }),
    adminKey: SecretText({
      default: '',
      pattern: '^$|^.{16}',
      'x-allowed': 'at least 16 characters',
      description: 'Key of the operator, sent in X-API-Key. Generated into keys.json in the data folder when empty.'
    }),
    previous: Type.Array(SecretText({ minLength: 32 }), {
      default: [],
      description: 'Former masters, newest first. What they signed still verifies until they are removed.'
    })
  },
  describe('Keys for macaroons, Payment ids and encryption come from here.')
)

const provider = (side: string, kinds: readonly ProviderFacts[]) =>
  Type.Object(
    {
      kind: Type.Unsafe<string>({
        ...(kinds.length === 0 ? { type: 'string' } : { enum: kinds.map(({ name }) => name) }),
        default: 'sandbox',
        description: `What makes the invoices of the ${side} provider. The sandbox is refused in production.`
      }),
      key: Type.Optional(
        SecretText({
          minLength: 1,
          description: "The operator's own provider key, for routes priced in this file and for ping."
        })
      ),
      name: Type.Optional(
        Type.String({
          pattern: '^[a-z][a-z0-9-]{0,31}$',
          'x-allowed': 'lower-case letters, digits and hyphens, such as backup; up to 32, the first a letter',
          description:
            'What tells providers of one kind in a slot apart. It stands with each invoice, so it stays as it is; the kind where it is left out.'
        })
      ),
      url: Type.Optional(
        Type.String({
          'x-format': 'upstream-url',
          description:
            "Address of the provider's API, where it is not the public one; https in production, unless it is this machine."
        })
      ),
      // A refund that its provider does not know is given up ten minutes after it was begun; until then every call must
      // have ended.
      timeout: Duration({
        default: '10s',
        minimum: '1ms',
        maximum: '5m',
        description: 'How long the gateway waits for the provider.'
      }),
      callsPerMinute: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: 1_000_000,
          description: `Calls that the provider allows in a minute: ${whoseCalls(kinds)}. Where it is left out, what the kind is known to allow.`
        })
      ),
      invoicesAhead: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: 1000,
          description: `Invoices of one price and description that may be made before anybody asks for them, so that a 402 waits for nobody; 0 for none. ${aheadByDefault(kinds)}`
        })
      )
    },
    strict
  )

/** One provider, or several in the order in which they are asked (decision 293). */
const slot = (side: string, kinds: readonly ProviderFacts[]) =>
  List(provider(side, kinds), {
    default: [{ kind: 'sandbox' }],
    description: `The ${side} payment provider, or a list of such: the first that can be asked makes the invoice.`
  })

/** Whose calls `callsPerMinute` counts, in words. */
function whoseCalls(kinds: readonly ProviderFacts[]): string {
  const ofAddress = kinds.filter(({ calls }) => calls?.counted === 'address').map(({ name }) => name)
  return ofAddress.length === 0
    ? 'those of each key'
    : `for ${ofAddress.join(', ')} all from this address, else of each key`
}

/** What `invoicesAhead` is where it is left out, in words. */
function aheadByDefault(kinds: readonly ProviderFacts[]): string {
  const billing = kinds.filter(({ calls }) => calls?.billsInvoices === true).map(({ name }) => name)
  const none = billing.length === 0 ? '' : ` and for ${billing.join(', ')}, which charges for invoices that nobody pays`
  return `Where it is left out, 400, and none for the sandbox${none}.`
}

const lightning = (kinds: readonly ProviderFacts[]) =>
  Type.Object(
    {
      primary: slot('primary', kinds),
      alternate: slot('alternate', kinds),
      network: Type.Optional(
        Type.Union(
          (['mainnet', 'testnet', 'signet', 'regtest'] as const).map(name => Type.Literal(name)),
          {
            description:
              'The Bitcoin network that is sold on. A key of another is refused by its check, and an invoice of another is sent to nobody. Where it is left out, mainnet in production, and any in development.'
          }
        )
      )
    },
    describe('Who makes invoices.')
  )

const payment = Type.Object(
  {
    realm: Type.String({
      default: '',
      'x-format': 'realm',
      description: 'Realm of Payment challenges. The host name of publicUrl when empty.'
    }),
    schemes: Type.Array(Type.Union([Type.Literal('l402'), Type.Literal('payment')]), {
      default: ['l402', 'payment'],
      minItems: 1,
      uniqueItems: true,
      description: 'Schemes offered in a 402 response.'
    }),
    order: Type.Union([Type.Literal('auto'), Type.Literal('l402-first'), Type.Literal('payment-first')], {
      default: 'auto',
      description:
        'Order of the two challenge lines. `auto` puts L402 first, and Payment first when Accept-Payment names lightning.'
    }),
    serviceName: Type.String({
      default: 'boltgate',
      pattern: '^[A-Za-z0-9._-]{1,64}$',
      description: "Name in the services caveat of the operator's own routes."
    }),
    macaroonLocation: Type.String({
      default: 'l402',
      pattern: '^[\\x21-\\x7e]{1,128}$',
      description: 'Location written into macaroons.'
    }),
    l402Lsat: Type.Boolean({
      default: false,
      description: 'Also send a challenge line with the old scheme name LSAT.'
    }),
    problemBase: Type.String({
      default: 'https://paymentauth.org/problems',
      'x-format': 'http-url',
      description: 'Base of the type URIs in payment problems.'
    }),
    tokenValidity: Duration({ default: '1h', minimum: '1s', description: 'How long a paid token is accepted.' }),
    invoiceExpiry: Duration({
      default: '10m',
      minimum: '1m',
      maximum: '1d',
      description: 'How long an invoice can be paid.'
    }),
    defaultPrice: Price({
      default: '10 sats',
      minimum: 1,
      maximum: 1_000_000_000,
      description: 'Price where a route with a challenge names none.'
    }),
    maxOutstanding: Type.Object(
      {
        address: Type.Integer({
          default: 10,
          minimum: 1,
          maximum: 10000,
          description:
            'Unpaid invoices that one client address may hold for the same request before the newest is handed out again.'
        }),
        place: Type.Integer({
          default: 40,
          minimum: 1,
          maximum: 10000,
          description:
            'Unpaid invoices that one client address may hold for one route, proxy or store, whatever its requests ask for; above it the response is 429, for this address alone.'
        })
      },
      {
        ...describe('Caps on the unpaid invoices of one client address (IPv6 by /64).'),
        'x-gone': {
          proxy:
            'it counted the invoices of all clients together, which strangers could fill; place caps those of one client address'
        }
      }
    ),
    leaseTimeout: Duration({
      default: '30s',
      minimum: '1s',
      maximum: '10m',
      description:
        'After this time the lease of a gateway that died comes back; after twice as long its slices of balances.'
    })
  },
  describe('How payments are asked for and checked.')
)

const payments = Type.Object(
  {
    expiry: Type.Object(
      {
        primary: Duration({
          default: '1h',
          minimum: '1m',
          maximum: '1d',
          description: 'How long an invoice of the primary provider can be paid.'
        }),
        alternate: Duration({
          default: '1d',
          minimum: '10m',
          maximum: '3d',
          description: 'The same for the alternate provider, which may keep to times of its own.'
        })
      },
      describe('How long a payment can be paid, by provider.')
    ),
    demoConfirmAfter: Duration({
      default: '5s',
      maximum: '9m',
      description: 'After this time a demo payment (amount 0) confirms itself.'
    })
  },
  describe('Payments that merchants create over /api/payments.')
)

const source = (name: string) =>
  Type.Optional(
    Type.String({
      'x-format': 'upstream-url',
      description: `Address of ${name}'s API, where it is not the public one; https in production, unless it is this machine.`
    })
  )
const prices = Type.Object(
  {
    sources: Type.Array(Type.Enum(['coinbase', 'coinbase-exchange', 'kraken', 'coingecko']), {
      default: ['coinbase', 'coinbase-exchange', 'kraken', 'coingecko'],
      minItems: 2,
      uniqueItems: true,
      description: 'Who is asked what a bitcoin costs. The price is the median of at least two answers.'
    }),
    urls: Type.Object(
      {
        coinbase: source('Coinbase'),
        'coinbase-exchange': source('Coinbase Exchange'),
        kraken: source('Kraken'),
        coingecko: source('CoinGecko')
      },
      describe('Addresses of the sources, for mirrors and for tests.')
    ),
    coingeckoKey: Type.Optional(
      SecretText({
        pattern: '^[\\x21-\\x7e]+$',
        'x-allowed': 'printable ASCII without spaces',
        description: 'A demo key of CoinGecko, which allows more calls than none.'
      })
    ),
    timeout: Duration({ default: '5s', minimum: '1ms', maximum: '30s', description: 'How long one source may take.' }),
    refresh: Duration({
      default: '1m',
      minimum: '1s',
      maximum: '5m',
      description: 'How long a price is used before the sources are asked again.'
    }),
    maxAge: Duration({
      default: '5m',
      minimum: '1m',
      maximum: '1h',
      description:
        'Answers that are older are refused. Without a good one, payments in fiat money that we convert answer 503.'
    })
  },
  describe(
    'What a bitcoin costs, for amounts in USD, EUR and GBP. With the sandbox on both sides the prices are fixed and nobody is asked.'
  )
)

const mail = Type.Object(
  {
    from: Type.String({
      default: '',
      'x-format': 'sender',
      description: 'Sender of mail, such as `Example <no-reply@example.com>`. Needed with `smtp`.'
    }),
    smtp: SecretText({
      default: '',
      'x-format': 'smtp-url',
      description:
        'Mail server, such as `smtps://user:password@mail.example.com`. With `smtp:` production insists on STARTTLS. When empty, mail is written to files in the folder `mail` of the data folder.'
    })
  },
  describe('How receipts, links to claim an order and links to sign in are sent.')
)

const storefront = Type.Object(
  {
    kind: Type.Union([Type.Literal('shopify'), Type.Literal('sandbox')], {
      default: 'shopify',
      description:
        "The platform of the merchants' stores. The sandbox has a small catalog of its own and is refused in production."
    }),
    url: Type.Optional(
      Type.String({
        'x-format': 'upstream-url',
        description:
          "Address that every store's calls go to in the place of its own domain, for tests; https in production, unless it is this machine."
      })
    ),
    apiVersion: Type.String({
      default: '2026-10',
      pattern: '^[0-9]{4}-[0-9]{2}$',
      'x-allowed': 'a version such as 2026-10',
      description: "Version of the platform's API."
    }),
    timeout: Duration({
      default: '10s',
      minimum: '1ms',
      maximum: '1m',
      description: 'How long one call to the platform may take.'
    }),
    catalogTtl: Duration({
      default: '5m',
      minimum: '1s',
      maximum: '1d',
      description: 'How long a catalog is served before the platform is asked again.'
    }),
    invoiceExpiry: Duration({
      default: '10m',
      minimum: '1m',
      maximum: '1h',
      description: 'How long the invoice of a checkout can be paid.'
    })
  },
  describe('Stores that sell for Lightning.')
)

const billing = Type.Object(
  {
    kind: Type.Union([Type.Literal('none'), Type.Literal('stripe'), Type.Literal('sandbox')], {
      default: 'none',
      description:
        'Who bills the plans by card. `none` sells them for bitcoin only; the sandbox takes no money and is refused in production.'
    }),
    key: Type.Optional(
      SecretText({ minLength: 1, description: 'Secret key of the billing provider. Needed with stripe.' })
    ),
    webhookSecret: Type.Optional(
      SecretText({
        minLength: 1,
        description: 'Secret that signs what the billing provider reports to /api/webhooks/billing. Needed with stripe.'
      })
    ),
    prices: Type.Object(
      {
        individual: Type.Optional(
          Type.String({
            pattern: '^[\\x21-\\x7e]{1,200}$',
            description: 'Id of the monthly price of the plan individual. Needed with stripe.'
          })
        )
      },
      describe('Prices at the billing provider.')
    ),
    url: Type.Optional(
      Type.String({
        'x-format': 'upstream-url',
        description:
          "Address of the billing provider's API, where it is not the public one; https in production, unless it is this machine."
      })
    ),
    timeout: Duration({
      default: '20s',
      minimum: '1ms',
      maximum: '1m',
      description: 'How long one call to the billing provider may take.'
    }),
    trialDays: Type.Integer({
      default: 30,
      minimum: 0,
      maximum: 730,
      description: 'Days of trial of the plan individual; a card is asked for all the same. 0 sells without a trial.'
    })
  },
  describe('How merchants pay for their plans.')
)

const paidPlan = (name: string) =>
  Type.Object(
    {
      endpoints: Type.Optional(
        Type.Integer({ minimum: 0, description: 'Most distinct endpoints. Unlimited when left out.' })
      ),
      challengesPerMonth: Type.Optional(
        Type.Integer({ minimum: 0, description: 'Most challenges in a UTC month. Unlimited when left out.' })
      ),
      maxPriceSats: Type.Optional(
        Type.Integer({
          minimum: 0,
          description: 'Highest price of one challenge, in satoshis. Unlimited when left out.'
        })
      ),
      webhookEndpoints: Type.Integer({ minimum: 0, default: 5, description: 'Most webhook endpoints.' })
    },
    describe(`Caps of the plan ${name}.`)
  )
const plans = Type.Object(
  {
    free: Type.Object(
      {
        endpoints: Type.Integer({ minimum: 0, default: 3, description: 'Most distinct endpoints.' }),
        challengesPerMonth: Type.Integer({ minimum: 0, default: 200, description: 'Most challenges in a UTC month.' }),
        maxPriceSats: Type.Integer({
          minimum: 0,
          default: 1000,
          description: 'Highest price of one challenge, in satoshis.'
        }),
        webhookEndpoints: Type.Integer({ minimum: 0, default: 1, description: 'Most webhook endpoints.' })
      },
      describe('Caps of the plan free.')
    ),
    individual: paidPlan('individual'),
    l402: paidPlan('l402')
  },
  describe('What each plan allows.')
)

/** A rate limit, as it stands under `policies` (contract, Limits; decisions 30 to 34). */
const PolicySchema = Type.Object(
  {
    limit: Type.Integer({ minimum: 1, description: 'Requests allowed in one window.' }),
    window: Duration({ minimum: '1s', maximum: '1d', description: 'Length of the window.' }),
    sliding: Type.Optional(
      Type.Integer({
        minimum: 2,
        maximum: 60,
        description: 'Slide the window in this many segments. A fixed window when left out.'
      })
    ),
    by: Type.Union([Type.Literal('principal'), Type.Literal('address')], {
      default: 'principal',
      description:
        'Whom a counter belongs to: the authenticated principal (the address where there is none), or always the client address.'
    })
  },
  describe('A rate limit.')
)

/** Conditions under which a chain entry takes part; all that are given must hold. */
export const WhenSchema = Type.Object(
  {
    method: Type.Optional(List(Type.String({ 'x-format': 'method' }), { description: 'Methods of the request.' })),
    path: Type.Optional(
      List(Type.String({ 'x-format': 'path' }), {
        description: 'Paths of the request; a trailing /* covers everything below.'
      })
    ),
    header: Type.Optional(
      List(Type.String({ pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" }), {
        description: 'Header names, of which each must be present.'
      })
    ),
    authenticated: Type.Optional(Type.Boolean({ description: 'Whether the request has a principal.' }))
  },
  describe('Conditions under which the entry takes part; all that are given must hold.')
)

/** An HTTP upstream of the operator: its address and how to speak to it. */
const upstreamUrl = {
  tls: Type.Optional(
    Type.Object(
      {
        ca: Type.Optional(
          Type.String({ 'x-format': 'file', description: 'File with the certificates to trust (PEM).' })
        ),
        cert: Type.Optional(Type.String({ 'x-format': 'file', description: 'File with a client certificate (PEM).' })),
        key: Type.Optional(
          Type.String({ 'x-format': 'file', description: "File with the client certificate's key (PEM)." })
        ),
        servername: Type.Optional(
          Type.String({
            minLength: 1,
            description: 'Name to ask for and to check, where it is not the host of the address.'
          })
        )
      },
      describe('TLS towards the upstream.')
    )
  ),
  timeout: Duration({
    default: '30s',
    minimum: '1ms',
    description: 'Time until the response head; then the longest pause between two pieces.'
  }),
  connectTimeout: Duration({ default: '5s', minimum: '1ms', description: 'Time to open a connection.' }),
  responseLimit: Type.Optional(Size({ minimum: 1, description: 'Largest response body. Unlimited when left out.' })),
  keepAlive: Duration({ default: '4s', description: 'How long an idle upstream connection is kept.' }),
  connections: Type.Integer({
    default: 256,
    minimum: 1,
    maximum: 65535,
    description: 'Most connections to this upstream from one worker.'
  }),
  connectionsPerClient: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 65535,
      description:
        'Most of them for requests of one client address (IPv6 by /64); what it asks beyond waits. A quarter of `connections` when left out.'
    })
  ),
  preserveHost: Type.Boolean({ default: false, description: "Send the client's Host instead of the upstream's own." }),
  underscoreHeaders: Type.Boolean({
    default: false,
    description:
      'Pass on request headers whose names have an underscore. CGI and WSGI take them for the ones with a dash, such as X-Forwarded-For.'
  }),
  stripPrefix: Type.Optional(
    Type.String({
      pattern: '^/[^:*?#\\s]+$',
      'x-allowed': 'the beginning of a path, such as /v1',
      description: 'Leading part of the request path that is left out upstream.'
    })
  ),
  headers: Type.Record(Type.String(), SecretText(), {
    default: {},
    description: 'Headers set on every forwarded request.'
  })
}
const url = {
  'x-format': 'upstream-url',
  description: "Address of an HTTP server; a path in it stands before the request's own."
}

/** A named upstream under `upstreams`. */
const NamedUpstreamSchema = Type.Object({ url: Type.String(url), ...upstreamUrl }, describe('An HTTP upstream.'))

/** The upstream of a route; exactly one of `internal`, `proxy` and `url` may stand in it. */
const UpstreamSchema = Type.Object(
  {
    internal: Type.Optional(Type.String({ minLength: 1, description: 'Name of an upstream inside the gateway.' })),
    proxy: Type.Optional(
      Type.String({
        pattern: '^:[A-Za-z_][A-Za-z0-9_]*$',
        description: "Path parameter that holds the id of a merchant's proxy, such as `:proxyId`."
      })
    ),
    url: Type.Optional(Type.String(url)),
    ...upstreamUrl
  },
  describe('Where the request goes.')
)

/** What a route matches (find-my-way syntax). */
const MatchSchema = Type.Object(
  {
    host: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9.-]+$',
        'x-format': 'host',
        description: 'Host name of the request, without a port. Any when left out.'
      })
    ),
    method: Type.Optional(
      List(Type.String({ 'x-format': 'method' }), { description: 'Method or methods. Any when left out.' })
    ),
    path: List(Type.String({ 'x-format': 'path' }), {
      description: 'Path or paths, with `:name` for a segment and a trailing `/*` for the rest.'
    })
  },
  describe('Which requests the route takes.')
)

/** A route as it stands in the file. */
const RouteSchema = Type.Object(
  {
    name: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9 ._:/*,-]{1,128}$',
        description: 'Name in logs and metrics. Method and path when left out.'
      })
    ),
    match: MatchSchema,
    chain: Reference('chain', {
      'x-allowed': 'the name of a chain under chains',
      description: 'Name of the chain that requests run through.'
    }),
    upstream: Type.Union([Reference('upstream'), UpstreamSchema], {
      'x-allowed': 'a name under upstreams, or a mapping with exactly one of internal, proxy and url',
      description: 'Where requests go: a name under `upstreams`, or exactly one of `internal`, `proxy` and `url`.'
    }),
    price: Type.Optional(
      RequestPrice({
        description:
          'Price of one request: `10 sats`, `1500 msat` (rounded up to whole satoshis) or satoshis as a number; `$0.002` or `0.01 EUR`, which become satoshis when the challenge is made; by a field of the request, as in `{ by: { json: model }, of: { small: 5 sats, large: 40 sats } }`; or asked of a price server of your own, as in `{ from: "http://127.0.0.1:9100/price" }`.'
      })
    ),
    free: Type.Optional(
      Type.Object(
        {
          calls: Type.Integer({ minimum: 1, maximum: 1_000_000, description: 'How many.' }),
          per: Duration({
            minimum: '1s',
            maximum: '30d',
            description: 'In what time, from the first of them.'
          }),
          by: Type.Union(
            [
              Type.Literal('address'),
              Type.Literal('network'),
              Type.Object(
                {
                  header: Type.String({
                    pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$",
                    description: 'Whose value has the calls.'
                  })
                },
                strict
              )
            ],
            {
              default: 'address',
              'x-allowed': 'address, network or a mapping such as { header: x-api-key }',
              description:
                'Whose they are: of a client address (IPv6 by /64), of a network (IPv4 by /24, IPv6 by /48), or of the value of a header, for which the chain must check it: anybody can make one up.'
            }
          )
        },
        describe('Calls without payment, before any is asked for. Requests with a payment credential are not counted.')
      )
    ),
    priceGrace: Duration({
      default: '0s',
      maximum: '30d',
      description:
        'After a change of the price, for how long what was paid at the price before it is served. With any grace, what paid more than the present price is always served. With none a payment must be of the very price.'
    }),
    tokenPath: Type.Union([Type.Literal('exact'), Type.Literal('pattern')], {
      default: 'exact',
      description: "Whether a paid token is good for the request's own path or for the whole pattern."
    }),
    tokenValidity: Type.Optional(
      Duration({
        minimum: '1s',
        description: 'How long a paid token is accepted, where it is not `payment.tokenValidity`.'
      })
    ),
    description: Type.Optional(
      Type.String({
        maxLength: 500,
        description: 'What is sold; stands in invoices, the price list and the OpenAPI document.'
      })
    ),
    releaseOn: List(Type.Union([Type.Literal('4xx'), Type.Literal('5xx'), Type.Literal('client-gone')]), {
      default: ['5xx', 'client-gone'],
      description:
        'What gives a single-use credential back to its payer: upstream responses of 4xx or 5xx, and a client that leaves before the head of its response, which counts twice at most for methods that are not safe. Failures of the gateway always do.'
    }),
    afterCrash: Type.Union([Type.Literal('by-method'), Type.Literal('release'), Type.Literal('spend')], {
      default: 'by-method',
      description:
        'What becomes of a single-use credential whose gateway died while its request was under way: released, or spent and listed for the operator. by-method releases GET, HEAD, OPTIONS and TRACE and spends the others.'
    }),
    renewal: Type.Union([Type.Literal('contract'), Type.Literal(402)], {
      default: 'contract',
      description:
        'What answers a classic token that expired or is for another path, price or merchant: 400, 401 and 403 as the contract says, or 402 with fresh challenge lines, on which clients that keep tokens buy anew. A wrong preimage or signature is 401 in any case. Merchants may choose for their own proxies.'
    }),
    order: Type.Optional(
      Type.Union([Type.Literal('l402-first'), Type.Literal('payment-first')], {
        description:
          'Which line of a 402 stands first, where it is not as `payment.order` says: payment-first is for clients of the Payment scheme that read the first line alone. Accept-Payment still moves the lines where `payment.order` is auto.'
      })
    ),
    bodyLimit: Type.Optional(Size({ description: 'Largest request body, where it is not the one of the chain.' })),
    meter: Type.Optional(MeterSchema),
    sessions: Type.Optional(SessionsSchema)
  },
  {
    ...describe('A route.'),
    'x-gone': {
      rechallenge: 'no client pays on a 401 or 403, whatever lines it has. Write `renewal: 402` in its place'
    }
  }
)

/** The keyword by which the editors' schema puts the forms of chain entries in. */
const chainEntry = Type.Unsafe<unknown>({
  'x-form': 'chain-entry',
  description: 'A plugin name or path, or `{ name: { settings } }` with `when`, `disabled` and `mode` beside it.'
})

const pages = Type.Object(
  {
    home: Type.Union([Type.Boolean(), Type.String({ 'x-format': 'http-url' })], {
      default: true,
      'x-allowed': 'true, false, or an address such as https://example.com',
      description:
        'The page at `/`, which tells what is sold here: false for none, or an address that it leads to. A route of the file that takes `/` goes before it.'
    }),
    name: Type.String({
      default: '',
      maxLength: 200,
      description: 'Who sells, on the pages for people. `payment.serviceName` when empty.'
    }),
    colour: Type.String({
      default: '',
      pattern: '^$|^#[0-9a-fA-F]{6}$',
      'x-allowed': 'a colour such as #c2410c',
      description:
        "Colour of the pages for people on which the gateway's own routes are paid, made darker or lighter until it can be read. Green when empty."
    })
  },
  describe('Pages for people.')
)

const discovery = Type.Object(
  {
    categories: Type.Array(
      Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,31}$', 'x-allowed': 'a word such as data or ai' }),
      {
        default: ['api'],
        maxItems: 10,
        description: 'What registries sort this service by.'
      }
    )
  },
  describe('What agents and registries are told of this gateway.')
)

/** The whole of `gateway.yaml`, as it is written, where `lightning` may name these kinds; any where none are given. */
export const fileSchema = (providers: readonly ProviderFacts[] = []) =>
  Type.Object(
    {
      mode: Type.Union([Type.Literal('development'), Type.Literal('production')], {
        default: 'development',
        description: 'Production refuses the sandbox, missing secrets, the embedded database and plain HTTP.'
      }),
      server,
      secrets,
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
            description: '`pglite:` for the embedded database, or the address of a PostgreSQL server (15 or later).'
          }),
          connections: Type.Integer({
            default: 10,
            minimum: 1,
            maximum: 1000,
            description: 'Most connections from one worker to PostgreSQL. The embedded database has one.'
          }),
          pooler: Type.Union([Type.Literal('none'), Type.Literal('transaction')], {
            default: 'none',
            description:
              '`transaction`: `url` leads to a pooler such as PgBouncer that lends a session for each transaction. Needs `listenUrl`.'
          }),
          listenUrl: SecretText({
            default: '',
            'x-format': 'listen-url',
            description:
              'Where one connection of each worker listens for notifications: the address of the same database past a pooler. Empty: `url`.'
          })
        },
        describe('Where money and merchants are kept.')
      ),
      state: Type.Object(
        {
          url: SecretText({
            default: 'memory:',
            'x-format': 'state-url',
            description:
              '`memory:`, or the address of a Redis server; of a cluster the addresses of some nodes, with commas between them.'
          }),
          cluster: Type.Boolean({
            default: false,
            description: 'Whether `url` names nodes of a Redis Cluster; all others are learnt from them.'
          })
        },
        describe('Where counters and replays are kept.')
      ),
      lightning: lightning(providers),
      payment,
      payments,
      prices,
      mail,
      operators: List(Type.String({ 'x-format': 'email' }), {
        default: [],
        description:
          'Email addresses of those who may do all that the admin key may, once they have signed in by a link in a mail.'
      }),
      storefront,
      billing,
      plans,
      discovery,
      pages,
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
            "Chains and routes of the gateway's own that need not be spelled out: `service` (/health, /metrics, /openapi.json and their like), `sandbox` (/sandbox/pay, outside production), " +
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
        describe('Log lines, as JSON on standard output.')
      ),
      metrics: Type.Object(
        {
          process: Type.Boolean({
            default: true,
            description: 'Measure the process as well: memory, event loop, collections.'
          })
        },
        describe('Measurements for Prometheus.')
      )
    },
    describe('The configuration of the gateway.')
  )

/** The file's values after defaults and units, before chains and routes are resolved. */
export type FileConfig = Static<ReturnType<typeof fileSchema>>

/** A place in a configuration file; lines and columns begin at 1. */
export interface Position {
  readonly file: string
  readonly line: number
  readonly column: number
}

/** A rate limit: `limit` requests in `window` milliseconds, in `sliding` segments where given (decisions 32 to 34). */
export type PolicyConfig = DeepReadonly<Static<typeof PolicySchema>>

/** Conditions of a chain entry: every given one must hold. */
export type WhenConfig = DeepReadonly<Static<typeof WhenSchema>>

/** One step of a chain, with its plugin's settings read, defaulted and frozen. */
export interface ChainEntryConfig {
  /** Name of the plugin; for a plugin file the path as written. */
  readonly plugin: string
  /** Absolute path of the plugin file, for an entry that names one. */
  readonly file?: string
  /** The plugin's settings; as written where the plugin's schema was not given to the loader. */
  readonly config: unknown
  readonly when?: WhenConfig
  readonly disabled: boolean
  /** `observe` decides and logs but does not act. */
  readonly mode: 'enforce' | 'observe'
  /** Where the entry stands, for messages about it. */
  readonly at: Position
}

type UrlOptions = Omit<Static<typeof NamedUpstreamSchema>, 'url'>

/** An operator's own HTTP upstream. Times in milliseconds, limits in bytes; the files of `tls` are absolute paths. */
export type UrlUpstreamConfig = DeepReadonly<{ kind: 'url'; name?: string; url: string } & UrlOptions>

/** Where a route sends its requests. `param` is the path parameter's name without its colon. */
export type UpstreamConfig =
  | { readonly kind: 'internal'; readonly name: string }
  | { readonly kind: 'proxy'; readonly param: string }
  | UrlUpstreamConfig

/** A route, resolved: lists are lists, prices satoshis, times milliseconds, limits bytes. */
export type RouteConfig = DeepReadonly<Omit<Static<typeof RouteSchema>, 'name' | 'match' | 'upstream' | 'meter'>> & {
  readonly name: string
  /** Its `bundle` is the route's price. */
  readonly meter?: MeterConfig
  /** No `host` or `method` matches any. */
  readonly match: { readonly host?: string; readonly method?: readonly string[]; readonly path: readonly string[] }
  readonly upstream: UpstreamConfig
  readonly at: Position
}

/**
 * The whole configuration, checked and frozen. Times in milliseconds, sizes in bytes, prices in satoshis, `data`
 * absolute.
 */
export type GatewayConfig = DeepReadonly<
  Omit<FileConfig, 'server' | 'chains' | 'routes' | 'upstreams' | 'policies' | 'use'>
> & {
  /** Presets whose chains and routes are there beside those of the file. */
  readonly use: readonly PresetName[]
  /** The file it was read from, as it was named. */
  readonly file: string
  readonly server: DeepReadonly<Omit<FileConfig['server'], 'listen'>> & {
    /** Host without brackets, and port; port 0 takes any free one. */
    readonly listen: { readonly host: string; readonly port: number }
  }
  /** Built-in policies (contract, Limits) and the file's own. */
  readonly policies: Readonly<Record<string, PolicyConfig>>
  readonly chains: Readonly<Record<string, readonly ChainEntryConfig[]>>
  readonly upstreams: Readonly<Record<string, UrlUpstreamConfig>>
  readonly routes: readonly RouteConfig[]
  /** What is allowed and probably not meant. */
  readonly warnings: readonly Problem[]
}

/** The same type with every property read-only, all the way down. */
export type DeepReadonly<T> = T extends readonly (infer Item)[]
  ? readonly DeepReadonly<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> }
    : T

/** The free calls of a route. Times in milliseconds. */
export type FreeCallsConfig = NonNullable<RouteConfig['free']>

/** What the loader needs to know of a plugin; the plugin itself stays unknown to it. */
export interface PluginFacts {
  readonly name: string
  /** One paragraph for the reference page. */
  readonly description?: string
  /** Schema of the settings under the plugin's name. */
  readonly config: TSchema
  /** Facts that an earlier entry of the chain must provide. */
  readonly needs?: readonly string[]
  /** Facts that later entries may count on. */
  readonly provides?: readonly string[]
  /** Answers the request: must stand last. A chain without one ends with the upstream of the route. */
  readonly terminal?: boolean
  /** Plugins that must not stand earlier in the chain: `throttle` may have `before: ['challenge']`. */
  readonly before?: readonly string[]
  /** Plugins that must not stand later in the chain: `challenge` has `after: ['throttle']`. */
  readonly after?: readonly string[]
}

/** What the loader needs to know of a kind of provider; the kind itself stays unknown to it. */
export interface ProviderFacts {
  readonly name: string
  /** Makes invoices without money: needs no key, and is refused in production. */
  readonly isSandbox: boolean
  /** Whose calls its provider counts, and whether unpaid invoices cost; null where nothing is called. */
  readonly calls: { readonly counted: 'address' | 'key'; readonly billsInvoices?: true } | null
  /** Pays nothing out. */
  readonly onlyReceives?: true
  /** Pays no invoice that leaves the amount to it. */
  readonly wantsAmounts?: true
  /** What is wrong with the form of a key, without repeating any of it; undefined where nothing is. */
  keyFault(key: string): string | undefined
}

/** The contract's rate limits (contract, Limits); the file may replace each by its name. */
export const builtInPolicies: Readonly<Record<string, PolicyConfig>> = Object.freeze({
  global: { limit: 100, window: 60_000, by: 'principal' },
  read: { limit: 200, window: 60_000, by: 'principal' },
  'payment-create': { limit: 10, window: 60_000, by: 'principal' },
  write: { limit: 20, window: 60_000, by: 'principal' },
  'checkout-create': { limit: 5, window: 60_000, by: 'principal' },
  admin: { limit: 30, window: 60_000, by: 'principal' },
  webhook: { limit: 100, window: 60_000, sliding: 4, by: 'principal' },
  'l402-proxy': { limit: 100, window: 60_000, by: 'address' },
  'magic-link': { limit: 3, window: 900_000, by: 'address' },
  // Ours: asking for a passkey and showing it are two.
  passkey: { limit: 20, window: 900_000, by: 'address' }
} satisfies Record<string, PolicyConfig>)
