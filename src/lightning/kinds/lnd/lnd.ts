import { LRUCache } from 'lru-cache'
import { readResponse } from '../../../engine/formats/response-schema.ts'
import { shortDescription } from '../../codecs/bolt11-encode.ts'
import {
  NothingSent,
  ProviderRefused,
  ProviderUnavailable,
  unusableResponse,
  requireResponse
} from '../../provider-calls/errors.ts'
import type { KeyedKind } from '../../provider-calls/keyed-calls.ts'
import { lightningCharge, agreedNetwork } from '../../provider-calls/lightning-charge.ts'
import {
  InvoiceLine,
  LndBalance,
  LndChannels,
  NewInvoice,
  readFault,
  readInvoice,
  readLndNetwork
} from './responses.ts'
import { ask, isUnknown, ok } from './calls.ts'
import { settledAtNode } from './news.ts'
import { findChainPayout, findLightningPayout, missingForPayouts, sendOverChain, sendOverLightning } from './payouts.ts'
import { readLndConnect, type LndConnection, RECEIVING, keyOfFolder } from './folder.ts'
import { OversizedResponse, type CallProvider } from '../../provider-calls/provider-call.ts'
import type { Charge, ChargeRequest, KeyVerdict, Provider } from '../../provider-calls/provider.ts'
import { goodKey, keyedProvider, KEY_CHECK } from '../../provider-calls/wallet-provider.ts'
import { addressKeyKind, type KindOptions } from '../kind.ts'

const http: KeyedKind<LndConnection> = {
  kind: 'lnd',
  server: 'lnd node',
  read: readLndConnect,
  secretOf: ({ macaroon }) => macaroon,
  authorize: macaroon => ({ 'grpc-metadata-macaroon': macaroon }),
  messageOf: body => readFault(body)?.message ?? null,
  untrusted: {
    pinned:
      'The node shows another TLS certificate than the one in the lnd key: put its present tls.cert into the key, as cert=<base64url>.',
    public:
      'The lnd key holds no cert, and no authority that is trusted here signed the TLS certificate of the node: add its tls.cert to the key, as cert=<base64url>.'
  },
  explained: named
}

/** lnd's default gRPC port, which wallet key tools write. */
const GRPC_PORT = '10009'
const AT_GRPC = `The lnd key names port ${GRPC_PORT}, which is gRPC's where lnd is set up as usual; it needs the port of its REST API, 8080 as a rule.`
const LITTLE_INBOUND = 100_000

/** Milliseconds for which the need of route hints is cached. */
const HINTS_TTL = 600_000

/**
 * A node over lnd's REST API. The key is its lndconnect address (decision 71); charge ids are payment hashes (decision
 * 116). The macaroon needs `invoices:read` and `invoices:write`; refunds also need `offchain:read`, `offchain:write`
 * and, on chain, `onchain:read` and `onchain:write`.
 *
 * Known gaps: lnd has no HTTP notifications, so payments are polled. It ties no wallet address to an invoice, so
 * invoices are Lightning only.
 */
function open(options: KindOptions): Provider {
  const { clock, url, timeout } = options
  if (url !== null && new URL(url).protocol !== 'https:')
    throw new TypeError(
      'The url of an lnd node must begin with https://, since its macaroon goes along with each call.'
    )
  const hints = new LRUCache<string, { readonly isNeeded: boolean; readonly until: number }>({ max: 1000 })
  /**
   * Whether invoices need hints to unannounced channels. True where the macaroon may not read channels: an unpayable
   * invoice is worse than a disclosed channel.
   */
  const needsHints = async (call: CallProvider, origin: string): Promise<boolean> => {
    const known = hints.get(origin)
    if (known !== undefined && known.until > clock.now()) return known.isNeeded
    const isNeeded = !(await hasPublicChannel(call))
    hints.set(origin, { isNeeded, until: clock.now() + HINTS_TTL })
    return isNeeded
  }
  return keyedProvider(http, options, {
    // lnd never pays a hash again that was paid or is pending.
    payout: { lightning: true, chain: true, once: true },
    createCharge: async (request, call, { origin }) => await newInvoice(call, request, await needsHints(call, origin)),
    lookUp: async (chargeId, call) => {
      const response = await ask(call, {
        method: 'GET',
        path: `/v1/invoice/${chargeId}`,
        scope: 'invoices:read',
        accepts: [404]
      })
      if (isUnknown(response)) return null
      const invoice = readInvoice(ok(response).body, clock.now())
      if (invoice?.paymentHash !== chargeId) throw unusableResponse('an invoice without hash or state')
      return invoice.state
    },
    payments: {
      find: findLightningPayout,
      send: (payment, call) => sendOverLightning(call, payment, timeout),
      findOnChain: (request, call) => findChainPayout(call, request, clock.now()),
      /** Our reference is the transaction's label, and a labeled transaction is not sent again. */
      sendOnChain: (request, address, call) => sendOverChain(call, request, address, clock.now())
    },
    listSettled: (wanted, call, { origin }) => settledAtNode(call, origin, clock, wanted),
    /** lnd's invoice stream (`SubscribeInvoices`), without a backlog. */
    follow: ({ lines }, settled) =>
      lines({ path: '/v1/invoices/subscribe', scope: 'invoices:read' }, line => {
        const invoice = readInvoice(readResponse(InvoiceLine, line)?.result, clock.now())
        if (invoice?.state.status === 'paid') settled({ chargeId: invoice.paymentHash, state: invoice.state })
      }),
    checkKey: (call, connection) =>
      tried(call).catch((error: unknown) => {
        throw mistaken(error, connection)
      })
  })
}

/** @throws ProviderRefused for missing permissions, ProviderUnavailable */
async function tried(call: CallProvider): Promise<KeyVerdict> {
  // Receiving does not need the node's info: only a bad key counts here.
  const named = await ask(call, { method: 'GET', path: '/v1/getinfo', scope: 'info:read' })
    .then(response => readLndNetwork(ok(response).body))
    .catch((error: unknown) => {
      if (!(error instanceof ProviderRefused && error.reason === 'scope')) throw error
      return null
    })
  ok(await ask(call, { method: 'GET', path: '/v1/invoices?num_max_invoices=1&reversed=true', scope: 'invoices:read' }))
  const charge = await newInvoice(call, KEY_CHECK, false)
  const { lightning, chain } = await missingForPayouts(call, charge)
  return goodKey(
    'The node',
    agreedNetwork(named, charge.network),
    lightning.length === 0 ? null : `a macaroon with ${lightning.join(' and ')}`,
    [
      ...(chain.length === 0 ? [] : [`Refunds on chain need a macaroon with ${chain.join(' and ')}.`]),
      ...(await lowInbound(call))
    ]
  )
}

async function lowInbound(call: CallProvider): Promise<string[]> {
  const request = { method: 'GET', path: '/v1/balance/channels', scope: 'offchain:read' } as const
  const sats = await ask(call, request)
    .then(response => readResponse(LndBalance, ok(response).body)?.remote_balance.sat ?? Infinity)
    .catch((error: unknown) => {
      // The key is good without it.
      if (error instanceof ProviderRefused || error instanceof ProviderUnavailable) return Infinity
      throw error
    })
  return sats >= LITTLE_INBOUND ? [] : [`Its channels can receive ${sats} sats at most: have some opened towards it.`]
}

function mistaken(error: unknown, { origin }: LndConnection): unknown {
  // The certificate was accepted and no HTTP followed.
  const isSilent = error instanceof ProviderUnavailable && error.fault === 'network' && !(error instanceof NothingSent)
  if (isSilent && isAtGrpc(origin)) return new ProviderRefused('key', AT_GRPC)
  if (!(error instanceof ProviderRefused) || error.scope === null) return error
  const wanted = new Set([...RECEIVING, error.scope])
  return new ProviderRefused(
    'scope',
    `${error.message} Make one with: lncli bakemacaroon ${[...wanted].join(' ')}`,
    error.scope
  )
}

function isAtGrpc(origin: string): boolean {
  return new URL(origin).port === GRPC_PORT
}

/** Adds the most common key mistake to an error. Keeps whether anything was sent: REST may be served at that port. */
function named(error: unknown, { origin }: LndConnection): unknown {
  if (!(error instanceof ProviderUnavailable) || error.fault !== 'network' || !isAtGrpc(origin)) return error
  const text = `${error.message} ${AT_GRPC}`
  return error instanceof NothingSent
    ? new NothingSent(text, error.retryAfter, error.cause, error.fault)
    : new ProviderUnavailable(text, error.retryAfter, error.cause, error.fault)
}

async function hasPublicChannel(call: CallProvider): Promise<boolean> {
  try {
    const path = '/v1/channels?public_only=true'
    const { body } = ok(await ask(call, { method: 'GET', path, scope: 'offchain:read' }))
    return (readResponse(LndChannels, body)?.channels?.length ?? 0) > 0
  } catch (error) {
    // Too many to read.
    if (error instanceof OversizedResponse) return true
    if (error instanceof ProviderRefused && error.reason === 'scope') return false
    throw error
  }
}

async function newInvoice(
  call: CallProvider,
  { amountSats, description, expirySeconds, hashed }: ChargeRequest,
  isPrivate: boolean
): Promise<Charge> {
  const body = {
    value: String(amountSats),
    memo: shortDescription(description),
    ...(hashed === undefined ? {} : { description_hash: Buffer.from(hashed.hash, 'hex').toString('base64') }),
    expiry: String(expirySeconds),
    ...(isPrivate ? { private: true } : {})
  }
  const response = ok(await ask(call, { method: 'POST', path: '/v1/invoices', body, scope: 'invoices:write' }))
  const { payment_request, r_hash } = requireResponse(NewInvoice, response.body)
  return lightningCharge(payment_request, r_hash, amountSats)
}

/** lnd publishes no limits: ours spare the node and our database. */
export const lnd = addressKeyKind(readLndConnect, {
  name: 'lnd',
  hashesDescriptions: 'own',
  limits: { burst: 1_000, perMinute: 12_000 },
  // A merchant's own node has no limit but other work to do.
  polling: { perMinute: 60, costs: { list: 2, lookUp: 1 } },
  scopes: [
    { scope: 'invoices:write', purpose: 'Make invoices' },
    { scope: 'invoices:read', purpose: 'See whether invoices were paid' },
    { scope: 'offchain:read', purpose: 'See whether the node has announced channels, and what became of refunds' },
    { scope: 'offchain:write', purpose: 'Refunds to Lightning invoices' },
    { scope: 'onchain:read', purpose: 'See what became of refunds' },
    { scope: 'onchain:write', purpose: 'Refunds to Bitcoin addresses' }
  ],
  about: 'your lnd node',
  keyHint: 'lndconnect://host:port?cert=<base64url>&macaroon=<base64url>',
  onMachine: { folder: '.lnd', keyOf: keyOfFolder },
  open
})
