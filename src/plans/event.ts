import { BillingError, type BillingEvent } from './provider.ts'

/**
 * What a notification of Stripe's form says, once its signature is good: of a subscription, of a checkout or an invoice
 * of one.
 * @throws BillingError `refused` for what has another form
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
    // Endpoints that were set up for an older version of the API are sent the older form.
    case 'invoice':
      return (
        idOf(record(record(object['parent'])['subscription_details'])['subscription']) ?? idOf(object['subscription'])
      )
    default:
      return null
  }
}

/** An id, or that of an object which stands in its place. */
function idOf(value: unknown): string | null {
  const id = typeof value === 'string' ? value : record(value)['id']
  // It becomes a part of an address and a row's key.
  return typeof id === 'string' && /^sub_[A-Za-z0-9_]{1,200}$/.test(id) ? id : null
}

function record(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
    ? (value as Record<string, unknown>) /* any object can be asked for its members */
    : {}
}
