import { Type, type Static } from 'typebox'
import { described, SecretText, strict } from '../config/fields.ts'

export const BillingSchema = Type.Object(
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
      described('Prices at the billing provider.')
    ),
    url: Type.Optional(
      Type.String({
        'x-format': 'upstream-url',
        description:
          "Address of the billing provider's API, where it is not the public one; https in production, unless it is this machine."
      })
    )
  },
  described('How merchants pay for their plans.')
)

const most = (description: string) => Type.Optional(Type.Integer({ minimum: 0, description }))

const CapsSchema = Type.Object(
  {
    endpoints: most('Most distinct endpoints. 3 on free, else unlimited when left out.'),
    challengesPerMonth: most('Most challenges in a UTC month. 200 on free, else unlimited when left out.'),
    maxPriceSats: most('Highest price of one challenge, in satoshis. 1000 on free, else unlimited when left out.')
  },
  strict
)
type Caps = Readonly<Static<typeof CapsSchema>> & { readonly webhookEndpoints: number }

export const PlansSchema = Type.Record(Type.String({ pattern: '^(free|individual|l402)$' }), CapsSchema, {
  default: {},
  description: 'What the plans `free`, `individual` and `l402` allow.'
})

/** The file's caps over those of the contract. */
export function plansOf({ free, individual, l402 }: Static<typeof PlansSchema>) {
  return {
    free: { endpoints: 3, challengesPerMonth: 200, maxPriceSats: 1000, webhookEndpoints: 1, ...free },
    individual: { ...individual, webhookEndpoints: 5 },
    l402: { ...l402, webhookEndpoints: 5 }
  } satisfies Record<string, Caps>
}

export const StorefrontSchema = Type.Object(
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
          "Address that every store's calls go to instead of its own domain, for tests; https in production, unless it is this machine."
      })
    )
  },
  described('Stores that sell for Lightning.')
)

export const MailSchema = Type.Object(
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
  described('How receipts, links to claim an order and links to sign in are sent.')
)

export const PagesSchema = Type.Object(
  {
    home: Type.Union([Type.Boolean(), Type.String({ 'x-format': 'http-url' })], {
      default: true,
      'x-allowed': 'true, false, or an address such as https://example.com',
      description:
        'The page at `/`, which tells what is sold here: false for none, or an address that it leads to. A route of the file that takes `/` goes before it.'
    }),
    signUp: Type.Boolean({
      default: false,
      description:
        'Whether visitors can open a free account at `/sign-up`, three from an address in 15 minutes. Needs `merchant-api` and `pages` in `use`, and mail.'
    }),
    colour: Type.String({
      default: '',
      pattern: '^$|^#[0-9a-fA-F]{6}$',
      'x-allowed': 'a colour such as #c2410c',
      description:
        "Colour of the pages for people on which the gateway's own routes are paid, made darker or lighter until it can be read. Green when empty."
    })
  },
  described('Pages for people.')
)

/** Who sells, on pages for people and in directories. */
export function titleOf(config: {
  readonly discovery: { readonly name: string }
  readonly payment: { readonly serviceName: string }
}): string {
  return config.discovery.name || config.payment.serviceName
}

export const DiscoverySchema = Type.Object(
  {
    categories: Type.Array(
      Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,31}$', 'x-allowed': 'a word such as data or ai' }),
      {
        default: ['api'],
        maxItems: 10,
        description: 'What registries sort this service by.'
      }
    ),
    name: Type.String({
      default: '',
      maxLength: 100,
      description: 'Name of the service, on pages for people and in directories. `payment.serviceName` when empty.'
    }),
    description: Type.String({
      default: '',
      maxLength: 500,
      description: 'What the service is for, in a sentence or two.'
    }),
    contact: Type.Optional(
      Type.String({ 'x-format': 'email', description: 'Email address for questions; it is published.' })
    ),
    icon: Type.Optional(Type.String({ 'x-format': 'http-url', description: 'Address of a picture for directories.' })),
    verify: Type.Record(
      Type.String({ pattern: '^(402index-verify\\.txt|satring-verify)$' }),
      Type.String({ minLength: 1, maxLength: 1000 }),
      {
        default: {},
        description:
          'Texts that directories gave you to prove that the domain is yours, by their file below `/.well-known/`: `402index-verify.txt` or `satring-verify`.'
      }
    )
  },
  described('What agents and registries learn about this gateway.')
)
