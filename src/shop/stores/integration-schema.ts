import { TEXT, nullableText } from '../../engine/formats/text-patterns.ts'
import { Type, type Static } from 'typebox'
import { iso, isoTime } from '../../engine/formats/iso-time.ts'
import type { RawJson } from '../../lightning/money/decimal.ts'
import { dollars, type Integration, usd } from '../schema.ts'

const MAX_USD = 1_000_000
const MAX_SLUG = 63
const MAX_HOST = 253
const MAX_SECRET = 500
const MAX_CATEGORIES = 2_000
const MAX_DESCRIPTION = 1_000

const SLUG = '^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$'
// Full names only; a last label of digits would be an IP address.
const HOST = '^(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\\.)+[A-Za-z](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])$'
// Other characters never came from the platform.
const SECRET = '^[\\x21-\\x7e]*$'
const LOCATION = '^[A-Za-z]{2}-[A-Za-z0-9]{0,3}-[^\\u0000-\\u001f\\u007f]{0,20}$'
// Rejects NUL, which the database cannot store, and other control characters.

const secretRule = 'Must be printable ASCII without spaces.'
const nullable = <T>(type: 'string' | 'number', more: Readonly<Record<string, unknown>>) =>
  Type.Optional(Type.Unsafe<T | null>({ type: [type, 'null'], ...more }))

const credentials = {
  clientId: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: MAX_SECRET,
      pattern: SECRET,
      'x-rule': secretRule,
      description: 'Client id of your own app at the platform. Give it together with clientSecret.'
    })
  ),
  clientSecret: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: MAX_SECRET,
      pattern: SECRET,
      'x-rule': secretRule,
      description: "Its secret, which also signs the platform's notifications. Stored encrypted and never returned."
    })
  ),
  adminApiToken: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: MAX_SECRET,
      pattern: SECRET,
      'x-rule': secretRule,
      description:
        "A lasting token of the platform's Admin API, instead of the two. Stored encrypted and never returned."
    })
  )
}

const settings = {
  domesticShippingUsd: Type.Optional(
    Type.Number({
      minimum: 0,
      maximum: MAX_USD,
      description:
        'Flat shipping rate in US dollars, with at most two places; abroad too, where domesticOnly is false. 0 unless said.'
    })
  ),
  domesticOnly: Type.Optional(
    Type.Boolean({ description: "Ship within the shop's own country only. False unless said." })
  ),
  freeShippingEnabled: Type.Optional(
    Type.Boolean({ description: 'Ship for nothing from freeShippingThresholdUsd on. False unless said.' })
  ),
  freeShippingThresholdUsd: nullable<number>('number', {
    minimum: 0,
    maximum: MAX_USD,
    description: 'Smallest subtotal that ships free, in US dollars with at most two places; null for any.'
  }),
  defaultTaxLocation: nullable<string>('string', {
    maxLength: 27,
    pattern: LOCATION,
    'x-rule': 'Must have the form country-state-zip, such as US-CA-94107.',
    description: "Stored and shown. Tax is always asked for the buyer's own place."
  }),
  claimWindowDays: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 365,
      description: 'Days that buyers have to claim what they paid for, of checkouts from now on. 30 unless said.'
    })
  ),
  isActive: Type.Optional(
    Type.Boolean({ description: 'Whether the store can be seen and bought from. True unless said.' })
  ),
  listInRegistry: Type.Optional(
    Type.Boolean({ description: 'Whether /llms.txt names this store. False unless said.' })
  ),
  registryCategories: nullable<string>('string', {
    maxLength: MAX_CATEGORIES,
    pattern: TEXT,
    'x-rule': 'Must not hold control characters.',
    description: 'A JSON array as text, such as ["books"]. Stored and shown.'
  }),
  registryDescription: nullable<string>('string', {
    maxLength: MAX_DESCRIPTION,
    pattern: TEXT,
    'x-rule': 'Must not hold control characters.',
    description: 'What /llms.txt says of this store.'
  })
}

/** Decision 143. */
export const IntegrationInput = Type.Object(
  {
    slug: Type.String({
      maxLength: MAX_SLUG,
      pattern: SLUG,
      'x-rule': 'Must be 3 to 63 small letters, digits and dashes, without a dash at either end.',
      description: "Part of the store's URLs. Never changes."
    }),
    storefrontDomain: Type.String({
      maxLength: MAX_HOST,
      pattern: HOST,
      'x-rule': 'Must be a host name alone, such as example.myshopify.com.',
      description: 'Where the shop is, at its platform.'
    }),
    ...credentials,
    ...settings
  },
  { title: 'StoreInput' }
)
export type IntegrationInput = Static<typeof IntegrationInput>

export const IntegrationChange = Type.Object({ ...credentials, ...settings }, { title: 'StoreChange' })
export type IntegrationChange = Static<typeof IntegrationChange>

/** For its merchant (contract, Storefront integration resources; decisions 141 and 143). */
export const IntegrationView = Type.Object(
  {
    slug: Type.String(),
    storefrontDomain: Type.String({ description: "The shop's canonical domain at its platform." }),
    shopHandle: nullableText("The platform's own name of the shop."),
    shopName: nullableText('As buyers read it.'),
    shopCountry: nullableText('Two capital letters; what domestic means.'),
    hasAdminApiToken: Type.Boolean({
      description: 'Whether credentials are stored, of either form. They are never returned.'
    }),
    domesticShippingUsd: dollars('A number of US dollars.'),
    domesticOnly: Type.Boolean(),
    freeShippingEnabled: Type.Boolean(),
    freeShippingThresholdUsd: Type.Unsafe<RawJson | null>({
      'x-type': ['number', 'null'],
      description: 'A number of US dollars; null for any subtotal.'
    }),
    defaultTaxLocation: nullableText('As it was given, in capitals.'),
    claimWindowDays: Type.Integer(),
    isActive: Type.Boolean(),
    listInRegistry: Type.Boolean(),
    registryCategories: nullableText('A JSON array as text.'),
    registryDescription: nullableText('As it was given.'),
    createdAt: isoTime(),
    updatedAt: isoTime()
  },
  { title: 'Store' }
)
export type IntegrationView = Static<typeof IntegrationView>

export function hasCredentials({
  adminApiToken,
  clientId,
  clientSecret
}: Pick<Integration, 'adminApiToken' | 'clientId' | 'clientSecret'>): boolean {
  return adminApiToken !== null || (clientId !== null && clientSecret !== null)
}

/** Contains no secret, sealed or not. */
export function integrationView(integration: Integration): IntegrationView {
  const { shipping } = integration
  return {
    slug: integration.slug,
    storefrontDomain: integration.storefrontDomain,
    shopHandle: integration.shopHandle,
    shopName: integration.shopName,
    shopCountry: integration.shopCountry,
    hasAdminApiToken: hasCredentials(integration),
    domesticShippingUsd: usd(shipping.domesticCents),
    domesticOnly: shipping.domesticOnly,
    freeShippingEnabled: shipping.freeEnabled,
    freeShippingThresholdUsd: shipping.freeThresholdCents === null ? null : usd(shipping.freeThresholdCents),
    defaultTaxLocation: integration.defaultTaxLocation,
    claimWindowDays: integration.claimWindowDays,
    isActive: integration.isActive,
    listInRegistry: integration.listInRegistry,
    registryCategories: integration.registryCategories,
    registryDescription: integration.registryDescription,
    createdAt: iso(integration.createdAt),
    updatedAt: iso(integration.updatedAt)
  }
}
