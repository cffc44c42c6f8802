import { Type } from 'typebox'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import type { ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import type { Notifications } from './service.ts'

/** Limit of an unauthenticated body, in bytes; real notifications have some 3,000. */
const BODY_LIMIT = 16_384

const Received = Type.Object({ received: Type.Literal(true) })

/** The receivers of providers' notifications (contract, Inbound provider webhook receivers; decision 163). */
export function notificationOperations(notifications: Notifications): AnyOperation[] {
  return [receiver(notifications, 'primary', 'Primary'), receiver(notifications, 'alternate', 'Alternate')]
}

function receiver(notifications: Notifications, slot: ProviderSlot, word: string): AnyOperation {
  return defineOperation({
    id: `receive${word}Notification`,
    method: 'POST',
    path: `/api/webhooks/${slot}`,
    summary: `Take in a notification of the ${slot} provider; the state is then asked for`,
    description:
      'For the provider alone. What it says is never believed: the state is asked for, and a change is written once.',
    tag: 'Provider notifications',
    access: 'public',
    mount: { use: 'merchant-api', chain: 'receivers' },
    query: Type.Object({
      account: Type.Optional(
        Type.String({
          maxLength: 20,
          description:
            'Whose receiver it is, as it was registered; left out where the notification alone says whom it is about.'
        })
      ),
      token: Type.Optional(
        Type.String({
          maxLength: 100,
          description: "For providers without signatures: the secret in the receiver's URL."
        })
      )
    }),
    // The signature covers the bytes, whatever their media type.
    form: { mediaType: '*/*', schema: Type.String({ description: 'As the provider writes it.' }) },
    responses: {
      200: {
        description: 'Accepted, or ignored as unknown or duplicate.',
        schema: Received
      },
      400: 'It cannot be read.',
      401: 'It is not signed by the account that it is about.',
      404: 'The kind of provider in this place sends no notifications.',
      413: 'Larger than 16 KiB.',
      503: 'It cannot be written down at the moment: send it again.'
    },
    bodyLimit: BODY_LIMIT,
    handle: async ({ ctx, query }) => {
      notifications.requireReceiver(slot)
      await notifications.receive(slot, query, ctx.headers, await ctx.body.bytes())
      return { status: 200, body: { received: true } }
    }
  })
}
