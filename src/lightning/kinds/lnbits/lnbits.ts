import { Type } from 'typebox'
import { LRUCache } from 'lru-cache'
import { fitting, orNull, readResponse } from '../../../engine/formats/response-schema.ts'
import { Secret } from '../../../platform/keys/secrets.ts'
import { shortDescription } from '../../codecs/bolt11-encode.ts'
import { AddressKeyError, keyOrNull, readAddressKey, type AddressKeyForm } from '../../provider-calls/address-key.ts'
import { ProviderRefused, unusableResponse, Hash, requireResponse } from '../../provider-calls/errors.ts'
import type { KeyedKind, KeyedServer } from '../../provider-calls/keyed-calls.ts'
import { lightningCharge } from '../../provider-calls/lightning-charge.ts'
import { hasToken, parseNotification, receiverToken, requireSubject } from '../../provider-calls/notifications.ts'
import { unclear } from '../../provider-calls/pay-once.ts'
import type { CallProvider, ProviderResponse } from '../../provider-calls/provider-call.ts'
import type { Charge, ChargeRequest, Provider } from '../../provider-calls/provider.ts'
import { goodKey, keyedProvider, KEY_CHECK, listPages } from '../../provider-calls/wallet-provider.ts'
import { addressKeyKind, type KindOptions } from '../kind.ts'
import {
  LnbitsLookUp,
  lnbitsMessage,
  LnbitsPage,
  LnbitsPayment,
  lnbitsPayout,
  lnbitsState,
  LnbitsWallet
} from './responses.ts'

const ADMIN_KEY = 'Admin key'

const http: KeyedKind<LnbitsKey> = {
  kind: 'lnbits',
  server: 'LNbits',
  read: readLnbitsKey,
  secretOf: ({ apiKey }) => apiKey,
  authorize: key => ({ 'x-api-key': key }),
  messageOf: lnbitsMessage,
  // LNbits returns 520 for every invoice and payment it refuses.
  refusals: [520],
  meaningOf
}

const PAGE = 100
/** Milliseconds without webhooks after an LNbits refused our receiver's address. */
const UNHEARD = 3_600_000
const BEFORE_SENDING =
  /you must reserve|insufficient balance|amountless invoices|invalid bolt11|bolt11|expired|not allowed|too (?:low|high|small|large)/i

/**
 * One wallet of an LNbits instance. The key is its address with the invoice key, or the admin key for refunds; charge
 * ids are payment hashes (decision 116).
 *
 * Known gaps; tried at 1.6:
 * - LNbits discloses a paid invoice's preimage to anyone with its hash, so credentials also need the challenge;
 * - an invoice paid while LNbits was down and expired since stays failed there;
 * - only invoices show the instance's network;
 * - payments take no fee limit, reserve 1 %, and need an invoice with an amount.
 */
function open(options: KindOptions): Provider {
  const { clock } = options
  /** Origins that refuse our receiver, with the time of the next try. */
  const unheard = new LRUCache<string, number>({ max: 1000 })
  return keyedProvider(http, options, {
    // Refuses a hash it has a payment for, whatever its outcome.
    payout: { lightning: true, chain: false, once: true, mostFee: { sats: 2, percent: 1 } },
    createCharge: async (request, call, { origin, apiKey }) => {
      const receiver = (unheard.get(origin) ?? 0) > clock.now() ? null : options.receiver()
      if (receiver === null) return await newInvoice(call, request, null)
      try {
        return await newInvoice(call, request, `${receiver}?token=${receiverToken(apiKey)}`)
      } catch (error) {
        if (!(error instanceof ProviderRefused && /callback url/i.test(error.message))) throw error
        unheard.set(origin, clock.now() + UNHEARD)
        return await newInvoice(call, request, null)
      }
    },
    lookUp: async (chargeId, call) => {
      const payment = await paymentOf(call, chargeId, 'in')
      return payment === null ? null : lnbitsState(payment)
    },
    /** Incoming payments by last change, newest first. A shifted page repeats entries, never skips. */
    listSettled: ({ since, position }, call) =>
      listPages(position, clock, 0, async offset => {
        const page = await pageOf(
          call,
          `limit=${PAGE}&offset=${offset}&sortby=updated_at&direction=desc&status=success&amount%5Bgt%5D=0`
        )
        const payments = fitting(page)
        const charges = payments
          // Versions silently ignore filters they do not know.
          .filter(({ amountMsat, status }) => amountMsat > 0 && status === 'success')
          .filter(({ updatedAt }) => (updatedAt ?? Infinity) >= since)
          .map(payment => ({ chargeId: payment.paymentHash, state: lnbitsState(payment) }))
        const isOlder = payments.some(({ updatedAt }) => updatedAt !== null && updatedAt < since)
        return { charges, next: page.length < PAGE || isOlder ? null : offset + PAGE }
      }),
    /**
     * Unsigned: the callback address holds a token that names the payment. Sent once or twice, so polling stays
     * authoritative.
     */
    readNotification: (_headers, body, token) => {
      const event = parseNotification(Type.Object({ payment_hash: orNull(Hash) }), body)
      return {
        chargeId: requireSubject(event.payment_hash, 'payment'),
        verify: key => {
          const server = keyOrNull(key, 'lnbits', readLnbitsKey)
          return server !== null && hasToken(token, server.apiKey)
        }
      }
    },
    checkKey: async call => {
      const { id } = requireResponse(LnbitsWallet, (await call({ method: 'GET', path: '/api/v1/wallet' })).body)
      const { network } = await newInvoice(call, KEY_CHECK, null)
      return goodKey('LNbits', network, id !== null ? null : `the ${ADMIN_KEY} of the wallet`)
    },
    payments: {
      find: async ({ paymentHash }, call) => {
        const payment = await paymentOf(call, paymentHash, 'out')
        return payment === null ? null : lnbitsPayout(payment)
      },
      send: async ({ invoice, paymentHash, isAmountless }, call) => {
        if (isAmountless)
          throw new ProviderRefused(
            'request',
            'LNbits pays no Lightning invoice without an amount; ask the payer for one with an amount.'
          )
        const { status, said, body } = await call({
          method: 'POST',
          path: '/api/v1/payments',
          body: { out: true, bolt11: invoice },
          scope: ADMIN_KEY,
          accepts: [400, 520]
        })
        if (status >= 400)
          // A proxy may answer this way too.
          return said === null
            ? unclear(`status ${status}`)
            : {
                outcome: 'refused',
                message: `LNbits did not pay: ${said}`,
                isBefore: status === 400 || BEFORE_SENDING.test(said)
              }
        const payment = readResponse(LnbitsPayment, body)
        if (payment?.paymentHash !== paymentHash || payment.amountMsat >= 0) return unclear('no outcome of a payment')
        return payment.status === 'failed'
          ? { outcome: 'refused', message: 'LNbits could not pay the Lightning invoice.', isBefore: false }
          : { outcome: 'sent', payment: lnbitsPayout(payment) }
      }
    }
  })
}

/** LNbits returns 404 for an unknown key and 403 for one that may not pay. */
function meaningOf({ status, said }: ProviderResponse): ProviderRefused | null {
  if (status === 404 && said !== null && /wallet not found/i.test(said))
    return new ProviderRefused(
      'key',
      `LNbits knows no wallet with this key: take the invoice key of one, or its ${ADMIN_KEY} if it is to refund.`
    )
  if (status === 403 && said !== null)
    return new ProviderRefused(
      'scope',
      `The key is an invoice key, which only receives: refunds need the ${ADMIN_KEY} of the wallet.`,
      ADMIN_KEY
    )
  return null
}

async function newInvoice(
  call: CallProvider,
  { amountSats, description, expirySeconds, hashed }: ChargeRequest,
  webhook: string | null
): Promise<Charge> {
  const response = await call({
    method: 'POST',
    path: '/api/v1/payments',
    body: {
      out: false,
      amount: amountSats,
      unit: 'sat',
      // Over Core Lightning it takes no hash without the text.
      ...(hashed === undefined
        ? { memo: shortDescription(description) }
        : { unhashed_description: Buffer.from(hashed.text).toString('hex') }),
      expiry: expirySeconds,
      ...(webhook === null ? {} : { webhook })
    }
  })
  const created = requireResponse(LnbitsPayment, response.body)
  if (created.invoice === null) throw unusableResponse('no invoice in the response')
  return lightningCharge(created.invoice, created.paymentHash, amountSats)
}

async function paymentOf(call: CallProvider, paymentHash: string, way: 'in' | 'out'): Promise<LnbitsPayment | null> {
  const response = await call({ method: 'GET', path: `/api/v1/payments/${paymentHash}`, accepts: [404] })
  if (response.status === 404) {
    if (response.said !== null && /does not exist/i.test(response.said)) return null
    throw unusableResponse('status 404 of something else')
  }
  const found = requireResponse(LnbitsLookUp, response.body)
  if (found === 'keyless') throw new ProviderRefused('key', 'LNbits no longer knows the key.')
  if (found.paymentHash !== paymentHash) throw unusableResponse('a payment of another hash')
  const isWanted = (payment: LnbitsPayment): boolean => payment.amountMsat > 0 === (way === 'in')
  if (isWanted(found)) return found
  // A wallet that pays its own invoice has both and returns the outgoing one.
  if (way === 'out') return null
  const page = await pageOf(call, `limit=10&payment_hash=${paymentHash}`)
  return page.find(payment => payment?.paymentHash === paymentHash && isWanted(payment)) ?? null
}

async function pageOf(call: CallProvider, query: string): Promise<ReadonlyArray<LnbitsPayment | null>> {
  const { body } = await call({ method: 'GET', path: `/api/v1/payments/paginated?${query}` })
  return requireResponse(LnbitsPage, body).data
}

interface LnbitsKey extends KeyedServer {
  /** The wallet's invoice or admin key: 32 hex characters. */
  readonly apiKey: Secret<string>
}

const form: AddressKeyForm<'key'> = {
  kind: 'lnbits',
  example: 'lnbits+https://host/path?key=<invoice or admin key>',
  schemes: { 'lnbits+https': 'https:', 'lnbits+http': 'http:' },
  hasPath: true,
  needsPort: false,
  required: ['key'],
  optional: []
}

/**
 * Reads `lnbits+https://host/path?key=…`, or `lnbits+http://…` without TLS.
 * @throws AddressKeyError
 */
export function readLnbitsKey(text: string): LnbitsKey {
  const { origin, base, parameters } = readAddressKey(text, form)
  const { key = '' } = parameters
  if (!/^[0-9a-f]{32}$/i.test(key))
    throw new AddressKeyError(
      'key in the lnbits key is not 32 hex characters; it must be the invoice key or the admin key of the wallet.'
    )
  return { origin, base, apiKey: new Secret(key) }
}

/** By default an instance takes 200 calls a minute from one address. */
export const lnbits = addressKeyKind(readLnbitsKey, {
  name: 'lnbits',
  limits: { burst: 40, perMinute: 150 },
  polling: { perMinute: 30, costs: { list: 1, lookUp: 1 } },
  scopes: [
    { scope: 'Invoice/read key', purpose: 'Make invoices, and see whether they were paid' },
    { scope: 'Admin key', purpose: 'Refunds; it may do the other things too' }
  ],
  wantsAmounts: true,
  hashesDescriptions: 'shared',
  about: 'wallet of LNbits',
  keyHint: form.example,
  open
})
