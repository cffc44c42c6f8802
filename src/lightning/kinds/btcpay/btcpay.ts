import { LRUCache } from 'lru-cache'
import { Type } from 'typebox'
import { orNull, readResponse, Text } from '../../../engine/formats/response-schema.ts'
import { shortDescription } from '../../codecs/bolt11-encode.ts'
import { ProviderRefused, unusableResponse, requireResponse } from '../../provider-calls/errors.ts'
import type { KeyedKind } from '../../provider-calls/keyed-calls.ts'
import { btcOf, lightningCharge, nothingReceived } from '../../provider-calls/lightning-charge.ts'
import { isSigned, parseNotification, requireSubject } from '../../provider-calls/notifications.ts'
import { secondsToPay, unclear, type SentPayment } from '../../provider-calls/pay-once.ts'
import type { CallProvider } from '../../provider-calls/provider-call.ts'
import type { Charge, ChargeOrder, ChargeRequest, Provider } from '../../provider-calls/provider.ts'
import { goodKey, keyedProvider, KEY_CHECK, listPages } from '../../provider-calls/wallet-provider.ts'
import {
  btcpayError,
  BtcpayId,
  BtcpayInvoice,
  btcpayMessage,
  BtcpayMethod,
  BtcpayObject,
  BtcpayPage,
  BtcpayPayment,
  LIGHTNING
} from './responses.ts'
import { readBtcpayKey, type BtcpayKey } from './key.ts'
import { AT_NODE, isMissing, lookUpAtNode, newNodeInvoice, BTCPAY_SCOPES, storePath } from './store.ts'
import { addressKeyKind, type KindOptions } from '../kind.ts'

/** Milliseconds without invoices at a node that refused one. */
const UNHASHED = 600_000

const http: KeyedKind<BtcpayKey> = {
  kind: 'btcpay',
  server: 'BTCPay Server',
  read: readBtcpayKey,
  secretOf: ({ apiKey }) => apiKey,
  authorize: key => ({ authorization: `token ${key}` }),
  messageOf: btcpayMessage,
  meaningOf: ({ status, body }, scope) => {
    const { missingPermission, code } = btcpayError(body)
    const permission = status === 403 ? (missingPermission ?? scope) : null
    return permission === null || code === null
      ? null
      : new ProviderRefused('scope', `The BTCPay key lacks the permission ${permission}.`, permission)
  }
}

const PAGE = 100
const EVENTS = ['InvoiceSettled']

const BtcpayEvent = Type.Object({ type: orNull(Text), invoiceId: orNull(BtcpayId) })

/**
 * A BTCPay Server store over its Greenfield API. Each charge is a store invoice payable over Lightning only; its id is
 * BTCPay's. The store's Lightning node pays refunds where the key permits. It also makes the invoices with the hash of a
 * description, which store invoices cannot have.
 *
 * Known gaps; read in BTCPay's source at 2.4, never tried:
 * - invoices last whole minutes;
 * - settled invoices are listed by creation time, so a list goes back to the oldest awaited one;
 * - the node does not report when a payment ended: its start is used;
 * - node invoices fire no webhook and are in no list: they are only looked up.
 */
function open(options: KindOptions): Provider {
  const { clock } = options
  /** Whether a store's node makes invoices and shows them; for one that does not, the time of the next try. */
  const nodes = new LRUCache<string, 'works' | number>({ max: 1000 })
  return keyedProvider(http, options, {
    hostedCheckout: true,
    notifies: true,
    payout: { lightning: true, chain: false },
    createCharge: async (request, call, server) => {
      const { hashed } = request
      const now = clock.now()
      const place = `${server.origin} ${server.store}`
      const node = nodes.get(place) ?? now
      if (hashed === undefined || (node !== 'works' && node > now)) return await newInvoice(call, server, request)
      try {
        // A payment that cannot be looked up would be lost.
        if (node !== 'works') await lookUpAtNode(call, server, '0'.repeat(64), now)
        const charge = await newNodeInvoice(call, server, request, hashed.text)
        nodes.set(place, 'works')
        return charge
      } catch (error) {
        if (!(error instanceof ProviderRefused) || error.reason === 'key') throw error
        const charge = await newInvoice(call, server, request)
        nodes.set(place, now + UNHASHED)
        return charge
      }
    },
    isChargeId: text => /^(?:ln_)?[A-Za-z0-9]{1,64}$/.test(text),
    lookUp: async (chargeId, call, server) => {
      if (chargeId.startsWith(AT_NODE))
        return await lookUpAtNode(call, server, chargeId.slice(AT_NODE.length), clock.now())
      const path = `${storePath(server)}/invoices/${chargeId}`
      const response = await call({ method: 'GET', path, scope: BTCPAY_SCOPES.view, accepts: [404] })
      if (isMissing(response, 'invoice-not-found')) return null
      const { id, status } = requireResponse(BtcpayInvoice, response.body)
      if (id !== chargeId) throw unusableResponse('another invoice')
      if (status === 'unpaid' || status === 'expired') return nothingReceived(status)
      const { receivedSats, paidAt } = await methodOf(call, server, chargeId)
      // An invoice its owner marked as paid has no payments.
      return { status, receivedSats, settledAt: status === 'paid' ? (paidAt ?? clock.now()) : null }
    },
    /**
     * Settled invoices created since the oldest awaited one, newest first. A shifted page repeats entries, never skips.
     */
    listSettled: ({ since, oldest, position }, call, server) =>
      listPages(position, clock, 0, async (skip, asOf) => {
        const from = Math.floor(Math.min(since, oldest) / 1000)
        const query = `status=Settled&startDate=${from}&endDate=${Math.ceil(asOf / 1000)}&skip=${skip}&take=${PAGE}`
        const path = `${storePath(server)}/invoices?${query}`
        const page = requireResponse(BtcpayPage, (await call({ method: 'GET', path, scope: BTCPAY_SCOPES.view })).body)
        // Only the invoice says when it was paid.
        const charges = page.flatMap(invoice =>
          invoice?.status === 'paid' ? [{ chargeId: invoice.id, state: null }] : []
        )
        return { charges, next: page.length < PAGE ? null : skip + PAGE }
      }),
    subscribe: async (url, secret, call, server) => {
      const response = await call({
        method: 'POST',
        path: `${storePath(server)}/webhooks`,
        body: {
          url,
          secret: secret.reveal(),
          enabled: true,
          automaticRedelivery: true,
          authorizedEvents: { everything: false, specificEvents: EVENTS }
        },
        scope: BTCPAY_SCOPES.webhooks
      })
      return requireResponse(BtcpayObject, response.body).id
    },
    /** Signed with HMAC-SHA256 over the bytes, by the webhook's secret. */
    readNotification: (headers, body) => {
      const { type, invoiceId } = parseNotification(BtcpayEvent, body)
      if (type === null || !EVENTS.includes(type)) return null
      const [, signature = ''] = /^sha256=([0-9a-f]{64})$/i.exec(headers.get('btcpay-sig')?.trim() ?? '') ?? []
      return { chargeId: requireSubject(invoiceId, 'invoice'), verify: secret => isSigned(body, signature, secret) }
    },
    /** Makes an invoice, lists webhooks and looks up an unknown payment. */
    checkKey: async (call, server) => {
      const { network } = await newInvoice(call, server, KEY_CHECK)
      const hears = await isAllowed(() =>
        call({ method: 'GET', path: `${storePath(server)}/webhooks`, scope: BTCPAY_SCOPES.webhooks })
      )
      const pays = await isAllowed(() => paymentOf(call, server, '0'.repeat(64)))
      return goodKey(
        'BTCPay',
        network,
        pays ? null : `the permission ${BTCPAY_SCOPES.pay}`,
        hears ? [] : [`Payments are polled: to be notified of them it needs the permission ${BTCPAY_SCOPES.webhooks}.`]
      )
    },
    payments: {
      find: ({ paymentHash }, call, server) => paymentOf(call, server, paymentHash),
      send: async ({ invoice, paymentHash, isAmountless, amountSats, feeLimitSats }, call, server) => {
        // The node reads 0 as no limit.
        if (feeLimitSats === 0)
          throw new ProviderRefused('request', 'BTCPay cannot be asked to pay without a routing fee.')
        const { status, said, body } = await call({
          method: 'POST',
          path: `${storePath(server)}/lightning/BTC/invoices/pay`,
          body: {
            BOLT11: invoice,
            // The node takes this amount instead of the invoice's own.
            ...(isAmountless ? { amount: String(amountSats * 1000) } : {}),
            maxFeeFlat: String(feeLimitSats),
            sendTimeout: secondsToPay(options.timeout)
          },
          scope: BTCPAY_SCOPES.pay,
          accepts: [400, 404, 422]
        })
        if (status >= 400)
          // A proxy may answer this way too.
          return said === null
            ? unclear(`status ${status}`)
            : {
                outcome: 'refused',
                message: `BTCPay did not pay: ${said}`,
                isBefore: status !== 400 || btcpayError(body).code === 'could-not-find-route'
              }
        const payment = readResponse(BtcpayPayment, body)
        return payment?.payout.payoutId !== paymentHash || payment.payout.status === 'failed'
          ? unclear('no outcome of a payment')
          : { outcome: 'sent', payment }
      }
    }
  })
}

async function paymentOf(call: CallProvider, server: BtcpayKey, paymentHash: string): Promise<SentPayment | null> {
  const path = `${storePath(server)}/lightning/BTC/payments/${paymentHash}`
  const response = await call({ method: 'GET', path, scope: BTCPAY_SCOPES.pay, accepts: [404] })
  if (isMissing(response, 'payment-not-found')) return null
  const payment = requireResponse(BtcpayPayment, response.body)
  if (payment.payout.payoutId !== paymentHash) throw unusableResponse('a payment of another hash')
  return payment
}

async function newInvoice(
  call: CallProvider,
  server: BtcpayKey,
  { amountSats, description, expirySeconds, order }: ChargeRequest
): Promise<Charge> {
  const response = await call({
    method: 'POST',
    path: `${storePath(server)}/invoices`,
    body: {
      amount: btcOf(amountSats),
      currency: 'BTC',
      metadata: { itemDesc: shortDescription(description), ...orderFields(order) },
      checkout: {
        paymentMethods: [LIGHTNING],
        lazyPaymentMethods: false,
        paymentTolerance: 0,
        expirationMinutes: Math.max(1, Math.ceil(expirySeconds / 60)),
        ...(order?.successUrl === null || order === undefined ? {} : { redirectURL: order.successUrl })
      }
    },
    scope: BTCPAY_SCOPES.create,
    cost: 2
  })
  const created = requireResponse(BtcpayInvoice, response.body)
  const { invoice } = await methodOf(call, server, created.id, 0)
  if (invoice === null)
    throw new ProviderRefused(
      'request',
      'The BTCPay store gives no Lightning invoice; its Lightning node is down, or the store has no node.'
    )
  const charge = lightningCharge(invoice, null, amountSats)
  return { ...charge, chargeId: created.id, checkoutUrl: created.checkoutUrl }
}

function orderFields(order: ChargeOrder | undefined): Readonly<Record<string, unknown>> {
  if (order === undefined) return {}
  const { orderId, customerEmail, customerName, metadata } = order
  return {
    ...(metadata === null ? {} : { posData: metadata }),
    ...(customerEmail === null ? {} : { buyerEmail: customerEmail }),
    ...(customerName === null ? {} : { buyerName: customerName }),
    orderId
  }
}

async function methodOf(call: CallProvider, server: BtcpayKey, id: string, cost = 1): Promise<BtcpayMethod> {
  const path = `${storePath(server)}/invoices/${id}/payment-methods`
  return requireResponse(BtcpayMethod, (await call({ method: 'GET', path, scope: BTCPAY_SCOPES.view, cost })).body)
}

async function isAllowed(call: () => Promise<unknown>): Promise<boolean> {
  try {
    await call()
    return true
  } catch (error) {
    if (error instanceof ProviderRefused) return false
    throw error
  }
}

export const btcpay = addressKeyKind(readBtcpayKey, {
  name: 'btcpay',
  limits: { burst: 300, perMinute: 1_200 },
  polling: { perMinute: 60, costs: { list: 2, lookUp: 2 } },
  scopes: [
    { scope: 'btcpay.store.cancreateinvoice', purpose: 'Make invoices' },
    { scope: 'btcpay.store.canviewinvoices', purpose: 'See whether invoices were paid' },
    { scope: 'btcpay.store.webhooks.canmodifywebhooks', purpose: 'Be notified of payments' },
    { scope: 'btcpay.store.canuselightningnode', purpose: 'Refunds' },
    { scope: 'btcpay.store.cancreatelightninginvoice', purpose: 'Sell by x402' },
    { scope: 'btcpay.store.canviewlightninginvoice', purpose: 'See whether x402 payments arrived' }
  ],
  hashesDescriptions: 'shared',
  about: 'store of BTCPay Server',
  keyHint: 'btcpay+https://host/path?store=<store id>&key=<API key>',
  open
})
