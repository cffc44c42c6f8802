import { createHash } from 'node:crypto'
import { Type, type Static, type TSchema } from 'typebox'
import type { DeepReadonly } from '../../engine/config/fields.ts'
import { LINE, nullableText } from '../../engine/formats/text-patterns.ts'
import { iso, isoTime, isoTimeOrNull } from '../../engine/formats/iso-time.ts'
import { RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import type { AnyOperation } from '../../engine/operations/operation.ts'
import { resolveProvider, type ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import type { KeyScope } from '../../lightning/kinds/kind.ts'
import type { KeyFailure } from '../../lightning/providers/payees.ts'
import { BITCOIN_PREFIX } from './plans.ts'
import { merchantOperation, settingsRead, settingsWrite } from './principal.ts'
import type { Merchant } from './schema.ts'
import type { Merchants } from './service.ts'
import type { MerchantChanges } from './store.ts'

interface SlotFacts {
  readonly kind: string
  /** Required scopes; none for kinds without scopes. */
  readonly scopes: readonly KeyScope[]
  readonly keyHint: string
}

const SettingsView = Type.Object(
  {
    plan: Type.Object({
      paidUntil: isoTimeOrNull('Null for the free plan, and where no end is known.'),
      paidBy: Type.Unsafe<'card' | 'bitcoin' | null>({
        enum: ['card', 'bitcoin', null],
        description: 'How the last period was paid; null when unpaid.'
      })
    }),
    webhook: Type.Object({
      url: nullableText(),
      hasSecret: Type.Boolean()
    }),
    colour: nullableText('Of the pages on which people pay; null for the usual one.'),
    receiptNote: nullableText('Seller details on receipts.'),
    paymentProvider: Type.Object({
      slot: Type.Enum(['primary', 'alternate'], { description: 'Makes the invoices.' }),
      chosenBy: Type.Enum(['choice', 'only-key', 'default'], {
        description:
          'choice: you chose it, or saved a primary key first. only-key: no other key is saved. default: neither, so it is the primary.'
      }),
      isReady: Type.Boolean({ description: 'Its key is saved; whether it works POST …/validate-… tells.' }),
      failing: Type.Unsafe<{ readonly reason: string; readonly since: string } | null>({
        anyOf: [Type.Object({ reason: Type.String(), since: isoTime() }), Type.Null()],
        description: 'Why the last call with its key failed, and since when; null after a success.'
      })
    }),
    providers: Type.Array(
      Type.Object({
        slot: Type.Enum(['primary', 'alternate']),
        kind: Type.String({ description: 'What the operator put there.' }),
        hasKey: Type.Boolean({ description: 'Whether a key is saved for the slot.' }),
        keyVersion: nullableText(
          'Another one each time a key is saved for the slot; null without one. It tells nothing of the key.'
        ),
        keyHint: Type.String({ description: 'What a key looks like and where to find it, for people.' }),
        scopes: Type.Array(
          Type.Object({ scope: Type.String({ description: 'As the provider spells it.' }), purpose: Type.String() }),
          { description: 'What a key needs; empty where its keys have no scopes.' }
        )
      })
    )
  },
  { title: 'MerchantSettings' }
)
export type SettingsView = Static<typeof SettingsView>

export interface SettingsDependencies {
  readonly merchants: Pick<Merchants, 'change'>
  slotFacts(slot: ProviderSlot): readonly SlotFacts[]
  /** Why the last call with the account's key failed; null after a success. */
  failure(merchant: Merchant, slot: ProviderSlot): Promise<KeyFailure | null>
}

async function merchantSettings(
  merchant: Merchant,
  { slotFacts, failure }: SettingsDependencies
): Promise<DeepReadonly<SettingsView>> {
  const versions = { primary: versionOf(merchant.primaryKey), alternate: versionOf(merchant.alternateKey) }
  const keyed = { primary: versions.primary !== null, alternate: versions.alternate !== null }
  const { providerChoice } = merchant
  const slot = resolveProvider({ providerChoice, hasPrimaryKey: keyed.primary, hasAlternateKey: keyed.alternate })
  const failing = await failure(merchant, slot)
  const { billingSubscriptionId, currentPeriodEnd, tier } = merchant
  const isPaid = tier !== 'free' && billingSubscriptionId !== null
  return {
    plan: {
      paidUntil: tier === 'free' ? null : iso(currentPeriodEnd),
      paidBy: isPaid ? (billingSubscriptionId.startsWith(BITCOIN_PREFIX) ? 'bitcoin' : 'card') : null
    } satisfies SettingsView['plan'],
    webhook: { url: merchant.webhookUrl, hasSecret: merchant.webhookSecret !== null },
    colour: merchant.colour,
    receiptNote: merchant.receiptNote,
    paymentProvider: {
      slot,
      chosenBy:
        providerChoice !== null ? 'choice' : keyed.primary !== keyed.alternate ? 'only-key' : ('default' as const),
      isReady: keyed[slot],
      failing: failing === null ? null : { ...failing, since: iso(failing.since) }
    },
    providers: (['primary', 'alternate'] as const).flatMap(each =>
      slotFacts(each).map(({ kind, scopes, keyHint }) => ({
        slot: each,
        kind,
        hasKey: keyed[each],
        keyVersion: versions[each],
        keyHint,
        scopes
      }))
    )
  }
}

/** From the ciphertext, which changes with each save. */
function versionOf(key: Merchant['primaryKey']): string | null {
  return key === null ? null : createHash('sha256').update(key.ciphertext).digest('base64url').slice(0, 16)
}

export const Done = Type.Object({ success: Type.Boolean(), message: Type.String() }, { title: 'Done' })
export const gone = 'The account is not there any more.'

export function done(message: string): Static<typeof Done> {
  return { success: true, message }
}

/** Guards against an account deleted meanwhile. */
export function there<T>(written: T | null): T {
  if (written === null) throw new ShortError(RESOURCE_NOT_FOUND, 'Merchant not found')
  return written
}

export function settingsOperations(dependencies: SettingsDependencies): AnyOperation[] {
  /** An operation that writes columns of the account and answers with a sentence. */
  const setting = <const B extends TSchema>({
    body,
    change,
    message,
    ...declared
  }: Pick<AnyOperation, 'id' | 'path' | 'summary' | 'description' | 'role'> & {
    readonly body: B
    change(body: Static<B>): MerchantChanges
    message(merchant: Merchant): string
  }) =>
    merchantOperation({
      ...settingsWrite,
      ...declared,
      method: 'PUT',
      body,
      responses: { 200: { description: 'Saved.', schema: Done }, 404: gone },
      handle: async input =>
        done(message(there(await dependencies.merchants.change(input.merchant.id, change(input.body)))))
    })
  return [
    merchantOperation({
      ...settingsRead,
      id: 'getSettings',
      path: '/api/merchant/settings',
      summary: 'Settings: webhook URL, payment provider and the reason for it, and the scopes its key needs',
      description: 'Shows whether keys and secrets are set, never their values.',
      responses: { 200: { description: 'Never a secret.', schema: SettingsView } },
      handle: ({ merchant }) => merchantSettings(merchant, dependencies)
    }),
    setting({
      id: 'setColour',
      path: '/api/merchant/colour',
      summary: 'Set the color of the payment pages',
      description:
        'A browser that opens a paid address of a proxy gets a page to pay on, with the name of the account and this colour.',
      body: Type.Object({
        colour: nullableText({
          pattern: '^#[0-9a-fA-F]{6}$',
          description: 'For example `#c2410c`. Adjusted for contrast. Null restores the default.'
        })
      }),
      change: ({ colour }) => ({ colour }),
      message: ({ colour }) =>
        colour === null ? 'Pages have the usual colour from now on.' : `Pages have the colour ${colour} from now on.`
    }),
    setting({
      id: 'setName',
      role: 'owner',
      path: '/api/merchant/name',
      summary: 'Rename the account',
      description: 'Customers see the name on payment pages, receipts and invoices.',
      body: Type.Object({
        name: Type.String({
          minLength: 1,
          maxLength: 200,
          pattern: `^(?=.*\\S)${LINE}`,
          'x-rule': 'Must be one line with a visible character.'
        })
      }),
      change: ({ name }) => ({ name: name.trim() }),
      message: ({ name }) => `The account is now named ${name}.`
    }),
    // What tax law wants on a receipt, in the merchant's words: the gateway computes no taxes.
    setting({
      id: 'setReceiptNote',
      path: '/api/merchant/receipt-note',
      summary: 'Set the seller details on receipts',
      description: 'Printed on each receipt by email: legal name, address, tax number, and which tax a price includes.',
      body: Type.Object({
        note: nullableText({
          maxLength: 500,
          pattern: LINE,
          'x-rule': 'Must be one line.',
          description: 'Null or empty for none.'
        })
      }),
      change: ({ note }) => ({ receiptNote: (note ?? '').trim() || null }),
      message: ({ receiptNote }) =>
        receiptNote === null ? 'Receipts have no seller details.' : 'Receipts have these seller details.'
    })
  ]
}
