import type { Catalog } from '../platform.ts'

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
