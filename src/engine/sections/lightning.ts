import { Type } from 'typebox'
import { described, List, SecretText, strict } from '../config/fields.ts'
import { Duration } from '../config/units.ts'

export interface ProviderFacts {
  readonly name: string
  /** Makes invoices without money: needs no key, and is refused in production. */
  readonly isSandbox: boolean
  /** Whether the provider counts calls per address or key, and charges for unpaid invoices; null without calls. */
  readonly calls: { readonly counted: 'address' | 'key'; readonly billsInvoices?: true } | null
  readonly onlyReceives?: true
  /** Sells by x402. */
  readonly hashesDescriptions?: 'own' | 'shared'
  /** Cannot pay an invoice without an amount. */
  readonly wantsAmounts?: true
  /** Describes what is wrong with a key's form without repeating any of it. */
  keyFault(key: string): string | undefined
}

const providerOf = (kinds: readonly ProviderFacts[]) =>
  Type.Object(
    {
      kind: Type.Unsafe<string>({
        ...(kinds.length === 0 ? { type: 'string' } : { enum: kinds.map(({ name }) => name) }),
        default: 'sandbox',
        description: 'What makes the invoices. The sandbox is refused in production.'
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
            'Distinguishes providers of one kind in a slot. Stored with each invoice, so never change it. Defaults to the kind.'
        })
      ),
      url: Type.Optional(
        Type.String({
          'x-format': 'upstream-url',
          description:
            "Address of the provider's API, where it is not the public one; https in production, unless it is this machine."
        })
      ),
      // A refund unknown to its provider expires ten minutes after its start; every call must have ended by then.
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
          description: `Invoices of one price and description that may be made before they are requested, so that a 402 does not wait for the provider; 0 for none. ${aheadByDefault(kinds)}`
        })
      )
    },
    strict
  )

const slot = (side: string, provider: ReturnType<typeof providerOf>, fallback: readonly object[], otherwise: string) =>
  List(provider, {
    default: fallback,
    description: `The ${side} payment provider, or a list of such: the first that can be asked makes the invoice.${otherwise}`
  })

function whoseCalls(kinds: readonly ProviderFacts[]): string {
  const ofAddress = kinds.filter(({ calls }) => calls?.counted === 'address').map(({ name }) => name)
  return ofAddress.length === 0
    ? 'those of each key'
    : `for ${ofAddress.join(', ')} all from this address, else of each key`
}

function aheadByDefault(kinds: readonly ProviderFacts[]): string {
  const billing = kinds.filter(({ calls }) => calls?.billsInvoices === true).map(({ name }) => name)
  const none = billing.length === 0 ? '' : ` and for ${billing.join(', ')}, which charges for unpaid invoices`
  return `Where it is left out, 400, and none for the sandbox${none}.`
}

export const lightningSchema = (kinds: readonly ProviderFacts[]) => {
  const provider = providerOf(kinds)
  return Type.Object(
    {
      primary: slot('primary', provider, [{ kind: 'sandbox' }], ''),
      alternate: slot(
        'alternate',
        provider,
        [],
        ' Optional: without it there is none in production, and the sandbox in development.'
      ),
      network: Type.Optional(
        Type.Union(
          (['mainnet', 'testnet', 'signet', 'regtest'] as const).map(name => Type.Literal(name)),
          {
            description:
              'The Bitcoin network that is sold on. A key of another is refused by its check, and an invoice of another is not sent. Where it is left out, mainnet in production, and any in development.'
          }
        )
      )
    },
    described('Who makes invoices.')
  )
}
