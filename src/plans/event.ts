import { BillingError, type BillingEvent } from './provider.ts'

/**
 * Reads a Stripe event after its signature was verified: about a subscription, or a checkout or invoice of one.
 * @throws BillingError `refused` for any other form
 */
export function readEvent(event: unknown): BillingEvent {
  const { id, type, data } = record(event)
  if (typeof id !== 'string' || typeof type !== 'string')
    throw new BillingError('refused', 'The notification has no id or no type.')
  const object = record(record(data)['object'])
  return { id, type, subscriptionId: subscriptionOf(object) }
}

function subscriptionOf(object: Readonly<Record<string, unknown>>): string | null {
  switch (object['object']) {
    case 'subscription':
      return idOf(object['id'])
    case 'checkout.session':
      return idOf(object['subscription'])
    // Endpoints set up for an older API version receive the older form.
    case 'invoice':
      return (
        idOf(record(record(object['parent'])['subscription_details'])['subscription']) ?? idOf(object['subscription'])
      )
    default:
      return null
  }
}

/** An id, or the id of an expanded object. */
function idOf(value: unknown): string | null {
  const id = typeof value === 'string' ? value : record(value)['id']
  // It becomes part of a URL and a row's key.
  return typeof id === 'string' && /^sub_[A-Za-z0-9_]{1,200}$/.test(id) ? id : null
}

function record(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
    ? (value as Record<string, unknown>) /* any object can be asked for its members */
    : {}
}
