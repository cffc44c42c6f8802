import type { BlinkOperation } from './calls.ts'

export const WALLETS: BlinkOperation = {
  name: 'Wallets',
  scope: 'READ',
  document: 'query Wallets { me { defaultAccount { wallets { id walletCurrency } } } }'
}

export const KEY_SCOPES: BlinkOperation = {
  name: 'Scopes',
  scope: 'READ',
  document: 'query Scopes { authorization { scopes } }'
}

export const CREATE: BlinkOperation = {
  name: 'LnInvoiceCreate',
  scope: 'RECEIVE',
  document:
    'mutation LnInvoiceCreate($input: LnInvoiceCreateInput!) { lnInvoiceCreate(input: $input) { invoice { paymentRequest paymentHash } errors { code message } } }'
}

export const CHARGE: BlinkOperation = {
  name: 'ChargeByHash',
  scope: 'READ',
  document:
    'query ChargeByHash($walletId: WalletId!, $paymentHash: PaymentHash!) { me { defaultAccount { walletById(walletId: $walletId) { invoiceByPaymentHash(paymentHash: $paymentHash) { paymentStatus } transactionsByPaymentHash(paymentHash: $paymentHash) { direction status createdAt settlementAmount } } } } }'
}

export const PAYMENTS: BlinkOperation = {
  name: 'PaymentsByHash',
  scope: 'READ',
  document:
    'query PaymentsByHash($walletId: WalletId!, $paymentHash: PaymentHash!) { me { defaultAccount { walletById(walletId: $walletId) { transactionsByPaymentHash(paymentHash: $paymentHash) { direction status createdAt settlementFee } } } } }'
}

export const TRANSACTIONS: BlinkOperation = {
  name: 'Transactions',
  scope: 'READ',
  document:
    'query Transactions($walletId: WalletId!, $first: Int!, $after: String) { me { defaultAccount { walletById(walletId: $walletId) { transactions(first: $first, after: $after) { edges { node { direction status createdAt settlementAmount initiationVia { ... on InitiationViaLn { paymentHash } } } } pageInfo { endCursor hasNextPage } } } } } }'
}

export const PAY: BlinkOperation = {
  name: 'LnInvoicePaymentSend',
  scope: 'WRITE',
  document:
    'mutation LnInvoicePaymentSend($input: LnInvoicePaymentInput!) { lnInvoicePaymentSend(input: $input) { status errors { code message } } }'
}

export const PAY_AMOUNT: BlinkOperation = {
  name: 'LnNoAmountInvoicePaymentSend',
  scope: 'WRITE',
  document:
    'mutation LnNoAmountInvoicePaymentSend($input: LnNoAmountInvoicePaymentInput!) { lnNoAmountInvoicePaymentSend(input: $input) { status errors { code message } } }'
}

export const ADD_ENDPOINT: BlinkOperation = {
  name: 'CallbackEndpointAdd',
  scope: 'WRITE',
  document:
    'mutation CallbackEndpointAdd($input: CallbackEndpointAddInput!) { callbackEndpointAdd(input: $input) { id errors { code message } } }'
}
