import { Type, type Static } from 'typebox'
import { ShortError, type GatewayError, type ValidationError } from '../../engine/operations/errors.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { BODY_REQUIRED } from '../../engine/operations/validation.ts'
import { FIELD_REQUIRED } from '../../engine/operations/field-errors.ts'
import { Secret } from '../../platform/keys/secrets.ts'
import { keyInSlot, providerOf, type ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import { ProviderKeyRequired, ProviderRefused, ProviderUnavailable } from '../../lightning/provider-calls/errors.ts'
import type { KeyVerdict } from '../../lightning/provider-calls/provider.ts'
import type { Merchant } from './schema.ts'
import type { Merchants } from './service.ts'
import { merchantOf, settingsWrite } from './principal.ts'
import { defineError } from '../../platform/system/errors.ts'
import { Done, done, gone, there } from './operations.ts'

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
    ...(['primary', 'alternate'] as const).flatMap(slot => [
      keyOperation(dependencies, slot),
      removalOperation(dependencies, slot),
      validateOperation(dependencies, slot)
    ]),
    providerOperation(dependencies)
  ]
}

/** A missing or blank key is `{error}`, not a problem (decision 1). */
function keyOperation(dependencies: ProviderKeyDependencies, slot: ProviderSlot): AnyOperation {
  const { member, field, word } = slots[slot]
  const refuse = (error: ValidationError): GatewayError => {
    const missing =
      error.errors[field]?.includes(FIELD_REQUIRED) === true || error.errors['$']?.includes(BODY_REQUIRED) === true
    return missing ? new ProviderKeyRequired() : error
  }
  return defineOperation({
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
    refuse,
    responses: {
      200: { description: 'Saved. Tested only if `test` is true.', schema: Done },
      400: 'An error where the key is missing or blank, or was tried and does not work; a problem where it is no text, or too long.',
      404: gone
    },
    handle: async ({ ctx, body, query }) => {
      // The schema requires this member; its name is only known here.
      const key = new Secret((body as Record<typeof member, string>)[member])
      const fault = key.reveal().trim() === '' ? null : dependencies.keyFault(key, slot)
      if (fault !== null) throw new ShortError(PROVIDER_KEY_TEST_FAILED, `The key was not saved. ${fault}`)
      const isTested = query.test === 'true' && key.reveal().trim() !== ''
      const tested = isTested ? await verdictOf(slot, () => dependencies.validateKey(key, slot)) : null
      if (tested?.isValid === false)
        throw new ShortError(PROVIDER_KEY_TEST_FAILED, `The key was not saved. ${tested.message}`)
      there(await dependencies.merchants.setProviderKey(merchantOf(ctx).id, slot, key))
      return done(`The key for the ${slot} provider was saved.${tested === null ? '' : ` ${tested.message}`}`)
    }
  })
}

function removalOperation(dependencies: ProviderKeyDependencies, slot: ProviderSlot): AnyOperation {
  return defineOperation({
    ...settingsWrite,
    id: `remove${slots[slot].word}Key`,
    role: 'owner',
    method: 'DELETE',
    path: `/api/merchant/${slot}-key`,
    summary: `Remove the key for the ${slot} provider`,
    description:
      'Payments made with the key can no longer be looked up or refunded here. The choice of a provider stays.',
    responses: { 200: { description: 'Removed, or no key was saved.', schema: Done }, 404: gone },
    handle: async ({ ctx }) => {
      const merchant = there(await dependencies.merchants.removeProviderKey(merchantOf(ctx).id, slot))
      const isUsed = providerOf(merchant) === slot
      return done(
        `The key for the ${slot} provider was removed.${isUsed ? ' No invoices can be made until another is saved or chosen.' : ''}`
      )
    }
  })
}

function providerOperation(dependencies: ProviderKeyDependencies): AnyOperation {
  return defineOperation({
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
    handle: async ({ ctx, body }) => {
      const merchant = there(await dependencies.merchants.change(merchantOf(ctx).id, { providerChoice: body.provider }))
      const hasKey = keyInSlot(merchant, body.provider) !== null
      return done(
        `Invoices are made by the ${body.provider} provider from now on.${hasKey ? '' : ' Its key is not saved yet.'}`
      )
    }
  })
}

/** Always 200; the body has the verdict (contract, Validation rules). */
function validateOperation(dependencies: ProviderKeyDependencies, slot: ProviderSlot): AnyOperation {
  return defineOperation({
    ...settingsWrite,
    id: `validate${slots[slot].word}Key`,
    unaudited: true,
    method: 'POST',
    path: `/api/merchant/validate-${slot}`,
    summary: `Try the saved key for the ${slot} provider`,
    description:
      'Asks the provider with the saved key, and makes no invoice. The status is 200 whether or not the key works.',
    responses: { 200: { description: 'Whether the key works, and the reason if it does not.', schema: Verdict } },
    handle: async ({ ctx }) => ({
      status: 200,
      body: await verdictOf(slot, () => dependencies.validate(merchantOf(ctx), slot))
    })
  })
}

/** Verdict on a key, also when its provider is unavailable. */
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
