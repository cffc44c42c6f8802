import type { Catalog } from '../platform.ts'
import type { BuyerLocation } from '../schema.ts'

/** What every sandbox shop sells. One variant is sold out, to try that. */
export const SANDBOX_CATALOG: Catalog = Object.freeze({
  storeName: 'Sandbox shop',
  products: [
    {
      productId: 101,
      title: 'Coin mug',
      description: 'A stoneware mug with an orange coin on its side. Holds coffee, not keys.',
      imageUrl: null,
      variants: [
        { variantId: 10101, title: 'Small', priceCents: 1250, available: true },
        { variantId: 10102, title: 'Large', priceCents: 1590, available: true }
      ]
    },
    {
      productId: 102,
      title: 'Lightning socks',
      description: 'Knitted cotton socks with a bolt at each ankle.',
      imageUrl: null,
      variants: [
        { variantId: 10201, title: 'S/M', priceCents: 995, available: true },
        { variantId: 10202, title: 'L/XL', priceCents: 995, available: true }
      ]
    },
    {
      productId: 103,
      title: 'Sticker pack',
      description: 'Twelve stickers for the lid of a laptop.',
      imageUrl: null,
      variants: [{ variantId: 10301, title: 'Default', priceCents: 420, available: true }]
    },
    {
      productId: 104,
      title: 'Pocket notebook',
      description: 'Ninety-six pages that need no charger.',
      imageUrl: null,
      variants: [
        { variantId: 10401, title: 'Plain', priceCents: 735, available: true },
        { variantId: 10402, title: 'Dotted', priceCents: 785, available: true }
      ]
    },
    {
      productId: 105,
      title: 'Block zero T-shirt',
      description: 'Heavy cotton, black, with the first block header in small print.',
      imageUrl: null,
      variants: [
        { variantId: 10501, title: 'S', priceCents: 2400, available: true },
        { variantId: 10502, title: 'M', priceCents: 2400, available: true },
        { variantId: 10503, title: 'L', priceCents: 2400, available: true },
        { variantId: 10504, title: 'XL', priceCents: 2600, available: false }
      ]
    },
    {
      productId: 106,
      title: 'Precision screwdriver',
      description: 'For opening small computers, and closing them again.',
      imageUrl: null,
      variants: [{ variantId: 10601, title: 'Default', priceCents: 1849, available: true }]
    },
    {
      productId: 107,
      title: 'A short history of money',
      description: 'From shells to satoshis in 180 pages.',
      imageUrl: null,
      variants: [
        { variantId: 10701, title: 'Paperback', priceCents: 1399, available: true },
        { variantId: 10702, title: 'Hardcover', priceCents: 2899, available: true }
      ]
    }
  ]
})

/** Invented tax rates in hundredths of a percent, by `country-state`, else by country. */
const RATES: Readonly<Record<string, number>> = Object.freeze({
  'US-CA': 725,
  'US-CO': 290,
  'US-FL': 600,
  'US-IL': 625,
  'US-MA': 625,
  'US-NJ': 663,
  'US-NY': 888,
  'US-PA': 600,
  'US-TX': 825,
  'US-WA': 650,
  'US-DE': 0,
  'US-MT': 0,
  'US-NH': 0,
  'US-OR': 0,
  US: 500,
  'CA-ON': 1300,
  'CA-QC': 1498,
  CA: 500
})

/** Hundredths of a percent; 0 abroad. */
export function sandboxRate({ country, state }: Pick<BuyerLocation, 'country' | 'state'>): number {
  return RATES[`${country}-${state}`] ?? RATES[country] ?? 0
}

/** Cents, half a cent rounded up, in whole numbers. */
export function taxOf(amountCents: number, rate: number): number {
  const tenThousandths = amountCents * rate + 5_000
  return (tenThousandths - (tenThousandths % 10_000)) / 10_000
}
