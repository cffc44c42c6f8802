import { Type } from 'typebox'
import { orNull, part, readResponse, Text } from '../../../engine/formats/response-schema.ts'
import { shortDescription } from '../../codecs/bolt11-encode.ts'
import { headerKeyFault } from '../../provider-calls/address-key.ts'
import { NO_LIMIT } from '../../provider-calls/budgets.ts'
import { unusableResponse, Hash, requireResponse } from '../../provider-calls/errors.ts'
import { lightningCharge } from '../../provider-calls/lightning-charge.ts'
import { hasToken, parseNotification, receiverToken, requireSubject } from '../../provider-calls/notifications.ts'
import { unclear } from '../../provider-calls/pay-once.ts'
import type { CallProvider } from '../../provider-calls/provider-call.ts'
import type { Charge, ChargeRequest, Provider } from '../../provider-calls/provider.ts'
import { goodKey, KEY_CHECK, listPages, walletProvider } from '../../provider-calls/wallet-provider.ts'
import type { KindOptions, ProviderKind } from '../kind.ts'
import {
  askBlink,
  BLINK_LIVE,
  BlinkCalls,
  blinkRefusal,
  mutationRefusal,
  payloadOf,
  type BlinkOperation,
  type BlinkResult
} from './calls.ts'
import { CHARGE, CREATE, PAY, PAY_AMOUNT, PAYMENTS, KEY_SCOPES, ADD_ENDPOINT, TRANSACTIONS } from './documents.ts'
import {
  BlinkData,
  BlinkInvoice,
  readBlinkPage,
  readBlinkPayment,
  readBlinkState,
  type BlinkWallet
} from './responses.ts'

/** Minutes. Outside its range Blink silently uses four hours. */
const MOST_MINUTES = 1_440
const PAGE = 100
const BEFORE_SENDING = /^(INSUFFICIENT_BALANCE|CANT_PAY_SELF|INVOICE_DECODE_ERROR|INVALID_INPUT|ROUTE_FINDING_ERROR)$/

const BlinkEvent = Type.Object({
  eventType: orNull(Text),
  transaction: part({ initiationVia: part({ paymentHash: orNull(Hash) }) })
})

/**
 * Blink, a custodial wallet, over its GraphQL API. Charge ids are payment hashes (decision 116). Uses the account's
 * bitcoin wallet.
 *
 * Known gaps; read in Blink's public schema and source, never tried live:
 * - invoices last whole minutes, a day at most;
 * - payments take no fee limit; Blink caps fees itself;
 * - payments between Blink accounts stay internal and look like any other.
 */
function open(options: KindOptions): Provider {
  const { clock } = options
  return walletProvider('blink', new BlinkCalls(options), {
    // Pays under a wallet lock and refuses what its ledger lists as paid or pending.
    payout: { lightning: true, chain: false, once: true, mostFee: { sats: 10, percent: 0.5 } },
    createCharge: (request, call, walletId) => newInvoice(call, walletId, request),
    lookUp: async (paymentHash, call, walletId) => {
      const response = await askBlink(call, CHARGE, { walletId, paymentHash })
      if (response.errors.some(({ code }) => /NOT_FOUND/.test(code))) return null
      const state = readBlinkState(walletOf(response), clock.now())
      if (state === null) throw unusableResponse('an invoice without a status')
      return state
    },
    listSettled: ({ since, position }, call, walletId) =>
      listPages(position, clock, '', async cursor => {
        const after = cursor === '' ? null : cursor
        const page = readBlinkPage(walletOf(await askBlink(call, TRANSACTIONS, { walletId, first: PAGE, after })))
        if (page === null) throw unusableResponse('no list of transactions')
        const isOlder = page.oldest !== null && page.oldest < since
        return { charges: page.charges, next: isOlder ? null : page.next }
      }),
    /** Blink's signing secret is not disclosed, so the callback address carries a token. */
    subscribe: async (url, secret, call) => {
      const input = { url: `${url}${url.includes('?') ? '&' : '?'}token=${receiverToken(secret)}` }
      const payload = payloadOf(await askBlink(call, ADD_ENDPOINT, { input }), 'callbackEndpointAdd', ADD_ENDPOINT)
      return requireResponse(Type.Object({ id: Text }), payload).id
    },
    /**
     * Reads incoming payments only, over Lightning or from another Blink account. Callbacks are unsigned and need a key
     * that may also pay, so polling stays authoritative.
     */
    readNotification: (_headers, body, token) => {
      const { eventType, transaction } = parseNotification(BlinkEvent, body)
      if (!/^receive\.(lightning|intraledger)$/.test(eventType ?? '')) return null
      const chargeId = requireSubject(transaction?.initiationVia?.paymentHash ?? null, 'payment')
      return { chargeId, verify: secret => hasToken(token, secret) }
    },
    checkKey: async (call, walletId) => {
      const { network } = await newInvoice(call, walletId, KEY_CHECK)
      const scopes = readResponse(BlinkData, (await askBlink(call, KEY_SCOPES)).data)?.authorization?.scopes
      return goodKey('Blink', network, scopes?.includes(PAY.scope) === true ? null : `the scope ${PAY.scope}`)
    },
    payments: {
      find: async ({ paymentHash }, call, walletId) =>
        readBlinkPayment(walletOf(await askBlink(call, PAYMENTS, { walletId, paymentHash })), paymentHash),
      send: async ({ invoice, isAmountless, amountSats }, call, walletId) => {
        const [operation, field]: readonly [BlinkOperation, string] = isAmountless
          ? [PAY_AMOUNT, 'lnNoAmountInvoicePaymentSend']
          : [PAY, 'lnInvoicePaymentSend']
        const input = { walletId, paymentRequest: invoice, ...(isAmountless ? { amount: amountSats } : {}) }
        const refused = mutationRefusal(await askBlink(call, operation, { input }), field, operation.scope)
        // The transaction has fee and time.
        return refused === null
          ? unclear('a payment that is not in the list yet')
          : {
              outcome: 'refused',
              message: `Blink did not pay: ${refused.message}`,
              isBefore: BEFORE_SENDING.test(refused.code)
            }
      }
    }
  })
}

async function newInvoice(
  call: CallProvider,
  walletId: string,
  { amountSats, description, expirySeconds }: ChargeRequest
): Promise<Charge> {
  const input = {
    walletId,
    amount: amountSats,
    memo: shortDescription(description),
    expiresIn: Math.min(Math.max(1, Math.ceil(expirySeconds / 60)), MOST_MINUTES)
  }
  const payload = payloadOf(await askBlink(call, CREATE, { input }), 'lnInvoiceCreate', CREATE)
  const { invoice } = requireResponse(BlinkInvoice, payload)
  return lightningCharge(invoice.paymentRequest, invoice.paymentHash, amountSats)
}

/** @throws ProviderRefused with Blink's reason, ProviderUnavailable without one */
function walletOf({ data, errors: [error] }: BlinkResult): BlinkWallet {
  const wallet = readResponse(BlinkData, data)?.me?.defaultAccount?.walletById
  if (wallet !== null && wallet !== undefined) return wallet
  throw error === undefined ? unusableResponse('no wallet') : blinkRefusal(error)
}

/** Blink allows 60 invoices a minute per account and blocks it for five minutes beyond. */
export const blink: ProviderKind = {
  name: 'blink',
  isSandbox: false,
  calls: {
    address: BLINK_LIVE,
    counted: 'key',
    limits: (url, perMinute) => {
      if (perMinute !== null) return { ofAddress: {}, ofAccount: { burst: perMinute, perMinute } }
      const isTheirs = url === null || /(^|\.)blink\.sv$/.test(new URL(url).hostname)
      // No more than 55 in any minute, together.
      return { ofAddress: {}, ofAccount: isTheirs ? { burst: 15, perMinute: 40 } : NO_LIMIT }
    },
    polling: () => ({ perMinute: 12, isShared: false, costs: { list: 1, lookUp: 1 } })
  },
  scopes: [
    { scope: 'READ', purpose: 'See whether invoices were paid' },
    { scope: 'RECEIVE', purpose: 'Make invoices' },
    { scope: 'WRITE', purpose: 'Refunds, and to be notified when one is paid' }
  ],
  about: 'account at Blink',
  keyHint: 'An API key such as blink_…, from dashboard.blink.sv, API Keys.',
  keyFault: headerKeyFault,
  open
}
