import type { GatewayConfig } from '../../engine/config/schema.ts'
import { checkRealm } from '../../lightning/payment-scheme/payment-challenge.ts'
import { inOrder, type Scheme } from './accept-payment.ts'
import type { RouteDefaults } from './offer.ts'

/** Pay-per-request settings. Times in milliseconds. Frozen; a reload makes a new object. */
export interface ChallengeSettings extends RouteDefaults {
  readonly realm: string
  readonly schemes: readonly Scheme[]
  /** Public origin that x402 invoices are bound to; null if x402 is off. */
  readonly x402Origin: string | null
  /** x402 comes before Payment: MCP results, which have room for one, ask for it. */
  readonly x402First: boolean
  /** Accept-Payment may put the Payment line first. */
  readonly orderByClient: boolean
  /** Also send a challenge line under the old name LSAT. */
  readonly lsat: boolean
  readonly macaroonLocation: string
  /** Open invoices per client and binding before the newest is reused (decision 122). */
  readonly maxPerClient: number
  /** Open invoices per client and place before it gets 429 (decision 175). */
  readonly maxPerPlace: number
  /** Maximum time until a dead gateway's lease is free. */
  readonly leaseTimeout: number
}

/** @throws Error if the host of publicUrl is no realm of the Payment scheme */
export function challengeSettings(config: Pick<GatewayConfig, 'payment' | 'server'>): ChallengeSettings {
  const { payment, server } = config
  const realm = hostOf(server.publicUrl, server.listen.host)
  const fault = checkRealm(realm)
  if (fault !== null) throw new Error(`server.publicUrl: ${fault}`)
  const schemes = inOrder(
    [...new Set(payment.schemes)].filter(scheme => scheme !== 'x402'),
    payment.order === 'payment-first' ? 'payment-first' : 'l402-first'
  )
  return Object.freeze({
    realm,
    schemes,
    x402Origin:
      payment.schemes.includes('x402') && URL.canParse(server.publicUrl) ? new URL(server.publicUrl).origin : null,
    x402First: payment.schemes.includes('x402') && payment.schemes.indexOf('x402') < payment.schemes.indexOf('payment'),
    orderByClient: payment.order === 'auto',
    lsat: payment.l402Lsat,
    macaroonLocation: 'l402',
    maxPerClient: payment.maxOutstanding.address,
    maxPerPlace: 4 * payment.maxOutstanding.address,
    leaseTimeout: payment.leaseTimeout,
    serviceName: payment.serviceName,
    publicHost: URL.canParse(server.publicUrl) ? new URL(server.publicUrl).host : '',
    tokenValidity: payment.tokenValidity,
    invoiceExpiry: payment.invoiceExpiry
  })
}

/** The host of publicUrl, or of the listening address (decision 118). */
function hostOf(publicUrl: string, listenHost: string): string {
  if (URL.canParse(publicUrl)) return new URL(publicUrl).hostname
  return listenHost
}
