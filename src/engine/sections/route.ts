import { Type } from 'typebox'
import { described, List, Reference, strict } from '../config/fields.ts'
import { MeterSchema, SessionsSchema } from '../checks/meter.ts'
import { AudienceSchema, RequestPrice } from '../checks/price.ts'
import { Duration, Size } from '../config/units.ts'
import { UpstreamSchema } from './upstream.ts'
import { valueFields } from './when.ts'

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
    }),
    ...valueFields
  },
  described(
    'Which requests the route takes. Host and path go first; among routes for the same, the one that compares most headers and parameters, then the first in the file.'
  )
)

export const RouteSchema = Type.Object(
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
      'x-allowed': 'a name under upstreams, or a mapping with exactly one of files, internal, proxy and url',
      description:
        'Where requests go: a name under `upstreams`, or exactly one of `files`, `internal`, `proxy` and `url`.'
    }),
    price: Type.Optional(
      RequestPrice({
        description:
          'Price of one request: `10 sats`, `1500 msat` (rounded up to whole satoshis) or satoshis as a number; `$0.002` or `0.01 EUR`, which become satoshis when the challenge is made; by a field of the request, as in `{ by: { json: model }, of: { small: 5 sats, large: 40 sats } }`; or asked of a price server of your own, as in `{ from: "http://127.0.0.1:9100/price" }`.'
      })
    ),
    audience: Type.Optional(AudienceSchema),
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
                'Whose they are: of a client address (IPv6 by /64), of a network (IPv4 by /24, IPv6 by /48), or of the value of a `header`, for which the chain must validate it, because clients can invent values.'
            }
          )
        },
        described('Calls without payment, before any is asked for. Requests with a payment credential are not counted.')
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
    service: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9._-]{1,64}$',
        description:
          'Name of a service. A token bought on one of its routes is good for all of them that have the same price, whatever their paths; `payment.serviceName` and `tokenPath` do not apply.'
      })
    ),
    invoices: Type.Optional(
      Type.Boolean({
        description:
          'Whether requests that are not paid get an invoice (default true). Without, they are answered 401: clients buy their token on another route of the same `service`, or a key at `/l402/keys`.'
      })
    ),
    tokenValidity: Type.Optional(
      Duration({
        minimum: '1s',
        description: 'How long a paid token is accepted, where it is not `payment.tokenValidity`.'
      })
    ),
    description: Type.Optional(
      Type.String({
        maxLength: 500,
        description: 'What is sold. Shown in invoices, the price list and the OpenAPI document.'
      })
    ),
    examples: Type.Array(
      Type.Object(
        {
          request: Type.String({
            pattern: '^[A-Z]{1,16} /\\S{0,1000}$',
            'x-allowed': 'a method and a path with its query, such as GET /v1/weather?city=Berlin',
            description: 'Method, path and query.'
          }),
          body: Type.Optional(Type.Unknown({ description: 'JSON body to send.' })),
          response: Type.Optional(Type.Unknown({ description: 'JSON body of the response.' }))
        },
        described('A request that works as it is.')
      ),
      {
        default: [],
        maxItems: 20,
        description:
          'Requests that agents can copy, published in `/llms.txt` and the OpenAPI document. Without one an agent knows the price of `/v1/*`, but not what to ask for.'
      }
    ),
    openapi: Type.Optional(
      Type.String({
        minLength: 1,
        description:
          'OpenAPI 3 file of the API behind the route, as YAML or JSON. Its operations below the route are published with their schemas and the price.'
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
        'What happens to a single-use credential whose gateway died with its request in flight: released, or spent and listed for the operator. by-method releases GET, HEAD, OPTIONS and TRACE and spends the others.'
    }),
    renewal: Type.Union([Type.Literal('contract'), Type.Literal(402)], {
      default: 'contract',
      description:
        'What answers a classic token that expired or is for another path, price or merchant: 400, 401 and 403 as the contract says, or 402 with fresh challenge lines, on which clients that keep tokens buy again. A wrong preimage or signature is 401 in any case. Merchants may choose for their own proxies.'
    }),
    order: Type.Optional(
      Type.Union([Type.Literal('l402-first'), Type.Literal('payment-first')], {
        description:
          'Order of the challenge lines, where it differs from `payment.order`. Clients that read a single line see one scheme only: `payment-first` shuts out L402 clients that read the first line, `l402-first` those that read the last. Accept-Payment still moves the lines where `payment.order` is auto.'
      })
    ),
    keepAuthorization: Type.Boolean({
      default: false,
      description:
        'For upstreams that need an Authorization of the client. A request that has one is challenged with `header="Payment-Authorization"`: the Payment credential comes in that field, and Authorization goes to the upstream. Clients that do not know the field pay by L402, in a second Authorization line.'
    }),
    bodyLimit: Type.Optional(Size({ description: 'Largest request body, where it is not the one of the chain.' })),
    meter: Type.Optional(MeterSchema),
    sessions: Type.Optional(SessionsSchema),
    keys: Type.Boolean({
      default: false,
      description:
        'The key to a balance also works as an API key: `Authorization: Bearer bg_…`, `x-api-key` or `api-key`. Clients buy one at `/l402/keys`. Needs `meter` or `sessions`.'
    })
  },
  described('A route.')
)
