import { randomBytes } from 'node:crypto'
import { buildSchema, graphqlSync, GraphQLError, parse, validate, type GraphQLSchema } from 'graphql'
import { decodeInvoice } from '../../src/lightning/codecs/bolt11.ts'
import { systemClock, type Clock } from '../../src/platform/system/clock.ts'
import { startNodeServer, type NodeReply, type NodeRequest, type NodeServer } from './node-server.ts'
import { NodeWallet, type WalletInvoice, type WalletPayment } from './node-wallet.ts'

/** A fake Blink with one account. Requests go wrong by `POST /graphql <operation>`. */
export interface FakeBlink extends NodeServer {
  readonly wallet: NodeWallet
  /** The receivers that were registered. */
  readonly endpoints: string[]
  /** Every mutation answers this error inside its payload. */
  refusing: { readonly code: string; readonly message: string } | null
  key(scopes?: readonly string[]): string
  /** What it posts when an invoice was paid. */
  notification(paymentHash: string, eventType?: string): Buffer
}

/** The part of Blink's public schema that is spoken here, copied verbatim. */
export const BLINK_SCHEMA = `
  scalar EndpointId
  scalar EndpointUrl
  scalar Hex32Bytes
  scalar LnPaymentPreImage
  scalar LnPaymentRequest
  scalar LnPaymentSecret
  scalar Memo
  scalar Minutes
  scalar PaymentHash
  scalar SatAmount
  scalar SignedAmount
  scalar Timestamp
  scalar TxExternalId
  scalar WalletId
  enum InvoicePaymentStatus { EXPIRED PAID PENDING }
  enum Network { mainnet regtest signet testnet }
  enum PaymentSendResult { ALREADY_PAID FAILURE PENDING SUCCESS }
  enum Scope { READ RECEIVE WRITE }
  enum TxDirection { RECEIVE SEND }
  enum TxStatus { FAILURE PENDING SUCCESS }
  enum WalletCurrency { BTC USD }
  interface Error { code: String message: String! path: [String] }
  type GraphQLApplicationError implements Error { code: String message: String! path: [String] }
  interface Invoice { createdAt: Timestamp! externalId: TxExternalId! paymentHash: PaymentHash! paymentRequest: LnPaymentRequest! paymentSecret: LnPaymentSecret! paymentStatus: InvoicePaymentStatus! }
  type LnInvoice implements Invoice { createdAt: Timestamp! externalId: TxExternalId! paymentHash: PaymentHash! paymentRequest: LnPaymentRequest! paymentSecret: LnPaymentSecret! paymentStatus: InvoicePaymentStatus! satoshis: SatAmount! }
  type LnInvoicePayload { errors: [Error!]! invoice: LnInvoice }
  type PaymentSendPayload { errors: [Error!]! status: PaymentSendResult transaction: Transaction }
  type CallbackEndpointAddPayload { errors: [Error!]! id: EndpointId }
  input CallbackEndpointAddInput { url: EndpointUrl! }
  input LnInvoiceCreateInput { amount: SatAmount! expiresIn: Minutes externalId: TxExternalId memo: Memo walletId: WalletId! }
  input LnInvoiceCreateOnBehalfOfRecipientInput { amount: SatAmount! descriptionHash: Hex32Bytes expiresIn: Minutes externalId: TxExternalId memo: Memo recipientWalletId: WalletId! }
  input LnInvoicePaymentInput { memo: Memo paymentRequest: LnPaymentRequest! walletId: WalletId! }
  input LnNoAmountInvoicePaymentInput { amount: SatAmount! memo: Memo paymentRequest: LnPaymentRequest! walletId: WalletId! }
  type SettlementViaLn { preImage: LnPaymentPreImage }
  type SettlementViaIntraLedger { counterPartyWalletId: WalletId preImage: LnPaymentPreImage }
  union SettlementVia = SettlementViaIntraLedger | SettlementViaLn
  type InitiationViaLn { paymentHash: PaymentHash! paymentRequest: LnPaymentRequest! }
  type InitiationViaIntraLedger { counterPartyWalletId: WalletId }
  union InitiationVia = InitiationViaIntraLedger | InitiationViaLn
  type Transaction { createdAt: Timestamp! direction: TxDirection! id: ID! initiationVia: InitiationVia! memo: Memo settlementAmount: SignedAmount! settlementCurrency: WalletCurrency! settlementFee: SignedAmount! settlementVia: SettlementVia! status: TxStatus! }
  type TransactionConnection { edges: [TransactionEdge!] pageInfo: PageInfo! }
  type TransactionEdge { cursor: String! node: Transaction! }
  type PageInfo { endCursor: String hasNextPage: Boolean! hasPreviousPage: Boolean! startCursor: String }
  interface Wallet { id: ID! balance: SignedAmount! walletCurrency: WalletCurrency! invoiceByPaymentHash(paymentHash: PaymentHash!): Invoice! transactions(after: String, before: String, first: Int, last: Int): TransactionConnection transactionsByPaymentHash(paymentHash: PaymentHash!): [Transaction!]! }
  type BTCWallet implements Wallet { id: ID! balance: SignedAmount! walletCurrency: WalletCurrency! invoiceByPaymentHash(paymentHash: PaymentHash!): Invoice! transactions(after: String, before: String, first: Int, last: Int): TransactionConnection transactionsByPaymentHash(paymentHash: PaymentHash!): [Transaction!]! }
  type UsdWallet implements Wallet { id: ID! balance: SignedAmount! walletCurrency: WalletCurrency! invoiceByPaymentHash(paymentHash: PaymentHash!): Invoice! transactions(after: String, before: String, first: Int, last: Int): TransactionConnection transactionsByPaymentHash(paymentHash: PaymentHash!): [Transaction!]! }
  type ConsumerAccount { id: ID! walletById(walletId: WalletId!): Wallet! wallets: [Wallet!]! }
  type User { id: ID! defaultAccount: ConsumerAccount! }
  type Authorization { scopes: [Scope!]! }
  type Globals { network: Network! }
  type Query { authorization: Authorization! globals: Globals me: User }
  type Mutation {
    callbackEndpointAdd(input: CallbackEndpointAddInput!): CallbackEndpointAddPayload!
    lnInvoiceCreate(input: LnInvoiceCreateInput!): LnInvoicePayload!
    lnInvoiceCreateOnBehalfOfRecipient(input: LnInvoiceCreateOnBehalfOfRecipientInput!): LnInvoicePayload!
    lnInvoicePaymentSend(input: LnInvoicePaymentInput!): PaymentSendPayload!
    lnNoAmountInvoicePaymentSend(input: LnNoAmountInvoicePaymentInput!): PaymentSendPayload!
  }
`
const schema: GraphQLSchema = buildSchema(BLINK_SCHEMA)

const WALLET = '9c7e6d2f-6a43-4a51-9c0e-1d2b3c4d5e6f'
const USD_WALLET = '0b1a2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d'

interface Input {
  readonly amount?: number
  readonly expiresIn?: number
  readonly memo?: string
  readonly walletId?: string
  readonly recipientWalletId?: string
  readonly paymentRequest?: string
  readonly url?: string
}

/** What a document says the operation is; empty where it has no name. */
function operationOf(text: string): string {
  const [, name = ''] = /(?:query|mutation)\s+(\w+)/.exec(text) ?? []
  return name
}

/** Starts a Blink without Lightning on loopback. */
export async function startFakeBlink(options: { clock?: Clock; port?: number } = {}): Promise<FakeBlink> {
  const clock = options.clock ?? systemClock
  const wallet = new NodeWallet(clock, 'mainnet')
  const keys = new Map<string, ReadonlySet<string>>()

  function handle({ method, url, headers, text }: NodeRequest): NodeReply {
    if (method !== 'POST' || url.pathname !== '/graphql') return { status: 404, body: 'Not Found' }
    const scopes = keys.get(String(headers['x-api-key']))
    if (scopes === undefined)
      return {
        status: 401,
        body: { error: { code: 401, status: 'Unauthorized', message: 'Access credentials are invalid' } }
      }
    // A test hands over objects alone.
    const { query, variables, operationName } = JSON.parse(text) as {
      query: string
      variables?: Readonly<Record<string, unknown>>
      operationName?: string
    }
    const document = parse(query)
    const faults = validate(schema, document)
    if (faults.length > 0) return { status: 400, body: { errors: faults.map(fault => fault.toJSON()) } }
    const result = graphqlSync({
      schema,
      source: query,
      rootValue: roots(scopes),
      variableValues: variables ?? {},
      ...(operationName === undefined ? {} : { operationName })
    })
    // Through JSON, since results have no prototype.
    return { status: 200, body: JSON.parse(JSON.stringify(result)) as object }
  }

  function roots(scopes: ReadonlySet<string>): object {
    const may = (scope: string): void => {
      if (!scopes.has(scope)) throw new GraphQLError('Not authorized', { extensions: { code: 'NOT_AUTHORIZED' } })
    }
    const mutation =
      (scope: string, run: (input: Input) => object) =>
      ({ input }: { input: Input }): object => {
        may(scope)
        if (fake.refusing !== null) return { errors: [error(fake.refusing.code, fake.refusing.message)] }
        return run(input)
      }
    return {
      authorization: () => ({ scopes: [...scopes] }),
      globals: () => ({ network: 'mainnet' }),
      me: () => {
        may('READ')
        return { id: 'u1', defaultAccount: account }
      },
      lnInvoiceCreate: mutation('RECEIVE', create),
      lnInvoiceCreateOnBehalfOfRecipient: mutation('RECEIVE', create),
      lnInvoicePaymentSend: mutation('WRITE', pay),
      lnNoAmountInvoicePaymentSend: mutation('WRITE', pay),
      callbackEndpointAdd: mutation('WRITE', ({ url = '' }) => {
        fake.endpoints.push(url)
        return { errors: [], id: `endpoint-${fake.endpoints.length}` }
      })
    }
  }

  const account = {
    id: 'a1',
    wallets: [walletView('UsdWallet', USD_WALLET, 'USD'), walletView('BTCWallet', WALLET, 'BTC')],
    walletById: ({ walletId }: { walletId: string }) => {
      if (walletId !== WALLET) throw notFound('No wallet found')
      return account.wallets[1]
    }
  }

  function walletView(typename: string, id: string, walletCurrency: string): object {
    return {
      __typename: typename,
      id,
      walletCurrency,
      balance: 50_000,
      invoiceByPaymentHash: ({ paymentHash }: { paymentHash: string }) => {
        const held = wallet.invoices.get(paymentHash)
        if (held === undefined) throw notFound('Invoice not found')
        return invoiceView(held)
      },
      transactionsByPaymentHash: ({ paymentHash }: { paymentHash: string }) =>
        transactions().filter(one => one.initiationVia.paymentHash === paymentHash),
      transactions: ({ first = 100, after = null }: { first?: number; after?: string | null }) => {
        const all = transactions()
        const from = after === null ? 0 : all.findIndex(({ id }) => id === after) + 1
        const page = all.slice(from, from + Math.min(first, 100))
        return {
          edges: page.map(node => ({ cursor: node.id, node })),
          pageInfo: {
            endCursor: page.at(-1)?.id ?? null,
            hasNextPage: from + page.length < all.length,
            hasPreviousPage: from > 0,
            startCursor: page[0]?.id ?? null
          }
        }
      }
    }
  }

  function create({ amount = 0, expiresIn, memo = '', walletId, recipientWalletId }: Input): object {
    if ((walletId ?? recipientWalletId) !== WALLET) throw notFound('No wallet found')
    if (!Number.isSafeInteger(amount) || amount < 1 || amount > wallet.largest)
      return { errors: [error('INVALID_INPUT', 'A valid satoshi amount is required')] }
    if (Buffer.byteLength(memo) > 639) return { errors: [error('INVALID_INPUT', 'Memo is too long')] }
    // Whatever lies outside becomes four hours, without a word.
    const minutes =
      expiresIn !== undefined && Number.isInteger(expiresIn) && expiresIn >= 1 && expiresIn <= 1_440 ? expiresIn : 240
    const held = wallet.addInvoice({
      amountSats: amount,
      description: memo.toWellFormed(),
      expirySeconds: minutes * 60
    })
    return { errors: [], invoice: invoiceView(held) }
  }

  function invoiceView(held: WalletInvoice): object {
    return {
      __typename: 'LnInvoice',
      createdAt: held.createdAt / 1000,
      externalId: held.paymentHash.slice(0, 20),
      paymentHash: held.paymentHash,
      paymentRequest: held.invoice,
      paymentSecret: 'ab'.repeat(32),
      paymentStatus: held.settledAt !== null ? 'PAID' : wallet.isExpired(held) ? 'EXPIRED' : 'PENDING',
      satoshis: held.amountSats
    }
  }

  function transactions() {
    return [
      ...[...wallet.invoices.values()].filter(({ settledAt }) => settledAt !== null).map(received),
      ...[...wallet.payments.values()].map(sent)
    ].toSorted((one, other) => other.createdAt - one.createdAt)
  }

  function pay({ paymentRequest = '', amount, walletId }: Input): object {
    if (walletId !== WALLET) throw notFound('No wallet found')
    const decoded = decodeInvoice(paymentRequest, { zeroAmount: true })
    if ((amount === undefined) !== (decoded.amountSats !== null))
      throw new Error('an amount beside an invoice with one')
    const before = wallet.payments.get(decoded.paymentHash)
    if (before?.status === 'paid') return { errors: [], status: 'ALREADY_PAID' }
    if (before?.status === 'pending')
      return { errors: [error('LIGHTNING_PAYMENT_ERROR', 'Payment is in transition')], status: 'FAILURE' }
    const payment = wallet.pay(paymentRequest, amount ?? null)
    if (payment.status === 'failed')
      return { errors: [error('ROUTE_FINDING_ERROR', 'Unable to find a route')], status: 'FAILURE' }
    return { errors: [], status: payment.status === 'paid' ? 'SUCCESS' : 'PENDING', transaction: sent(payment) }
  }

  const server = await startNodeServer(handle, { ...options, nameOf: ({ text }) => operationOf(text) })
  const fake: FakeBlink = Object.assign(server, {
    wallet,
    endpoints: [],
    refusing: null,
    key: (scopes: readonly string[] = ['READ', 'RECEIVE', 'WRITE']) => {
      const key = `blink_${randomBytes(24).toString('base64url')}`
      keys.set(key, new Set(scopes))
      return key
    },
    notification: (paymentHash: string, eventType = 'receive.lightning') =>
      Buffer.from(
        JSON.stringify({
          accountId: 'a1',
          walletId: WALLET,
          eventType,
          transaction: { status: 'success', initiationVia: { type: 'Lightning', paymentHash } }
        })
      )
  })
  return fake
}

function error(code: string, message: string): object {
  return { __typename: 'GraphQLApplicationError', code, message, path: null }
}

function notFound(message: string): GraphQLError {
  return new GraphQLError(message, { extensions: { code: 'NOT_FOUND' } })
}

function received(held: WalletInvoice) {
  return {
    ...common(held.paymentHash, held.invoice, Math.floor((held.settledAt ?? 0) / 1000)),
    direction: 'RECEIVE',
    status: 'SUCCESS',
    settlementAmount: held.receivedSats,
    settlementFee: 0,
    settlementVia: { __typename: 'SettlementViaLn', preImage: held.preimage }
  }
}

function sent(held: WalletPayment) {
  const isPaid = held.status === 'paid'
  return {
    ...common(held.paymentHash, held.invoice, Math.floor(held.createdAt / 1000)),
    direction: 'SEND',
    status: isPaid ? 'SUCCESS' : held.status === 'pending' ? 'PENDING' : 'FAILURE',
    settlementAmount: -held.amountSats,
    settlementFee: Math.ceil(held.feeMsat / 1000),
    settlementVia: { __typename: 'SettlementViaLn', preImage: isPaid ? 'ef'.repeat(32) : null }
  }
}

function common(paymentHash: string, paymentRequest: string, createdAt: number) {
  return {
    id: paymentHash.slice(0, 24),
    createdAt,
    memo: null,
    settlementCurrency: 'BTC',
    initiationVia: { __typename: 'InitiationViaLn', paymentHash, paymentRequest }
  }
}
