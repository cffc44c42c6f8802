import type { GatewayConfig } from '../../engine/config/schema.ts'
import { checkRealm } from '../../lightning/payment-scheme/payment-challenge.ts'
import { inOrder, type Scheme } from './accept-payment.ts'
import type { RouteDefaults } from './offer.ts'

/** What pay-per-request takes from the configuration. Times in milliseconds. Frozen; a reload makes a new one. */
export interface ChallengeSettings extends RouteDefaults {
  readonly realm: string
  /** Schemes offered in a 402, in the order of their lines when the client has no wish. */
  readonly schemes: readonly Scheme[]
  /** Whether Accept-Payment may put the Payment line first. */
  readonly orderByClient: boolean
  /** Also send a challenge line under the old name LSAT. */
  readonly lsat: boolean
  readonly problemBase: string
  readonly macaroonLocation: string
  /** Open invoices of one client for one binding before the newest is handed out again (decision 122). */
  readonly maxPerClient: number
  /** Open invoices of one client in one place before the response is 429, for this client alone (decision 175). */
  readonly maxPerPlace: number
  /** A lease of a gateway that died is free again after at most this time. */
  readonly leaseTimeout: number
}

/**
 * Reads the settings.
 * @throws Error when the realm, given or taken from publicUrl, is one that the Payment scheme cannot carry
 */
export function challengeSettings(config: Pick<GatewayConfig, 'payment' | 'server'>): ChallengeSettings {
  const { payment, server } = config
  const realm = payment.realm === '' ? hostOf(server.publicUrl, server.listen.host) : payment.realm
  const fault = checkRealm(realm)
  if (fault !== null) throw new Error(`payment.realm: ${fault}`)
  const schemes = inOrder(
    [...new Set(payment.schemes)],
    payment.order === 'payment-first' ? 'payment-first' : 'l402-first'
  )
  return Object.freeze({
    realm,
    schemes,
    orderByClient: payment.order === 'auto',
    lsat: payment.l402Lsat,
    problemBase: payment.problemBase,
    macaroonLocation: payment.macaroonLocation,
    maxPerClient: payment.maxOutstanding.address,
    maxPerPlace: payment.maxOutstanding.place,
    leaseTimeout: payment.leaseTimeout,
    serviceName: payment.serviceName,
    publicHost: URL.canParse(server.publicUrl) ? new URL(server.publicUrl).host : '',
    defaultPrice: payment.defaultPrice,
    tokenValidity: payment.tokenValidity,
    invoiceExpiry: payment.invoiceExpiry
  })
}

/** The realm where none is configured: the host name of publicUrl, or of the address listened on (decision 118). */
function hostOf(publicUrl: string, listenHost: string): string {
  if (URL.canParse(publicUrl)) return new URL(publicUrl).hostname
  return listenHost
}
