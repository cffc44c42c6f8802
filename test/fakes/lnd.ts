import { randomBytes } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { systemClock, type Clock } from '../../src/platform/system/clock.ts'
import { selfSigned } from './certificate.ts'
import { startNodeServer, type NodeFault, type NodeServer } from './node-server.ts'
import { LndError, LndWallet, type HeldInvoice, type HeldPayment } from './lnd-wallet.ts'

/** What a macaroon may do, in lnd's own spelling. */
export type Permission =
  | 'info:read'
  | 'invoices:read'
  | 'invoices:write'
  | 'offchain:read'
  | 'offchain:write'
  | 'onchain:read'
  | 'onchain:write'

const EVERYTHING: readonly Permission[] = [
  'info:read',
  'invoices:read',
  'invoices:write',
  'offchain:read',
  'offchain:write',
  'onchain:read',
  'onchain:write'
]

/**
 * What goes wrong beside the faults of every server. What `going down after` spoils was done: lnd's REST side answers so
 * when the other side drops under it.
 */
type Fault = NodeFault | 'locked' | 'going down' | 'going down after'

/** How the fake is made. */
export interface FakeLndOptions {
  readonly clock?: Clock
  readonly port?: number
  /** Names of its certificate; those of lnd's own unless said. */
  readonly names?: readonly string[]
  /** End of the certificate's validity, in milliseconds since the epoch. */
  readonly until?: number
  /** Answers for a bad macaroon and an unknown invoice as builds before 0.18 do: 500, code 2. */
  readonly older?: boolean
}

/** A fake node. */
export interface FakeLnd extends NodeServer<Fault> {
  /** PEM. */
  readonly certificate: string
  readonly wallet: LndWallet
  /** Open streams of invoices. */
  readonly followers: ReadonlySet<unknown>
  /** A key: an lndconnect address with a macaroon of these permissions, all unless said. */
  key(permissions?: readonly Permission[], host?: string): string
  /** The macaroon of a key is no longer good: its root key was deleted. */
  revoke(key: string): void
}

interface Call {
  readonly url: URL
  readonly body: Readonly<Record<string, unknown>>
  readonly id: string
}
interface Route {
  readonly method: string
  readonly path: RegExp
  readonly needs: Permission
  /** Members that a body or query may have. */
  readonly members: readonly string[]
  run(call: Call): object | LndStream
}

/** Lines of a stream; one that stays open is ended by the client. */
class LndStream {
  readonly lines: readonly object[]
  readonly isOpen: boolean

  constructor(lines: readonly object[], isOpen: boolean) {
    this.lines = lines
    this.isOpen = isOpen
  }
}

const STATUSES: Readonly<Record<number, number>> = { 2: 500, 3: 400, 5: 404, 6: 409, 7: 403, 12: 501, 14: 503, 16: 401 }

/** Starts an lnd node without Lightning on loopback: its REST API as providers.md and lnd's own source have it. */
export async function startFakeLnd(options: FakeLndOptions = {}): Promise<FakeLnd> {
  const clock = options.clock ?? systemClock
  const wallet = new LndWallet(clock)
  const macaroons = new Map<string, ReadonlySet<Permission>>()
  const tls = selfSigned({
    names: options.names ?? ['localhost', '127.0.0.1'],
    ...(options.until === undefined ? {} : { until: options.until, from: options.until - 1000 })
  })
  const routes = routesOf(wallet, clock)
  const followers = new Set<ServerResponse>()
  wallet.onSettled = held => {
    for (const response of followers) response.write(`${JSON.stringify({ result: invoiceView(held, clock.now()) })}\n`)
  }

  const unavailable = errorReply(new LndError(14, 'error reading from server: EOF'), false)
  const server = await startNodeServer<'locked' | 'going down' | 'going down after' | 'server error'>(
    ({ method, url, headers, text }) => {
      try {
        const answer = act(method, headers['grpc-metadata-macaroon'], url, text)
        return answer instanceof LndStream ? response => stream(response, answer, url) : { status: 200, body: answer }
      } catch (error) {
        if (!(error instanceof LndError)) throw error
        return errorReply(error, /router/.test(url.pathname))
      }
    },
    {
      port: options.port ?? 0,
      tls: { cert: tls.certificate, key: tls.key },
      faults: {
        'server error': errorReply(new LndError(2, 'unable to query the database'), false),
        locked: errorReply(new LndError(2, 'wallet locked, unlock it to enable full RPC access'), false),
        'going down': unavailable,
        'going down after': unavailable
      }
    }
  )

  function stream(response: ServerResponse, { lines, isOpen }: LndStream, url: URL): void {
    response.writeHead(200, { 'content-type': 'application/json' })
    for (const line of lines) response.write(`${JSON.stringify({ result: line })}\n`)
    // lnd's REST side sends no head before the first line.
    if (isOpen && url.pathname === '/v1/invoices/subscribe') {
      followers.add(response)
      response.once('close', () => followers.delete(response))
    }
    if (isOpen) server.onHang()
    else response.end()
  }

  function act(method: string, macaroon: string | string[] | undefined, url: URL, text: string): object | LndStream {
    const route = routes.find(one => one.method === method && one.path.test(url.pathname))
    if (route === undefined) throw new LndError(5, 'Not Found')
    if (macaroon === undefined) throw new LndError(2, 'expected 1 macaroon, got 0')
    const permissions = macaroons.get(String(macaroon))
    if (permissions === undefined)
      throw new LndError(2, 'verification failed: signature mismatch after caveat verification')
    if (!permissions.has(route.needs)) throw new LndError(options.older === true ? 2 : 7, 'permission denied')
    const body =
      text === ''
        ? {}
        : (JSON.parse(text) as Readonly<
            Record<string, unknown>
          >) /* REST takes objects alone; their members are checked next */
    const unknown = [...Object.keys(body), ...url.searchParams.keys()].find(member => !route.members.includes(member))
    if (unknown !== undefined) throw new LndError(3, `proto: (line 1:2): unknown field "${unknown}"`)
    try {
      return route.run({ url, body, id: route.path.exec(url.pathname)?.[1] ?? '' })
    } catch (error) {
      if (error instanceof LndError && error.code === 5 && options.older === true) throw new LndError(2, error.message)
      throw error
    }
  }

  const { port } = new URL(server.url)
  const fake: FakeLnd = Object.assign(server, {
    certificate: tls.certificate,
    wallet,
    followers,
    key: (permissions: readonly Permission[] = EVERYTHING, host = '127.0.0.1') => {
      const macaroon = baked()
      macaroons.set(macaroon.toString('hex'), new Set(permissions))
      return lndConnect(`${host}:${port}`, tls.certificate, macaroon)
    },
    revoke: (key: string) => {
      macaroons.delete(Buffer.from(new URL(key).searchParams.get('macaroon') ?? '', 'base64url').toString('hex'))
    }
  })
  return fake
}

/** The lndconnect address of a node, as `lncli` and wallets write it. */
export function lndConnect(host: string, certificate: string | null, macaroon: Uint8Array): string {
  const der =
    certificate === null
      ? null
      : Buffer.from(certificate.replaceAll(/-----[^-]*-----|\s/g, ''), 'base64').toString('base64url')
  return `lndconnect://${host}?${der === null ? '' : `cert=${der}&`}macaroon=${Buffer.from(macaroon).toString('base64url')}`
}

/** A stream wraps its error once more, before its first line under the error's own status. */
function errorReply({ code, message }: LndError, isStream: boolean) {
  const error = { code, message, details: [] }
  return { status: STATUSES[code] ?? 500, body: isStream ? { error } : error }
}

function integer(value: unknown, fallback = 0): number {
  if (value === undefined || value === null) return fallback
  const number = Number(value)
  if (!Number.isSafeInteger(number)) throw new LndError(3, `invalid value for int64 type: ${JSON.stringify(value)}`)
  return number
}

function string(value: unknown): string {
  if (value === undefined) return ''
  if (typeof value !== 'string') throw new LndError(3, `invalid value for string type: ${JSON.stringify(value)}`)
  return value
}

function base64(hex: string): string {
  return Buffer.from(hex, 'hex').toString('base64')
}

function invoiceView(held: HeldInvoice, now: number): object {
  // lnd's watcher cancels what has expired.
  const state = held.state === 'OPEN' && held.createdAt + held.expirySeconds * 1000 <= now ? 'CANCELED' : held.state
  return {
    memo: held.memo,
    r_preimage: base64(held.preimage),
    r_hash: base64(held.paymentHash),
    value: String(held.valueSats),
    value_msat: String(held.valueSats * 1000),
    settled: state === 'SETTLED',
    creation_date: String(held.createdAt / 1000),
    settle_index: String(held.settleIndex),
    settle_date: String(held.settledAt === null ? 0 : Math.floor(held.settledAt / 1000)),
    payment_request: held.invoice,
    expiry: String(held.expirySeconds),
    add_index: String(held.addIndex),
    amt_paid: String(held.paidSats * 1000),
    amt_paid_sat: String(held.paidSats),
    amt_paid_msat: String(held.paidSats * 1000),
    state
  }
}

function paymentView(held: HeldPayment): object {
  return {
    payment_hash: held.paymentHash,
    value_sat: String(held.valueSats),
    payment_request: held.invoice,
    status: held.status,
    fee_sat: String(held.feeSats),
    fee_msat: String(held.feeSats * 1000),
    creation_time_ns: String(BigInt(held.createdAt) * 1_000_000n),
    htlcs:
      held.resolvedAt === null
        ? []
        : [{ status: held.status, resolve_time_ns: String(BigInt(held.resolvedAt) * 1_000_000n + 123n) }],
    failure_reason: held.failureReason
  }
}

function track(payment: HeldPayment, noInflight: boolean): LndStream {
  const isOpen = payment.status === 'IN_FLIGHT'
  return new LndStream(isOpen && noInflight ? [] : [paymentView(payment)], isOpen)
}

function routesOf(wallet: LndWallet, clock: Clock): readonly Route[] {
  return [
    {
      method: 'GET',
      path: /^\/v1\/getinfo$/,
      needs: 'info:read',
      members: [],
      run: () => ({
        alias: 'fake',
        version: '0.20.0-beta',
        chains: [{ chain: 'bitcoin', network: 'regtest' }],
        synced_to_chain: true
      })
    },
    {
      method: 'GET',
      path: /^\/v1\/balance\/channels$/,
      needs: 'offchain:read',
      members: [],
      run: () => ({
        balance: '1',
        remote_balance: { sat: String(wallet.inbound), msat: String(wallet.inbound * 1000) }
      })
    },
    {
      method: 'GET',
      path: /^\/v1\/channels$/,
      needs: 'offchain:read',
      members: ['active_only', 'inactive_only', 'public_only', 'private_only', 'peer'],
      run: ({ url }) => {
        const expected = wallet.channels.filter(({ isPrivate }) =>
          isPrivate ? url.searchParams.get('public_only') !== 'true' : url.searchParams.get('private_only') !== 'true'
        )
        return { channels: expected.map(({ isPrivate }) => ({ active: true, private: isPrivate })) }
      }
    },
    {
      method: 'POST',
      path: /^\/v1\/invoices$/,
      needs: 'invoices:write',
      members: ['value', 'value_msat', 'memo', 'expiry', 'private', 'description_hash'],
      run: ({ body }) => {
        const hashed =
          body['description_hash'] === undefined ? null : Buffer.from(string(body['description_hash']), 'base64')
        if (hashed !== null && hashed.length !== 32) throw new LndError(2, 'description hash must be 32 bytes')
        const held = wallet.addInvoice(
          integer(body['value']),
          string(body['memo']),
          integer(body['expiry']),
          hashed?.toString('hex')
        )
        return {
          r_hash: base64(held.paymentHash),
          payment_request: held.invoice,
          add_index: String(held.addIndex),
          payment_addr: base64(held.preimage)
        }
      }
    },
    {
      method: 'GET',
      path: /^\/v1\/invoices$/,
      needs: 'invoices:read',
      members: [
        'reversed',
        'num_max_invoices',
        'index_offset',
        'creation_date_start',
        'creation_date_end',
        'pending_only'
      ],
      run: ({ url }) => {
        const offset = integer(url.searchParams.get('index_offset'))
        const start = integer(url.searchParams.get('creation_date_start')) * 1000
        const isReversed = url.searchParams.get('reversed') === 'true'
        const all = [...wallet.invoices.values()].filter(held => held.createdAt >= start)
        const most = integer(url.searchParams.get('num_max_invoices')) || 100
        const page = isReversed
          ? all.filter(held => offset === 0 || held.addIndex < offset).slice(-most)
          : all.filter(held => held.addIndex > offset).slice(0, most)
        return {
          invoices: page.map(held => invoiceView(held, clock.now())),
          first_index_offset: String(page[0]?.addIndex ?? 0),
          last_index_offset: String(page.at(-1)?.addIndex ?? 0)
        }
      }
    },
    {
      method: 'GET',
      path: /^\/v1\/invoices\/subscribe$/,
      needs: 'invoices:read',
      members: ['add_index', 'settle_index'],
      // Backlogs begin behind an index; 0 asks for none, so that the first of all is in none
      // (invoices/invoiceregistry.go).
      run: ({ url }) => {
        const all = [...wallet.invoices.values()]
        const added = integer(url.searchParams.get('add_index'))
        const settled = integer(url.searchParams.get('settle_index'))
        return new LndStream(
          [
            ...(added === 0 ? [] : all.filter(held => held.addIndex > added)),
            ...(settled === 0
              ? []
              : all
                  .filter(held => held.settleIndex > settled)
                  .toSorted((one, other) => one.settleIndex - other.settleIndex))
          ].map(held => invoiceView(held, clock.now())),
          true
        )
      }
    },
    {
      method: 'GET',
      path: /^\/v1\/invoice\/([^/]+)$/,
      needs: 'invoices:read',
      members: [],
      run: ({ id }) => {
        if (!/^[0-9a-f]{64}$/i.test(id))
          throw new LndError(2, `payment hash must be exactly 32 bytes, is instead ${id.length / 2}`)
        return invoiceView(wallet.invoice(id.toLowerCase()), clock.now())
      }
    },
    {
      method: 'POST',
      path: /^\/v2\/router\/send$/,
      needs: 'offchain:write',
      members: ['payment_request', 'timeout_seconds', 'fee_limit_sat', 'no_inflight_updates', 'amt'],
      run: ({ body }) => {
        if (body['payment_request'] === undefined) throw new LndError(2, 'invalid vertex length of 0, want 33')
        if (integer(body['timeout_seconds']) < 1) throw new LndError(2, 'timeout_seconds must be specified')
        // Without a limit lnd takes only routes that cost nothing.
        const { outcome } = wallet
        if (integer(body['fee_limit_sat']) < 2) wallet.outcome = 'FAILURE_REASON_NO_ROUTE'
        const payment = wallet.pay(
          string(body['payment_request']),
          body['amt'] === undefined ? null : integer(body['amt'])
        )
        wallet.outcome = outcome
        return track(payment, body['no_inflight_updates'] === true)
      }
    },
    {
      method: 'GET',
      path: /^\/v2\/router\/track\/([^/]+)$/,
      needs: 'offchain:read',
      members: ['no_inflight_updates'],
      run: ({ id, url }) => {
        // Go's decoder insists on the padding.
        if (!/^[A-Za-z0-9_-]{43}=$/.test(decodeURIComponent(id)))
          throw new LndError(3, 'type mismatch, parameter: payment_hash, error: illegal base64 data')
        const payment = wallet.payments.get(Buffer.from(decodeURIComponent(id), 'base64').toString('hex'))
        if (payment === undefined) throw new LndError(5, "payment isn't initiated")
        return track(payment, url.searchParams.get('no_inflight_updates') === 'true')
      }
    },
    {
      method: 'POST',
      path: /^\/v1\/transactions$/,
      needs: 'onchain:write',
      members: ['addr', 'amount', 'target_conf', 'sat_per_vbyte', 'label', 'spend_unconfirmed', 'min_confs'],
      run: ({ body }) => ({
        txid: wallet.sendCoins(string(body['addr']), integer(body['amount']), string(body['label'])).hash
      })
    },
    {
      method: 'GET',
      path: /^\/v1\/transactions$/,
      needs: 'onchain:read',
      members: ['start_height', 'end_height', 'index_offset', 'max_transactions'],
      run: ({ url }) => {
        const all = wallet.list(
          integer(url.searchParams.get('start_height')),
          integer(url.searchParams.get('end_height')) || -1
        )
        const offset = integer(url.searchParams.get('index_offset'))
        const most = integer(url.searchParams.get('max_transactions')) || all.length
        const page = all.slice(offset, offset + most)
        return {
          transactions: page.map(one => ({
            tx_hash: one.hash,
            amount: String(-one.amountSats - one.feeSats),
            num_confirmations: one.height === 0 ? 0 : 1,
            block_height: one.height,
            time_stamp: String(Math.floor(one.at / 1000)),
            total_fees: String(one.feeSats),
            label: one.label
          })),
          last_index: String(offset + page.length - 1),
          first_index: String(offset)
        }
      }
    }
  ]
}

/** A macaroon of the version that lnd bakes. */
export function baked(): Buffer {
  return Buffer.concat([Buffer.of(2), randomBytes(31)])
}
