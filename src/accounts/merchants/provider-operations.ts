import { Type, type Static } from 'typebox'
import { ShortError } from '../../engine/operations/errors.ts'
import type { AnyOperation } from '../../engine/operations/operation.ts'
import { BODY_REQUIRED } from '../../engine/operations/validation.ts'
import { FIELD_REQUIRED } from '../../engine/operations/field-errors.ts'
import { Secret } from '../../platform/keys/secrets.ts'
import { keyInSlot, providerOf, type ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import { ProviderKeyRequired, ProviderRefused, ProviderUnavailable } from '../../lightning/provider-calls/errors.ts'
import type { KeyVerdict } from '../../lightning/provider-calls/provider.ts'
import type { Merchant } from './schema.ts'
import type { Merchants } from './service.ts'
import { merchantOperation, settingsWrite } from './principal.ts'
import { defineError } from '../../platform/system/errors.ts'
import { Done, done, gone, there } from './settings-operation.ts'

const PROVIDER_KEY_TEST_FAILED = defineError('BG_PROVIDER_KEY_TEST_FAILED', {
  status: 400,
  cause: 'The form of a new provider key is wrong, or its test failed, so it was not saved.',
  fix: 'Correct the key as `error` says; the previous key is still in use.'
})

/** Longest provider key in characters; keys with a node's certificate have thousands. */
const MAX_KEY_CHARS = 8192

const Verdict = Type.Object({ isValid: Type.Boolean(), message: Type.String() }, { title: 'KeyVerdict' })
export type KeyVerdictView = Static<typeof Verdict>

const slots: Readonly<
  Record<
    ProviderSlot,
    { readonly member: 'primaryApiKey' | 'alternateApiKey'; readonly field: string; readonly word: string }
  >
> = Object.freeze({
  primary: { member: 'primaryApiKey', field: 'PrimaryApiKey', word: 'Primary' },
  alternate: { member: 'alternateApiKey', field: 'AlternateApiKey', word: 'Alternate' }
})

interface ProviderKeyDependencies {
  readonly merchants: Merchants
  /**
   * Tests the saved key of a slot; null without one.
   * @throws ProviderUnavailable without a verdict
   */
  validate(merchant: Merchant, slot: ProviderSlot): Promise<KeyVerdict | null>
  /** What is wrong with the form of an unsaved key; null where nothing is. */
  keyFault(key: Secret<string>, slot: ProviderSlot): string | null
  /** The same as `validate` for an unsaved key. */
  validateKey(key: Secret<string>, slot: ProviderSlot): Promise<KeyVerdict>
}

export function providerKeyOperations(dependencies: ProviderKeyDependencies): AnyOperation[] {
  return [
    ...(['primary', 'alternate'] as const).flatMap(slot => keyOperations(dependencies, slot)),
    merchantOperation({
      ...settingsWrite,
      id: 'setPaymentProvider',
      liveOnly: true,
      role: 'owner',
      method: 'PUT',
      path: '/api/merchant/payment-provider',
      summary: 'Choose the payment provider for invoices',
      description: 'Earlier payments and their refunds stay with the provider that created them.',
      body: Type.Object({
        provider: Type.Enum(['primary', 'alternate'], { description: 'Its key may be saved later.' })
      }),
      responses: { 200: { description: 'Chosen.', schema: Done }, 404: gone },
      handle: async ({ merchant: { id }, body: { provider } }) => {
        const merchant = there(await dependencies.merchants.change(id, { providerChoice: provider }))
        const hasKey = keyInSlot(merchant, provider) !== null
        return done(
          `Invoices are made by the ${provider} provider from now on.${hasKey ? '' : ' Its key is not saved yet.'}`
        )
      }
    })
  ]
}

function keyOperations(dependencies: ProviderKeyDependencies, slot: ProviderSlot): AnyOperation[] {
  const { member, field, word } = slots[slot]
  return [
    merchantOperation({
      ...settingsWrite,
      id: `set${word}Key`,
      liveOnly: true,
      role: 'owner',
      method: 'PUT',
      path: `/api/merchant/${slot}-key`,
      mount: { use: 'merchant-api', chain: 'settings-keys' },
      summary: `Save the key for the ${slot} provider`,
      description: 'Replaces the saved key. New payments and lookups of pending ones use the new key.',
      query: Type.Object({
        test: Type.Optional(
          Type.Enum(['true', 'false'], {
            description:
              'true: the key is tried first. One that does not work is 400 with the reason, and the saved key stays.'
          })
        )
      }),
      body: Type.Object({
        [member]: Type.String({
          maxLength: MAX_KEY_CHARS,
          description: 'Stored encrypted and never returned. Space around it is dropped.'
        })
      }),
      // A missing or blank key is `{error}`, not a problem (decision 1).
      refuse: error =>
        error.errors[field]?.includes(FIELD_REQUIRED) === true || error.errors['$']?.includes(BODY_REQUIRED) === true
          ? new ProviderKeyRequired()
          : error,
      responses: {
        200: { description: 'Saved. Tested only if `test` is true.', schema: Done },
        400: 'An error where the key is missing or blank, or was tried and does not work; a problem where it is no text, or too long.',
        404: gone
      },
      handle: async ({ merchant: { id }, body, query }) => {
        // The schema requires this member; its name is only known here.
        const key = new Secret((body as Record<typeof member, string>)[member])
        let tested: KeyVerdict | null = null
        if (key.reveal().trim() !== '') {
          const fault = dependencies.keyFault(key, slot)
          if (fault !== null) tested = { isValid: false, message: fault }
          else if (query.test === 'true') tested = await verdictOf(slot, () => dependencies.validateKey(key, slot))
          if (tested?.isValid === false)
            throw new ShortError(PROVIDER_KEY_TEST_FAILED, `The key was not saved. ${tested.message}`)
        }
        there(await dependencies.merchants.setProviderKey(id, slot, key))
        return done(`The key for the ${slot} provider was saved.${tested === null ? '' : ` ${tested.message}`}`)
      }
    }),
    merchantOperation({
      ...settingsWrite,
      id: `remove${word}Key`,
      role: 'owner',
      method: 'DELETE',
      path: `/api/merchant/${slot}-key`,
      summary: `Remove the key for the ${slot} provider`,
      description:
        'Payments made with the key can no longer be looked up or refunded here. The choice of a provider stays.',
      responses: { 200: { description: 'Removed, or no key was saved.', schema: Done }, 404: gone },
      handle: async ({ merchant: { id } }) => {
        const merchant = there(await dependencies.merchants.removeProviderKey(id, slot))
        const isUsed = providerOf(merchant) === slot
        return done(
          `The key for the ${slot} provider was removed.${isUsed ? ' No invoices can be made until another is saved or chosen.' : ''}`
        )
      }
    }),
    // Always 200; the body has the verdict (contract, Validation rules).
    merchantOperation({
      ...settingsWrite,
      id: `validate${word}Key`,
      unaudited: true,
      method: 'POST',
      path: `/api/merchant/validate-${slot}`,
      summary: `Try the saved key for the ${slot} provider`,
      description:
        'Asks the provider with the saved key, and makes no invoice. The status is 200 whether or not the key works.',
      responses: { 200: { description: 'Whether the key works, and the reason if it does not.', schema: Verdict } },
      handle: ({ merchant }) => verdictOf(slot, () => dependencies.validate(merchant, slot))
    })
  ]
}

async function verdictOf(slot: ProviderSlot, tried: () => Promise<KeyVerdict | null>): Promise<KeyVerdict> {
  try {
    return (await tried()) ?? { isValid: false, message: `No key is saved for the ${slot} provider.` }
  } catch (error) {
    if (error instanceof ProviderUnavailable)
      return {
        isValid: false,
        message: `The ${slot} provider could not be asked, so the key was not tried: ${error.message}`
      }
    if (error instanceof ProviderRefused) return { isValid: false, message: refusedMessage(error) }
    throw error
  }
}

function refusedMessage({ message, scope }: ProviderRefused): string {
  return scope === null || message.includes(scope) ? message : `${message} The key lacks the scope ${scope}.`
}
