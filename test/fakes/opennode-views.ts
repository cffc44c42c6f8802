import { createHmac } from 'node:crypto'
import type { HeldCharge, HeldWithdrawal } from './opennode-account.ts'

/** A charge as `GET /v1/charge/{id}` and `POST /v1/charges` show it. */
export function chargeView(charge: HeldCharge, checkoutHost: string): object {
  const onChain = charge.transactions.at(-1)
  return {
    id: charge.id,
    name: 'N/A',
    description: charge.description,
    amount: charge.amount,
    missing_amt: charge.missing,
    status: charge.status,
    fiat_value: charge.sourceFiatValue,
    source_fiat_value: charge.sourceFiatValue,
    currency: charge.currency,
    created_at: charge.createdAt,
    order_id: charge.orderId ?? 'N/A',
    address: charge.address,
    notes: '',
    callback_url: charge.callbackUrl,
    success_url: null,
    auto_settle: charge.autoSettle,
    hosted_checkout_url: `${checkoutHost}/${charge.id}`,
    chain_invoice: {
      address: charge.address,
      ...(onChain === undefined ? {} : { settled_at: onChain.settled_at, tx: onChain.tx })
    },
    ...(charge.payreq === null
      ? {}
      : {
          lightning_invoice: {
            payreq: charge.payreq,
            created_at: charge.createdAt,
            expires_at: charge.expiresAt,
            settled_at: onChain === undefined ? charge.settledAt : null
          }
        }),
    transactions: charge.transactions,
    uri: `bitcoin:${charge.address}?amount=${(charge.amount / 1e8).toFixed(8)}`,
    ttl: charge.ttl
  }
}

/** A withdrawal as it is shown: of Lightning `reference` is the invoice, of the chain the transaction. */
export function withdrawalView(withdrawal: HeldWithdrawal, withCustomId: boolean): object {
  return {
    id: withdrawal.id,
    type: withdrawal.type,
    amount: withdrawal.amount,
    reference: withdrawal.type === 'ln' ? withdrawal.destination : withdrawal.tx,
    fee: withdrawal.fee,
    fiat_value: 0,
    status: withdrawal.status,
    processed_at: withdrawal.processedAt,
    ...(withdrawal.error === null ? {} : { error: withdrawal.error }),
    ...(withCustomId ? { custom_id: withdrawal.customId } : {})
  }
}

/** The form that is posted to `callback_url` about a charge; all values are texts. */
export function chargeForm(charge: HeldCharge): URLSearchParams {
  const form = new URLSearchParams({
    id: charge.id,
    callback_url: charge.callbackUrl ?? '',
    success_url: '',
    status: charge.status,
    order_id: charge.orderId ?? 'N/A',
    description: charge.description,
    price: String(charge.amount),
    fee: '0',
    auto_settle: charge.autoSettle ? '1' : '0',
    hashed_order: signature(charge.key, charge.id)
  })
  if (charge.transactions.length === 0) return form
  form.set('address', charge.address)
  form.set('missing_amt', String(charge.missing))
  form.set('overpaid_by', '0')
  charge.transactions.forEach((transaction, index) => {
    for (const [name, value] of Object.entries(transaction))
      form.set(`transactions[${index}][${name}]`, String(value ?? ''))
  })
  return form
}

/** `hashed_order`: signs the id alone. */
export function signature(key: string, id: string): string {
  return createHmac('sha256', key).update(id).digest('hex')
}
