import { Type } from 'typebox'
import { jsonOrUndefined } from '../../../platform/system/json.ts'
import { orNull, readResponse } from '../../../engine/formats/response-schema.ts'
import { Secret } from '../../../platform/keys/secrets.ts'
import { shortDescription } from '../../codecs/bolt11-encode.ts'
import { keyOrNull, readAddressKey, requireVisible, type AddressKeyForm } from '../../provider-calls/address-key.ts'
import { ProviderRefused, unusableResponse, Hash, requireResponse } from '../../provider-calls/errors.ts'
import type { KeyedKind, KeyedServer } from '../../provider-calls/keyed-calls.ts'
import { lightningCharge, agreedNetwork } from '../../provider-calls/lightning-charge.ts'
import { isSigned, parseNotification, requireSubject } from '../../provider-calls/notifications.ts'
import { sentPayment, unclear } from '../../provider-calls/pay-once.ts'
import type { CallProvider, ProviderResponse } from '../../provider-calls/provider-call.ts'
import type { Charge, ChargeRequest, Provider } from '../../provider-calls/provider.ts'
import { goodKey, keyedProvider, KEY_CHECK, listPages } from '../../provider-calls/wallet-provider.ts'
import { addressKeyKind, type KindOptions } from '../kind.ts'
import {
  PhoenixdIncoming,
  PhoenixdInfo,
  PhoenixdInvoice,
  PhoenixdPage,
  readOutgoing,
  readPayResponse
} from './responses.ts'

const http: KeyedKind<PhoenixdKey> = {
  kind: 'phoenixd',
  server: 'phoenixd',
  read: readPhoenixdKey,
  secretOf: ({ password }) => password,
  // Any user name works.
  authorize: password => ({ authorization: `Basic ${Buffer.from(`:${password}`).toString('base64')}` }),
  messageOf: body => (typeof body === 'string' ? body : null),
  hasTexts: true,
  meaningOf: ({ status }, scope) =>
    status !== 401
      ? null
      : scope === null
        ? new ProviderRefused(
            'key',
            `phoenixd does not accept the password in the key: take http-password-limited-access of its phoenix.conf, or ${FULL_PASSWORD}, which refunds need.`
          )
        : new ProviderRefused(
            'scope',
            `The phoenixd key has the password with limited access, which cannot pay: refunds need ${scope}.`,
            scope
          )
}

const FULL_PASSWORD = 'http-password'
/** An earlier call verified the password. */
const PAY = { method: 'POST', path: '/payinvoice', scope: FULL_PASSWORD, accepts: [400] } as const
const MAX_DESCRIPTION = 128
const PAGE = 100
const BEFORE_SENDING = /not enough funds|no (available|suitable) channels?|invoice (is|has) expired|wrong chain/i

const PhoenixdEvent = Type.Object({ type: Type.Unknown(), paymentHash: orNull(Hash) })

/**
 * phoenixd, ACINQ's server node, over HTTP. The key is its address with its password; charge ids are payment hashes
 * (decision 116). The limited password receives; refunds need the full one.
 *
 * Known gaps; read in phoenixd's source at 0.8, never tried:
 * - payments take no fee limit; its price is 4 sat and 0.4 %;
 * - an invoice stays unpaid, without a reason, if its payment needs a channel that costs more than the owner allows;
 * - on-chain payments carry no reference to find them by, so there are none.
 */
function open(options: KindOptions): Provider {
  const { clock } = options
  return keyedProvider(http, options, {
    // Checks its database first and refuses a paid or pending hash.
    payout: { lightning: true, chain: false, once: true, mostFee: { sats: 4, percent: 0.4 } },
    createCharge: (request, call, { webhookSecret }) =>
      newInvoice(call, request, webhookSecret === null ? null : options.receiver()),
    lookUp: async (chargeId, call) => {
      const response = await call({ method: 'GET', path: `/payments/incoming/${chargeId}`, accepts: [404] })
      if (isUnknown(response)) return null
      const payment = requireResponse(PhoenixdIncoming, response.body)
      if (payment.paymentHash !== chargeId) throw unusableResponse('a payment of another hash')
      return payment.state
    },
    /** Payments by time of receipt, newest first. The range is fixed: newer payments would shift its pages. */
    listSettled: ({ since, position }, call) =>
      listPages(position, clock, { from: since, offset: 0 }, async ({ from, offset }, to) => {
        const path = `/payments/incoming?from=${from}&to=${to}&limit=${PAGE}&offset=${offset}`
        const page = requireResponse(PhoenixdPage, (await call({ method: 'GET', path })).body)
        const charges = page.flatMap(payment =>
          payment?.state.status === 'paid' ? [{ chargeId: payment.paymentHash, state: payment.state }] : []
        )
        return { charges, next: page.length < PAGE ? null : { from, offset: offset + PAGE } }
      }),
    /** phoenixd's WebSocket, with its webhook's events. Their amounts are after fees, so each is looked up. */
    follow: ({ messages }, settled) =>
      messages('/websocket', text => {
        const event = readResponse(PhoenixdEvent, jsonOrUndefined(text))
        const chargeId = event?.paymentHash ?? null
        if (event?.type === 'payment_received' && chargeId !== null) settled({ chargeId, state: null })
      }),
    /**
     * Signed with HMAC-SHA256 over the bytes by phoenixd's webhook secret, held in the key. Sent once, so polling stays
     * authoritative.
     */
    readNotification: (headers, body) => {
      const { type, paymentHash } = parseNotification(PhoenixdEvent, body)
      if (type !== 'payment_received') return null
      const signature = headers.get('x-phoenix-signature')?.trim() ?? ''
      return {
        chargeId: requireSubject(paymentHash, 'payment'),
        verify: key => {
          const secret = keyOrNull(key, 'phoenixd', readPhoenixdKey)?.webhookSecret ?? null
          return secret !== null && isSigned(body, signature, secret)
        }
      }
    },
    /** Reads the node's info, makes an invoice, and tries an empty payment. */
    checkKey: async call => {
      const info = requireResponse(PhoenixdInfo, (await call({ method: 'GET', path: '/getinfo' })).body)
      const { network } = await newInvoice(call, KEY_CHECK, null)
      const lacksPaying = await call({ ...PAY, form: {} }).then(
        () => false,
        (error: unknown) => {
          if (error instanceof ProviderRefused && error.reason === 'scope') return true
          throw error
        }
      )
      return goodKey(
        'phoenixd',
        agreedNetwork(info.chain, network),
        lacksPaying ? `the password with full access, ${FULL_PASSWORD}` : null,
        info.channels === null || info.channels.length === 0
          ? ['It has no channel yet: its first payments pay for one, or stay as fee credit, which cannot be paid out.']
          : []
      )
    },
    payments: {
      find: async ({ paymentHash }, call) => {
        const response = await call({ method: 'GET', path: `/payments/outgoingbyhash/${paymentHash}`, accepts: [404] })
        if (isUnknown(response)) return null
        const payment = readOutgoing(response.body, paymentHash)
        if (payment === null) throw unusableResponse('a payment without hash or state')
        return payment
      },
      send: async ({ invoice, paymentHash, isAmountless, amountSats }, call) => {
        // It takes this amount instead of the invoice's own.
        const response = await call({
          ...PAY,
          form: { invoice, ...(isAmountless ? { amountSat: String(amountSats) } : {}) }
        })
        if (response.status === 400)
          return { outcome: 'refused', message: refusal(response.said ?? 'a bad request'), isBefore: true }
        const paid = readPayResponse(response.body, paymentHash)
        if (paid === null) return unclear('no outcome of a payment')
        if ('failure' in paid)
          return { outcome: 'refused', message: refusal(paid.failure), isBefore: BEFORE_SENDING.test(paid.failure) }
        return {
          outcome: 'sent',
          payment: sentPayment(paid.payoutId, 'confirmed', paid.feeSats, clock.now(), 'phoenixd')
        }
      }
    }
  })
}

function refusal(said: string): string {
  return `phoenixd did not pay: ${shortDescription(said.replace(/[\p{C}\p{Z}]+/gu, ' ').trim(), 200)}`
}

async function newInvoice(
  call: CallProvider,
  { amountSats, description, expirySeconds, hashed }: ChargeRequest,
  webhookUrl: string | null
): Promise<Charge> {
  const response = await call({
    method: 'POST',
    path: '/createinvoice',
    form: {
      amountSat: String(amountSats),
      ...(hashed === undefined
        ? { description: shortDescription(description, MAX_DESCRIPTION) }
        : { descriptionHash: hashed.hash }),
      expirySeconds: String(expirySeconds),
      ...(webhookUrl === null ? {} : { webhookUrl })
    }
  })
  const { serialized, paymentHash } = requireResponse(PhoenixdInvoice, response.body)
  return lightningCharge(serialized, paymentHash, amountSats)
}

/**
 * Whether phoenixd reports an unknown payment.
 * @throws ProviderUnavailable for another 404
 */
function isUnknown({ status, body }: ProviderResponse): boolean {
  if (status !== 404) return false
  if (typeof body === 'string' && /^not found\s*$/i.test(body)) return true
  throw unusableResponse('status 404 of something else')
}

interface PhoenixdKey extends KeyedServer {
  /** `http-password`, or the limited one. */
  readonly password: Secret<string>
  /** phoenixd's `webhook-secret`, which signs webhooks; null where absent. */
  readonly webhookSecret: Secret<string> | null
}

const form: AddressKeyForm<'password' | 'webhook'> = {
  kind: 'phoenixd',
  example: 'phoenixd://host:port?password=<http-password>&webhook=<webhook-secret>',
  // phoenixd has no TLS; a proxy may.
  schemes: { phoenixd: 'http:', 'phoenixd+http': 'http:', 'phoenixd+https': 'https:' },
  hasPath: true,
  needsPort: true,
  required: ['password'],
  optional: ['webhook']
}

/**
 * Reads `phoenixd://host:port?password=…&webhook=…`, or `phoenixd+https://…` behind TLS; `webhook` is optional.
 * @throws AddressKeyError
 */
export function readPhoenixdKey(text: string): PhoenixdKey {
  const { origin, base, parameters } = readAddressKey(text, form)
  const { password = '', webhook } = parameters
  return {
    origin,
    base,
    password: new Secret(requireVisible(password, 'password', 'phoenixd')),
    webhookSecret: webhook === undefined ? null : new Secret(requireVisible(webhook, 'webhook', 'phoenixd'))
  }
}

/** phoenixd has no limits: ours spare it and our database. */
export const phoenixd = addressKeyKind(readPhoenixdKey, {
  name: 'phoenixd',
  hashesDescriptions: 'own',
  limits: { burst: 500, perMinute: 6_000 },
  polling: { perMinute: 60, costs: { list: 2, lookUp: 1 } },
  scopes: [
    { scope: 'http-password-limited-access', purpose: 'Make invoices, and see whether they were paid' },
    { scope: 'http-password', purpose: 'Refunds; it may do the other things too' }
  ],
  about: 'your phoenixd',
  keyHint: form.example,
  open
})
