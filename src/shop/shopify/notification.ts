import { createHmac } from 'node:crypto'
import { equalBytes } from '../../platform/keys/constant-time.ts'
import { StorePlatformError, type Fulfilment, type StoreAccess } from '../platform.ts'
import { readFulfilmentNotification, readOrderNotification } from './fulfilment.ts'
import { ShopifyValue } from './reader.ts'

const SIGNATURE = /^[A-Za-z0-9+/]{43}=$/

/**
 * Reads a Shopify webhook about an order; null for other topics. The signature is the base64 HMAC-SHA256 of the raw
 * body under the app's client secret. It does not cover headers: the shop's name is compared with the store's, and the
 * body's shape tells the topics apart.
 * @throws StorePlatformError `credentials` for an invalid signature, `refused` for an unreadable body
 */
export function readShopifyNotification(
  store: StoreAccess,
  headers: ReadonlyMap<string, string>,
  body: Uint8Array
): Fulfilment | null {
  if (store.clientSecret === null)
    throw new StorePlatformError(
      'credentials',
      'This store has no client secret, so that its notifications cannot be checked.'
    )
  const given = headers.get('x-shopify-hmac-sha256') ?? ''
  const expected = createHmac('sha256', store.clientSecret.reveal()).update(body).digest()
  if (!SIGNATURE.test(given) || !equalBytes(Buffer.from(given, 'base64'), expected))
    throw new StorePlatformError('credentials', 'The signature of the notification is not good.')
  if (headers.get('x-shopify-shop-domain')?.toLowerCase() !== store.domain)
    throw new StorePlatformError('credentials', 'The notification is one of another store.')
  const topic = headers.get('x-shopify-topic')?.toLowerCase() ?? ''
  if (topic.startsWith('orders/')) return read(body, readOrderNotification)
  if (topic.startsWith('fulfillments/')) return read(body, readFulfilmentNotification)
  return null
}

function read(body: Uint8Array, reading: (answer: ShopifyValue) => Fulfilment): Fulfilment {
  try {
    return reading(new ShopifyValue(JSON.parse(Buffer.from(body).toString('utf8')), 'notification'))
  } catch (error) {
    if (error instanceof SyntaxError) throw new StorePlatformError('refused', 'The notification is no JSON.')
    if (error instanceof StorePlatformError)
      throw new StorePlatformError('refused', 'The notification cannot be read.', { cause: error })
    throw error
  }
}
