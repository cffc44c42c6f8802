import type { AdminKey } from '../../accounts/merchants/admin-key.ts'
import type { Context } from '../../engine/message/context.ts'
import type { Offer } from '../offers/offer.ts'

/** Names that directories give their crawlers. Anyone may take one: it gets an unpaid invoice that others got too. */
const CRAWLER = /402-?index|open402directory|satring|probe402|x402scan|mppscan/i
const MAX_AGENT = 512

/** Seconds that crawlers share an invoice. */
const HOUR = 3600

/** Bound into the token of `boltgate pay --test`. */
export const TEST_BOUND = 'own tests'
export const TEST_HEADER = 'boltgate-test'

export function isCrawler(userAgent: string | undefined): boolean {
  return userAgent !== undefined && CRAWLER.test(userAgent.slice(0, MAX_AGENT))
}

/** The operator's own request, which its admin key signed. Merchants' sales are theirs. */
export function isOwnTest(ctx: Context, { merchantId }: Offer, adminKey: Pick<AdminKey, 'holdsSession'>): boolean {
  const token = merchantId === null ? ctx.headers.get(TEST_HEADER) : undefined
  return token !== undefined && adminKey.holdsSession(token, ctx.now, TEST_BOUND)
}

/** A price that follows a rate or a server would be fixed for an hour. */
export function hourly(offer: Offer): Offer {
  if (offer.fiat !== null || offer.asked !== null) return offer
  return { ...offer, invoiceExpirySeconds: Math.max(offer.invoiceExpirySeconds, HOUR) }
}
