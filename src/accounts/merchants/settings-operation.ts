import { createHash } from 'node:crypto'
import { Type, type Static } from 'typebox'
import { nullableText } from '../../engine/formats/text-patterns.ts'
import { iso, isoTime, isoTimeOrNull } from '../../engine/formats/iso-time.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { resolveProvider, type ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import type { KeyScope } from '../../lightning/kinds/kind.ts'
import type { KeyFailure } from '../../lightning/providers/payees.ts'
import { BITCOIN_PREFIX } from './plans.ts'
import { merchantOf, settingsRead } from './principal.ts'
import type { Merchant } from './schema.ts'

interface SlotFacts {
  /** Name of the provider kind in the slot. */
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
  slotFacts(slot: ProviderSlot): readonly SlotFacts[]
  /** Why the last call with the account's key failed; null after a success. */
  failure(merchant: Merchant, slot: ProviderSlot): Promise<KeyFailure | null>
}

async function merchantSettings(merchant: Merchant, { slotFacts, failure }: SettingsDependencies) {
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

export function settingsOperation(dependencies: SettingsDependencies): AnyOperation[] {
  return [
    defineOperation({
      ...settingsRead,
      id: 'getSettings',
      method: 'GET',
      path: '/api/merchant/settings',
      summary: 'Settings: webhook URL, payment provider and the reason for it, and the scopes its key needs',
      description: 'Shows whether keys and secrets are set, never their values.',
      responses: { 200: { description: 'Never a secret.', schema: SettingsView } },
      handle: async ({ ctx }) => ({ status: 200, body: await merchantSettings(merchantOf(ctx), dependencies) })
    })
  ]
}
