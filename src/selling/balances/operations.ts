import { pageRange, pageQuery } from '../../engine/operations/keyset.ts'
import { nullableInteger, nullableText } from '../../engine/formats/text-patterns.ts'
import { Type, type Static } from 'typebox'
import type { Verifier } from '../verifying/verify.ts'
import type { Context } from '../../engine/message/context.ts'
import { NOT_FOUND, UNAUTHORIZED } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import { isoTime, iso } from '../../engine/formats/iso-time.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { adminOperation, merchantOf, settingsRead } from '../../accounts/merchants/principal.ts'
import type { Ledger } from './ledger.ts'
import type { BalanceNow, Entry } from './balance.ts'
import type { BalanceStore } from './store.ts'

const standing = {
  state: Type.Enum(['open', 'closed', 'refunded']),
  unit: Type.String({ description: 'What is counted, for people.' }),
  depositedMsat: Type.Integer({ description: 'Millisatoshis, as all amounts here.' }),
  spentMsat: Type.Integer({ description: 'Charges of settled requests.' }),
  reservedMsat: Type.Integer({ description: 'Reserved by requests in flight.' }),
  balanceMsat: Type.Integer({ description: 'Remaining balance: deposits minus charges and refunds.' }),
  expiresAt: isoTime('When it can no longer be used.')
}

export const Standing = Type.Object(standing, { title: 'BalanceStanding' })
const BalanceView = Type.Object(
  {
    id: Type.String({ description: 'Payment hash of the first deposit.' }),
    kind: Type.Enum(['bundle', 'session']),
    ...standing,
    merchantId: nullableText(),
    proxyId: nullableText(),
    place: Type.String({ description: 'The route or proxy it was bought for.' }),
    openedAt: isoTime(),
    isRevoked: Type.Boolean({ description: 'It is closed.' })
  },
  { title: 'Balance' }
)
export type BalanceView = Static<typeof BalanceView>
export const EntryView = Type.Object(
  {
    at: isoTime(),
    request: Type.String({ description: 'Its correlation id; of a gateway that died its name.' }),
    model: nullableText(),
    input: nullableInteger('Units that went in; null where they are not known.'),
    output: nullableInteger('Units that came out, or all of them where they have one price.'),
    msat: Type.Integer(),
    unpaidMsat: Type.Integer({ description: 'Cost of the usage that the balance could not cover.' }),
    basis: Type.Enum(['usage', 'reservation', 'crash'])
  },
  { title: 'BalanceEntry' }
)
export type BalanceEntryView = Static<typeof EntryView>

const Query = Type.Object(pageQuery)
const Params = Type.Object({ balanceId: Type.String() })

export function balanceOperations({
  store,
  ledger,
  verifier
}: {
  readonly store: BalanceStore
  readonly ledger: Pick<Ledger, 'flush'>
  readonly verifier: Pick<Verifier, 'proven'>
}): AnyOperation[] {
  /** Requires that the balance is of the account that asks. */
  const own = async (ctx: Context, balanceId: string): Promise<void> => {
    const balance = await store.find(balanceId)
    if (balance === null || balance.merchantId !== String(merchantOf(ctx).id))
      throw new LongError(NOT_FOUND, 'Not found', 'There is no such balance.')
  }
  const merchants = { ...settingsRead, method: 'GET' } as const
  const operators = { ...adminOperation, method: 'GET' } as const
  const listing = {
    query: Query,
    responses: { 200: { description: 'A bare array, newest first.', schema: Type.Array(BalanceView) } }
  }
  const entered = { description: 'A bare array, newest first.', schema: Type.Array(EntryView) }
  const entering = { params: Params, query: Query, summary: 'List the charges of one balance' }
  const listed = async (query: Static<typeof Query>, merchantId?: string) => {
    const range = pageRange(query)
    return {
      status: 200,
      body: (await store.list(merchantId === undefined ? range : { ...range, merchantId })).map(view)
    }
  }
  const entriesOf = async (balanceId: string, query: Static<typeof Query>) => ({
    status: 200,
    body: (await store.entries(balanceId, pageRange(query))).map(entryView)
  })
  return [
    defineOperation({
      id: 'getBalance',
      method: 'GET',
      path: '/l402/balance',
      mount: { use: 'service', chain: 'service-public' },
      summary: 'Balance of a credential',
      description:
        'For the holder of a credential of a bundle, in any scheme. Reservations of requests in flight are not yet deducted.',
      tag: 'L402',
      access: 'public',
      headers: { Authorization: 'The credential of the bundle, as metered requests show it.' },
      responses: {
        200: {
          description:
            'The balance with all charges of this gateway; others may have charged more in the last tenth of a second.',
          schema: Standing
        },
        401: 'No credential of a payment was sent, or it is not genuine.',
        404: 'No balance yet: the first metered request opens it. Or it expired long ago.'
      },
      handle: async ({ ctx }) => {
        const paymentHash = await verifier.proven(ctx.headers)
        if (paymentHash === null)
          throw new LongError(UNAUTHORIZED, 'Unauthorized', 'Send the credential of the payment in Authorization.')
        await ledger.flush(paymentHash)
        const balance = await store.find(paymentHash)
        if (balance === null)
          throw new LongError(
            NOT_FOUND,
            'Not found',
            'This payment has no balance. If it bought a bundle, nothing is spent yet: the first metered request opens the balance.'
          )
        return { status: 200, body: standingView(balance) }
      }
    }),
    defineOperation({
      ...merchants,
      ...listing,
      id: 'listBalances',
      path: '/api/merchant/balances',
      summary: "Balances that were bought of the account's metered proxies",
      description: "What was bought of the account's metered proxies and what is left of it, by payment hash.",
      handle: ({ ctx, query }) => listed(query, String(merchantOf(ctx).id))
    }),
    defineOperation({
      ...merchants,
      ...entering,
      id: 'listBalanceEntries',
      path: '/api/merchant/balances/:balanceId/entries',
      description: 'The charge of each request of one balance, for 90 days.',
      responses: { 200: entered, 404: 'There is no such balance.' },
      handle: async ({ ctx, params, query }) => {
        await own(ctx, params.balanceId)
        return await entriesOf(params.balanceId, query)
      }
    }),
    defineOperation({
      ...operators,
      ...listing,
      id: 'adminListBalances',
      path: '/api/admin/balances',
      summary: 'All balances',
      description: "Everybody's: those of the operator's own routes have no merchant.",
      handle: ({ query }) => listed(query)
    }),
    defineOperation({
      ...operators,
      ...entering,
      id: 'adminListBalanceEntries',
      path: '/api/admin/balances/:balanceId/entries',
      description:
        'The charge of each request of one balance, for 90 days. Find a request in the access log by its correlation ID.',
      responses: { 200: entered },
      handle: ({ params, query }) => entriesOf(params.balanceId, query)
    })
  ]
}

export function standingView(balance: BalanceNow) {
  const { state, unit, depositedMsat, spentMsat, refundedMsat, reservedMsat, expiresAt } = balance
  return {
    state,
    unit,
    depositedMsat,
    spentMsat,
    reservedMsat,
    balanceMsat: depositedMsat - spentMsat - refundedMsat,
    expiresAt: iso(expiresAt)
  }
}

function view(balance: BalanceNow) {
  const { id, kind, merchantId, proxyId, place, openedAt, isRevoked } = balance
  return {
    id,
    kind,
    ...standingView(balance),
    merchantId,
    proxyId,
    place,
    openedAt: iso(openedAt),
    isRevoked
  }
}

export function entryView({ at, balanceId: _balance, ...entry }: Entry) {
  return { at: iso(at), ...entry }
}
