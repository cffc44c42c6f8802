import { Type } from 'typebox'
import { fitting, orNull, readResponse } from '../../../engine/formats/response-schema.ts'
import type { InvoiceNetwork } from '../../codecs/bolt11.ts'
import { shortDescription } from '../../codecs/bolt11-encode.ts'
import { headerKeyFault } from '../../provider-calls/address-key.ts'
import { noBudget, NO_LIMIT } from '../../provider-calls/budgets.ts'
import {
  requireResponse,
  PayoutUncertain,
  ProviderNotificationError,
  ProviderRefused,
  ProviderUnavailable,
  unusableResponse
} from '../../provider-calls/errors.ts'
import { lightningCharge } from '../../provider-calls/lightning-charge.ts'
import { isSigned } from '../../provider-calls/notifications.ts'
import { payable, unproven } from '../../provider-calls/pay-once.ts'
import {
  ProviderHttp,
  type CallProvider,
  type ProviderCall,
  type ProviderResponse
} from '../../provider-calls/provider-call.ts'
import type {
  Charge,
  ChargeOrder,
  ChargeRequest,
  KeyVerdict,
  Payout,
  PayoutRequest,
  Provider
} from '../../provider-calls/provider.ts'
import { walletProvider } from '../../provider-calls/wallet-provider.ts'
import type { KindOptions, ProviderKind } from '../kind.ts'
import { OpenNodeCharge, openNodeErrorMessage, OpenNodeWithdrawal, unwrap } from './responses.ts'

const OPENNODE_LIVE = 'https://api.opennode.com'

type Permission = 'Read' | 'Invoices' | 'Withdrawals'

/** Satoshis above which charges have no Lightning invoice. */
const LARGEST_CHARGE = 500_000_000
// Sources also name 4320; both agree on this range.
const SHORTEST_TTL = 10
const LONGEST_TTL = 1440
/** Milliseconds after which unconfirmed transactions have left mempools; older charges without a time are skipped. */
const LONGEST_CONFIRMATION = 14 * 24 * 3_600_000
const NOT_SHOWN =
  'OpenNode does not show whether the refund was sent, so it stays pending. Look for it among the withdrawals in the OpenNode dashboard.'
/** A list of this length may be truncated. */
const FULL_LIST = 100
/** Seconds; a person must look anyway. */
const ASK_LATER = 60

/**
 * OpenNode: charges in satoshis or fiat that it converts, over Lightning and on chain, with its own checkout page.
 * Formats follow its reference and client library.
 *
 * Known gaps, none checked against the live service:
 * - Refunds are withdrawals, also of on-chain payments (decision 63). `/v1/refunds`, which returns an underpayment less
 *   a fee, is unused; whether an underpayment can be withdrawn before settlement is undocumented.
 * - `custom_id` carries our reference; uniqueness, search and listing are undocumented. After a lost response, `GET
 *   /v1/withdrawals` is searched; what is not found stays pending for a person.
 * - A missing permission gives 403, or 401 with a message about permissions; both are understood.
 * - `/v1/charges` and `/v1/withdrawals` have no documented pages or order.
 */
function open({ url, timeout, clock, budget = noBudget('opennode', clock), receiver }: KindOptions): Provider {
  const http = new ProviderHttp({
    // The test network is `https://dev-api.opennode.com`. A trailing `/v1` is optional.
    url: (url ?? OPENNODE_LIVE).replace(/\/v[12]\/?$/, ''),
    timeout,
    clock,
    budget,
    authorize: key => ({ authorization: key }),
    messageOf: openNodeErrorMessage
  })
  const create = async (
    call: CallProvider,
    price: { readonly amount: number; readonly currency?: string },
    request: Omit<ChargeRequest, 'amountSats'>,
    amountSats: number | null
  ): Promise<Charge> => {
    const callback = receiver()
    const response = await ask(call, 'Invoices', {
      method: 'POST',
      path: '/v1/charges',
      body: {
        ...price,
        description: shortDescription(request.description),
        ttl: ttlMinutes(request.expirySeconds),
        ...orderFields(request.order),
        ...(callback === null ? {} : { callback_url: callback })
      }
    })
    return chargeOf(requireResponse(OpenNodeCharge, unwrap(response.body)), amountSats)
  }
  return walletProvider('opennode', http, {
    onchain: true,
    hostedCheckout: true,
    notifies: true,
    payout: { lightning: true, chain: true, mostFee: { sats: 10, percent: 1 } },
    createCharge: async (request, call) => {
      const { amountSats } = request
      if (amountSats > LARGEST_CHARGE) throw tooLarge()
      return await create(call, { amount: amountSats }, request, amountSats)
    },
    createFiatCharge: ({ amount, currency, ...request }, call) =>
      // At most two decimals and nine digits before them (decision 46): JSON writes such numbers exactly.
      create(call, { amount: Number(amount), currency }, request, null),
    isChargeId: () => true,
    lookUp: async (chargeId, call) => {
      const path = `/v1/charge/${encodeURIComponent(chargeId)}`
      const response = await ask(call, 'Read', { method: 'GET', path, accepts: [404] })
      if (response.status === 404) return null
      const { state } = requireResponse(OpenNodeCharge, unwrap(response.body))
      if (state === null) throw unusableResponse('a charge without a known status')
      return state
    },
    payouts: {
      /** A withdrawal, Lightning or on chain. Accepted immediately, sent later; no idempotency is documented. */
      create: async (request, call) => {
        const body = withdrawalBody(request)
        const response = await ask(call, 'Withdrawals', { method: 'POST', path: '/v2/withdrawals', body }).catch(
          unproven
        )
        const withdrawal = readResponse(OpenNodeWithdrawal, unwrap(response.body))
        if (withdrawal === null) throw new PayoutUncertain(unusableResponse('a withdrawal without an id'))
        return payoutOf(withdrawal, request)
      },
      /**
       * Never null: no response proves that nothing was sent, and null would release the amount. Unproven payouts stay
       * pending.
       * @throws ProviderUnavailable also when the withdrawal is not found
       */
      lookUp: async (request, payoutId, call) => {
        const found = payoutId === null ? await searched(call, request) : await known(call, payoutId)
        if (found !== null) return payoutOf(found, request)
        throw new ProviderUnavailable(NOT_SHOWN, ASK_LATER)
      }
    },
    /**
     * Tries each permission: the balance, a charge of 1 satoshi for ten minutes (the minimum), and a withdrawal without
     * a destination, which is always refused. Keys without Withdrawals can receive.
     */
    checkKey: probed,
    readNotification: (headers, body) => {
      const type = headers.get('content-type')?.split(';', 1)[0]?.trim().toLowerCase()
      if (type !== 'application/x-www-form-urlencoded')
        throw new ProviderNotificationError('A notification must be a form (application/x-www-form-urlencoded).')
      const form = new URLSearchParams(Buffer.from(body).toString('utf8'))
      const [chargeId = '', ...moreIds] = form.getAll('id')
      const signature = form.get('hashed_order')
      if (!/^[\w-]{1,100}$/.test(chargeId) || moreIds.length > 0)
        throw new ProviderNotificationError('A notification must have one id.')
      if (signature === null) throw new ProviderNotificationError('A notification must have hashed_order.')
      // Withdrawals have no price: refunds are looked up.
      if (form.has('type') && !form.has('price')) return null
      return { chargeId, verify: secret => isSigned(Buffer.from(chargeId), signature, secret) }
    },
    listSettled: async ({ since }, call) => {
      const asOf = clock.now()
      const response = await ask(call, 'Read', { method: 'GET', path: '/v1/charges' })
      const charges = fitting(requireResponse(Type.Array(orNull(OpenNodeCharge)), unwrap(response.body)))
      const newest = (charge: OpenNodeCharge): number => charge.state?.settledAt ?? charge.createdAt ?? 0
      const settled = charges
        .toSorted((left, right) => newest(right) - newest(left))
        .flatMap(({ id, state, createdAt }) => {
          if (state === null || state.status === 'unpaid' || state.status === 'expired') return []
          const isNews =
            state.settledAt === null ? (createdAt ?? since) >= since - LONGEST_CONFIRMATION : state.settledAt >= since
          return isNews ? [{ chargeId: id, state }] : []
        })
      return { charges: settled, reach: settled.length < FULL_LIST ? 'whole' : 'newest', asOf, position: null }
    }
  })
}

/**
 * Makes a call and names the permission it needs.
 * @throws ProviderRefused, ProviderUnavailable
 */
async function ask(call: CallProvider, permission: Permission, request: ProviderCall): Promise<ProviderResponse> {
  const response = await call({ ...request, scope: permission, accepts: [...(request.accepts ?? []), 401] })
  if (response.status !== 401) return response
  if (!/permission|scope|privilege/i.test(response.said ?? ''))
    throw new ProviderRefused('key', 'The provider does not accept this key.')
  throw new ProviderRefused('scope', `The provider key lacks the scope ${permission}.`, permission)
}

/**
 * Permissions of a key.
 * @throws ProviderRefused 'key' for an unknown key
 */
async function probed(call: CallProvider): Promise<KeyVerdict> {
  const probes: ReadonlyArray<readonly [Permission, ProviderCall]> = [
    ['Read', { method: 'GET', path: '/v1/account/balance' }],
    [
      'Invoices',
      { method: 'POST', path: '/v1/charges', body: { amount: 1, description: 'Key check', ttl: SHORTEST_TTL } }
    ],
    ['Withdrawals', { method: 'POST', path: '/v2/withdrawals', body: { type: 'ln' } }]
  ]
  const missing: Permission[] = []
  let network: InvoiceNetwork | undefined
  for (const [permission, probe] of probes) {
    try {
      const { body } = await ask(call, permission, probe)
      const invoice = permission === 'Invoices' ? (readResponse(OpenNodeCharge, unwrap(body))?.invoice ?? null) : null
      if (invoice !== null) ({ network } = lightningCharge(invoice, null, null))
    } catch (error) {
      if (!(error instanceof ProviderRefused) || error.reason === 'key') throw error
      // A request rejected for its content passed the permission check.
      if (error.reason === 'scope') missing.push(permission)
    }
  }
  return { ...verdictOn(missing), ...(network === undefined ? {} : { network }) }
}

function verdictOn(missing: readonly Permission[]): KeyVerdict {
  if (missing.length === 0) return { isValid: true, message: 'The provider accepts this key.' }
  const names = `permission${missing.length === 1 ? '' : 's'} ${missing.join(' and ')}`
  return missing.includes('Read') || missing.includes('Invoices')
    ? { isValid: false, message: `The provider key lacks the ${names}.` }
    : { isValid: true, message: `The provider accepts this key. It lacks the ${names}, so refunds will be refused.` }
}

function orderFields(order: ChargeOrder | undefined): object {
  if (order === undefined) return {}
  const { orderId, successUrl, customerEmail, customerName, metadata } = order
  return {
    order_id: orderId,
    ...(successUrl === null ? {} : { success_url: successUrl }),
    ...(customerEmail === null ? {} : { customer_email: customerEmail }),
    ...(customerName === null ? {} : { customer_name: customerName }),
    ...(metadata === null ? {} : { metadata })
  }
}

/** Whole minutes, rounded up so that nothing expires early within the allowed range. */
function ttlMinutes(seconds: number): number {
  return Math.min(Math.max(Math.ceil(seconds / 60), SHORTEST_TTL), LONGEST_TTL)
}

/** `amountSats`: the requested amount; null after conversion. */
function chargeOf({ id, invoice, invoiceExpiresAt, ...charge }: OpenNodeCharge, amountSats: number | null): Charge {
  if (invoice === null) throw tooLarge()
  const { expiresAt, ...made } = lightningCharge(invoice, null, amountSats)
  return {
    ...made,
    chargeId: id,
    expiresAt: invoiceExpiresAt ?? expiresAt,
    onchainAddress: charge.onchainAddress,
    checkoutUrl: charge.checkoutUrl
  }
}

/** An invoice with an amount must not be given another. */
function withdrawalBody({ destination, amountSats, reference }: PayoutRequest): object {
  if (destination.type === 'chain')
    return { type: 'chain', amount: amountSats, address: destination.address, custom_id: reference }
  return {
    type: 'ln',
    // As in the reference; the client library says `payreq`.
    address: destination.invoice,
    ...(payable(destination.invoice).isAmountless ? { amount: amountSats } : {}),
    custom_id: reference
  }
}

async function known(call: CallProvider, payoutId: string): Promise<OpenNodeWithdrawal | null> {
  const response = await ask(call, 'Read', {
    method: 'GET',
    path: `/v1/withdrawal/${encodeURIComponent(payoutId)}`,
    accepts: [404]
  })
  if (response.status === 404) return null
  return requireResponse(OpenNodeWithdrawal, unwrap(response.body))
}

/**
 * The withdrawal after a lost response, found in the list; null unless certain. It has our reference, or pays the same
 * invoice, payable once. A failed one without a reference may be an earlier refund's, so it proves nothing.
 */
async function searched(
  call: CallProvider,
  { reference, destination }: PayoutRequest
): Promise<OpenNodeWithdrawal | null> {
  const response = await ask(call, 'Read', { method: 'GET', path: '/v1/withdrawals' })
  const withdrawals = fitting(requireResponse(Type.Array(orNull(OpenNodeWithdrawal)), unwrap(response.body)))
  const ours = withdrawals.find(({ customId }) => customId === reference)
  if (ours !== undefined || destination.type === 'chain') return ours ?? null
  const invoice = destination.invoice.toLowerCase()
  return (
    withdrawals.find(
      ({ customId, names, payout }) => customId === null && payout.status !== 'failed' && names.includes(invoice)
    ) ?? null
  )
}

function payoutOf({ payout }: OpenNodeWithdrawal, { destination }: PayoutRequest): Payout {
  return destination.type === 'chain' ? payout : { ...payout, transactionHash: null }
}

function tooLarge(): ProviderRefused {
  return new ProviderRefused('request', 'The provider makes no Lightning invoice of more than 500,000,000 satoshis.')
}

/** OpenNode publishes no rate limit. */
export const opennode: ProviderKind = {
  name: 'opennode',
  isSandbox: false,
  calls: {
    address: OPENNODE_LIVE,
    counted: 'key',
    limits: (url, perMinute) => {
      if (perMinute !== null) return { ofAddress: {}, ofAccount: { burst: perMinute, perMinute } }
      return {
        ofAddress: {},
        ofAccount:
          url === null || new URL(url).host.endsWith('opennode.com') ? { burst: 300, perMinute: 600 } : NO_LIMIT
      }
    },
    polling: () => ({ perMinute: 20, isShared: true, costs: { list: 1, lookUp: 1 } })
  },
  scopes: [
    { scope: 'Read', purpose: 'See whether invoices were paid' },
    { scope: 'Invoices', purpose: 'Make invoices' },
    { scope: 'Withdrawals', purpose: 'Refunds' }
  ],
  about: 'account at OpenNode',
  keyHint: 'An API key of your OpenNode account with Invoices and Read.',
  keyFault: headerKeyFault,
  open
}
