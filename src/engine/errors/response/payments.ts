import type { ResponseEntry } from '../entry.ts'

/** Payments of merchants, and refunds. */
export const paymentErrors = {
  BG_PAYMENT_NOT_FOUND: {
    status: 404,
    error: 'Payment not found',
    cause: "There is no such payment, or it is another merchant's.",
    cure: 'Compare the id and the key.'
  },
  BG_ORDER_ID_TAKEN: {
    status: 400,
    error: 'A payment with this orderId already exists',
    cause: 'An order id is taken for good.',
    cure: 'Read that payment with `GET /api/payments/order/{orderId}`, or take a new id.'
  },
  BG_MERCHANT_UNUSABLE: {
    status: 400,
    error: 'Merchant not found or inactive',
    cause: 'The account was deactivated while the request ran.',
    cure: 'Ask the operator.'
  },
  BG_AMOUNT_INVALID: {
    status: 400,
    cause: 'The amount has too many places for its currency, or is too large.',
    cure: 'Send what the text allows.'
  },
  BG_REFUND_NOT_FOUND: {
    status: 404,
    error: 'Refund not found',
    cause: "There is no such refund, or it is another merchant's.",
    cure: 'Compare the id and the key.'
  },
  BG_REFUND_INVOICE_NOT_FOUND: {
    status: 400,
    error: 'Invoice not found',
    cause: 'A refund names a payment that this merchant does not have.',
    cure: 'Send the `invoiceId` of one of yours.'
  },
  BG_INVOICE_NOT_FOUND: {
    status: 404,
    error: 'Invoice not found',
    cause: 'There is no such payment, or the sandbox made no such invoice.',
    cure: 'Give one of yours, made by this gateway.'
  },
  BG_PROVIDER_KEY_TEST_FAILED: {
    status: 400,
    cause: 'A provider key was to be tested before it is saved, and does not work.',
    cure: 'The text says why. The key that was saved before is still in use.'
  },
  BG_PAYMENT_NOT_REFUNDABLE: {
    status: 400,
    cause: 'The payment is in a state in which nothing can be given back.',
    cure: 'The text says why.'
  },
  BG_REFUND_AMOUNT_EXCEEDED: {
    status: 400,
    cause: 'More would be given back than came in.',
    cure: 'The text says how much is left.'
  },
  BG_REFUND_AMOUNT_REQUIRED: {
    status: 400,
    cause: '`amountSatoshis` is required for `ln` and on the primary provider.',
    cure: 'Send it.'
  },
  BG_REFUND_ADDRESS_INVALID: {
    status: 400,
    cause: '`refundAddress` does not fit `refundType`, the network or the amount.',
    cure: 'Send an address or a fresh invoice as the text asks.'
  },
  BG_REFUND_ADDRESS_IN_USE: {
    status: 400,
    error: 'Another refund already pays the Lightning invoice in refundAddress; ask the payer for a new one.',
    cause: 'One invoice can be paid once.',
    cure: 'Ask the payer for a new invoice.'
  },
  BG_REFUND_PROVIDER_CHANGED: {
    status: 400,
    cause: 'The payment was made at another kind of provider than is set now.',
    cure: 'Set that provider again to give it back.'
  },
  BG_REFUND_TYPE_UNSUPPORTED: {
    status: 400,
    cause: 'The provider cannot send refunds of this type.',
    cure: 'Take the other type.'
  },
  BG_REFUND_REFUSED: {
    status: 400,
    cause: 'The provider refused to send the refund; nothing was sent.',
    cure: "The text has the provider's reason."
  },
  BG_REFUND_SETTLEMENT_INVALID: {
    status: 400,
    cause: 'The members of a settlement by hand do not fit each other.',
    cure: 'The text says which.'
  },
  BG_REFUND_NOT_SETTLED: {
    status: 409,
    error: 'Refund not settled',
    cause: 'The refund cannot be settled by hand now.',
    cure: '`message` says why, and from when it can.'
  },
  BG_SESSION_CLOSED: {
    status: 409,
    error: 'Session closed',
    cause: 'A prepaid session is closed already.',
    cure: 'Nothing; `refund` of the session says what became of what was left.'
  },
  BG_SESSION_REFUND_NOT_SENT: {
    status: 409,
    error: 'Refund not sent',
    cause: 'The refund of a prepaid session is not one that is known to have failed, or its invoice is taken.',
    cure: '`message` says which. What is looked up may still have been paid.'
  },
  BG_SESSION_DEPOSIT_UNKNOWN: {
    status: 503,
    error: 'Deposit unknown',
    cause:
      "A session's deposit was shown after its challenge had ended, and its provider cannot say whether it was paid. Nothing was used up.",
    cure: 'Send the same again after `Retry-After`; the provider may be away, or the payment under way.'
  }
} as const satisfies Record<string, ResponseEntry>
