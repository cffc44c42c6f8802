import { Type, type StaticDecode } from 'typebox'
import { fittingItems, orNull, part, Text } from '../../../engine/formats/response-schema.ts'
import { nothingReceived } from '../../provider-calls/lightning-charge.ts'
import { sentPayment, type SentPayment } from '../../provider-calls/pay-once.ts'
import { Hash, JsonRecord, Seconds } from '../../provider-calls/errors.ts'
import type { ChargeState, SettledCharge } from '../../provider-calls/provider.ts'

/**
 * Responses of Blink (blinkbitcoin/blink, public schema). Amounts are satoshis, negative when outgoing; times are
 * seconds.
 */

const Sats = Type.Decode(Type.Unknown(), value => Math.ceil(Math.abs(Number.isFinite(value) ? Number(value) : 0)))

const Transaction = Type.Object({
  direction: Type.Unknown(),
  status: Type.Enum(['SUCCESS', 'PENDING', 'FAILURE']),
  settlementAmount: Sats,
  settlementFee: Sats,
  createdAt: Seconds,
  /** Null unless paid by invoice. */
  initiationVia: part({ paymentHash: orNull(Hash) })
})

export const BlinkWallet = Type.Object({
  invoiceByPaymentHash: part({ paymentStatus: Type.Unknown() }),
  transactionsByPaymentHash: fittingItems(Transaction),
  transactions: part({
    edges: fittingItems(Type.Object({ node: Transaction })),
    pageInfo: part({ hasNextPage: Type.Unknown(), endCursor: orNull(Text) })
  })
})
export type BlinkWallet = StaticDecode<typeof BlinkWallet>

export const BlinkData = Type.Object({
  me: part({
    defaultAccount: part({
      wallets: fittingItems(Type.Object({ id: Text, walletCurrency: Type.Literal('BTC') })),
      walletById: orNull(BlinkWallet)
    })
  }),
  authorization: part({ scopes: fittingItems(Type.String()) })
})

export const BlinkInvoice = Type.Object({ invoice: Type.Object({ paymentRequest: Text, paymentHash: Hash }) })

/** Codes appear in the error or in its extensions; empty where absent. */
const BlinkError = Type.Decode(
  part({ code: orNull(Text), message: orNull(Text), extensions: part({ code: orNull(Text) }) }),
  error => {
    const text = (error?.message ?? '').replace(/[\p{C}\p{Z}]+/gu, ' ').trim()
    return {
      code: error?.code ?? error?.extensions?.code ?? '',
      message: text === '' ? 'it gave no reason' : text.slice(0, 200)
    }
  }
)
export type BlinkError = StaticDecode<typeof BlinkError>

/** `errors` belong to the operation, `error` to an error status. */
export const BlinkResponse = Type.Object({
  data: orNull(JsonRecord),
  errors: fittingItems(BlinkError),
  error: part({ message: orNull(Text) })
})

export const PayloadErrors = Type.Object({ errors: fittingItems(BlinkError) })

/** A charge's status; null when unusable. `now` (ms) replaces a missing settlement time. */
export function readBlinkState(wallet: BlinkWallet, now: number): ChargeState | null {
  switch (wallet.invoiceByPaymentHash?.paymentStatus) {
    case 'PAID': {
      const came = wallet.transactionsByPaymentHash.find(isIncoming)
      return { status: 'paid', receivedSats: came?.settlementAmount ?? null, settledAt: came?.createdAt ?? now }
    }
    case 'PENDING':
      return nothingReceived('unpaid')
    case 'EXPIRED':
      return nothingReceived('expired')
    default:
      return null
  }
}

/** The best of several attempts to pay an invoice; null for none. */
export function readBlinkPayment(wallet: BlinkWallet, paymentHash: string): SentPayment | null {
  const sent = wallet.transactionsByPaymentHash.filter(one => !isIncoming(one))
  const best =
    sent.find(({ status }) => status === 'SUCCESS') ?? sent.find(({ status }) => status === 'PENDING') ?? sent[0]
  if (best === undefined) return null
  const ours = { SUCCESS: 'confirmed', PENDING: 'processing', FAILURE: 'failed' } as const
  return sentPayment(paymentHash, ours[best.status], best.settlementFee, best.createdAt, 'Blink')
}

/** A page of transactions, newest first; null when unusable. `next` is the next page's cursor. */
export function readBlinkPage({ transactions }: BlinkWallet): {
  readonly charges: readonly SettledCharge[]
  readonly oldest: number | null
  readonly next: string | null
} | null {
  if (transactions === null) return null
  const nodes = transactions.edges.map(({ node }) => node)
  const charges: SettledCharge[] = nodes.flatMap(node => {
    const chargeId = node.initiationVia?.paymentHash
    return isIncoming(node) && node.status === 'SUCCESS' && typeof chargeId === 'string'
      ? [{ chargeId, state: { status: 'paid', receivedSats: node.settlementAmount, settledAt: node.createdAt } }]
      : []
  })
  const { pageInfo } = transactions
  return {
    charges,
    oldest: nodes.at(-1)?.createdAt ?? null,
    next: pageInfo?.hasNextPage === true ? pageInfo.endCursor : null
  }
}

function isIncoming({ direction }: StaticDecode<typeof Transaction>): boolean {
  return direction === 'RECEIVE'
}
