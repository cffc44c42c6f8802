import type { OperationText } from '../engine/operations/operation.ts'

const TOKEN = 'uJ0mZ5q3W8nX1rT6vY2bC4dE7fG9hK0lM3nP5qR8sTw'
const bySlug = { slug: 'demo' }
const shippingAddress = {
  firstName: 'Grace',
  lastName: 'Hopper',
  address1: '1 Market Street',
  city: 'San Francisco',
  province: 'CA',
  zip: '94103',
  country: 'US'
}
const paidOrder = {
  orderId: 'ord_4f1c2a9b8d7e6f50',
  status: 'PaidAwaitingDetails',
  storefrontOrderNumber: null,
  claimPageUrl: `https://gateway.example.com/storefront/demo/claim?claimToken=${TOKEN}`,
  message: 'Paid. Now say where the order goes: with POST …/claim, or at claimPageUrl.'
}
const orderRow = {
  orderId: paidOrder.orderId,
  status: 'Fulfilled',
  totalUsd: 19.42,
  paidSats: 32367,
  email: 'grace@example.com',
  storefrontOrderNumber: '1001',
  createdAt: '2026-11-22T10:15:00.000Z'
}
const { email: _email, ...seenRow } = orderRow
const progress = {
  trackingNumber: null,
  trackingCarrier: null,
  trackingUrl: null,
  paidAt: '2026-11-22T10:16:00.000Z',
  shippedAt: null
}
const store = {
  slug: 'example-books',
  storefrontDomain: 'example.myshopify.com',
  shopHandle: 'example',
  shopName: 'Example Books',
  shopCountry: 'US',
  hasAdminApiToken: true,
  domesticShippingUsd: 4.5,
  domesticOnly: true,
  freeShippingEnabled: false,
  freeShippingThresholdUsd: null,
  defaultTaxLocation: null,
  claimWindowDays: 30,
  isActive: true,
  listInRegistry: true,
  registryCategories: '["books"]',
  registryDescription: 'Books about money',
  createdAt: '2026-11-01T08:00:00.000Z',
  updatedAt: '2026-11-01T08:00:00.000Z'
}
const counters = {
  totalCheckouts: 4,
  paidOrders: 3,
  conversionRate: 0.75,
  totalPaidSats: 97101,
  totalPaidUsd: 58.26,
  fulfilled: 3,
  shipped: 1,
  firstOrderAt: '2026-11-02T09:00:00.000Z',
  lastOrderAt: '2026-11-22T10:15:00.000Z'
}

/** What OpenAPI says of what buyers do at a store, and of the notifications of its platform. */
export const storefrontPublicTexts: Readonly<Record<string, OperationText>> = {
  getStoreCatalog: {
    description:
      "Prices and stock are the platform's, read every few minutes. A checkout names the variantId of each thing.",
    example: {
      params: bySlug,
      responses: {
        200: {
          storeName: 'Sandbox shop',
          slug: 'demo',
          shipping: {
            domesticUsd: 4.5,
            domesticOnly: false,
            freeShippingEnabled: false,
            freeShippingThresholdUsd: null
          },
          products: [
            {
              productId: 101,
              title: 'Coin mug',
              description: 'A stoneware mug with an orange coin on its side.',
              imageUrl: null,
              variants: [{ variantId: 10101, title: 'Small', priceUsd: 12.5, available: true }]
            }
          ]
        }
      }
    }
  },
  getStoreManifest: {
    description: 'The whole way from the catalog to the parcel, with the addresses of this store.',
    example: {
      params: bySlug,
      responses: { 200: '# Sandbox shop\n\nGET https://gateway.example.com/api/storefront/demo/catalog\n' }
    }
  },
  checkOut: {
    description:
      'The first request reserves the price with tax and shipping for the life of the invoice. Pay it and send the same request with the credential: ' +
      'the answer has the claimPageUrl, with which the order is claimed. Nothing is sent to anybody before that.',
    example: {
      params: bySlug,
      body: { items: [{ variantId: 10101, quantity: 1 }], email: 'grace@example.com' },
      responses: { 200: paidOrder }
    }
  },
  claimOrder: {
    description:
      'Once it has worked the address cannot be changed here. Claim within the window that checkout answered as claimExpiresAt.',
    example: {
      params: bySlug,
      body: { claimToken: TOKEN, email: 'grace@example.com', shippingAddress },
      responses: {
        200: {
          ...paidOrder,
          status: 'Fulfilled',
          storefrontOrderNumber: '1001',
          message: "Paid and claimed. The order's status says how far it is."
        }
      }
    }
  },
  askForRefund: {
    description: 'For a buyer whose paid order the shop did not make, and who does not want to wait.',
    example: {
      params: bySlug,
      body: { claimToken: TOKEN, refundAddress: 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080' },
      responses: {
        200: {
          ...seenRow,
          ...progress,
          status: 'PaidWithDetails',
          storefrontOrderNumber: null,
          failure: {
            reason: 'sold_out',
            message: 'Something in the order is sold out.',
            failedAt: '2026-11-22T10:20:00.000Z'
          },
          refundRequest: {
            refundAddress: 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080',
            refundType: 'chain',
            requestedAt: '2026-11-22T10:25:00.000Z'
          }
        }
      }
    }
  },
  getStoreOrder: {
    description:
      "Needs the claim token, which only the buyer has: without it, or with another order's, there is no such order.",
    example: { params: { ...bySlug, orderId: orderRow.orderId }, responses: { 200: { ...seenRow, ...progress } } }
  },
  receiveStoreNotification: {
    description: 'For the platform alone, which signs what it sends: it moves orders on to Shipped, or calls them off.',
    example: { params: bySlug, body: { id: 450789469, fulfillments: [] }, responses: { 200: { received: true } } }
  }
}

/** What OpenAPI says of the merchant's side of its store. */
export const storefrontMerchantTexts: Readonly<Record<string, OperationText>> = {
  getStorefront: {
    description: 'With all settings, and whether credentials for the platform are stored.',
    example: { responses: { 200: store } }
  },
  createStorefront: {
    description:
      'Asks the platform for the shop with the credentials given, so a store that opens is one that works. It sells at once unless isActive is false.',
    example: {
      body: {
        slug: 'example-books',
        storefrontDomain: 'example.myshopify.com',
        clientId: 'your-app-id',
        clientSecret: 'your-app-secret',
        domesticShippingUsd: 4.5,
        domesticOnly: true
      },
      responses: { 201: store }
    }
  },
  updateStorefront: {
    description:
      'What is left out stays. Orders that were checked out before keep their prices and their window; the catalog is read anew.',
    example: {
      body: { domesticShippingUsd: 5, isActive: true },
      responses: { 200: { ...store, domesticShippingUsd: 5 } }
    }
  },
  invalidateStorefrontCache: {
    description: 'For a change at the platform that buyers should see at once; it is seen within minutes anyway.',
    example: {
      responses: {
        200: { success: true, message: 'The catalog of example-books is read from the platform with the next request.' }
      }
    }
  },
  refreshStorefrontShopInfo: {
    description: 'For a shop that was renamed or has moved. It tries the stored credentials too.',
    example: { responses: { 200: store } }
  },
  getStorefrontStats: {
    description: 'Counts every order there ever was, those that are no longer kept too.',
    example: {
      responses: {
        200: {
          merchantId: 7,
          total: { totalIntegrations: 1, ...counters },
          byStore: [{ slug: store.slug, storefrontDomain: store.storefrontDomain, ...counters }]
        }
      }
    }
  },
  listStorefrontOrders: {
    description:
      'An order with failure was paid and not made by the shop; one with refundRequest waits for a refund by POST /api/refunds with its orderId.',
    example: { responses: { 200: [orderRow] } }
  }
}

/** What OpenAPI says of the operator's side of orders. */
export const storefrontAdminTexts: Readonly<Record<string, OperationText>> = {
  adminListTroubledOrders: {
    description: 'Somebody has paid and has neither goods nor money: retry the order, or have its merchant refund it.',
    example: {
      responses: {
        200: [
          {
            ...orderRow,
            status: 'PaidWithDetails',
            storefrontOrderNumber: null,
            merchantId: 7,
            failure: {
              reason: 'sold_out',
              message: 'Inventory is not available.',
              failedAt: '2026-11-22T10:20:00.000Z'
            }
          }
        ]
      }
    }
  },
  adminRetryStorefrontOrder: {
    description: 'An order that the platform made although its answer was lost is found by its id and not made twice.',
    example: { params: { orderId: orderRow.orderId }, responses: { 200: { ...orderRow, ...progress } } }
  }
}

/** What OpenAPI says of the pages of stores. */
export const storefrontPageTexts: Readonly<Record<string, OperationText>> = {
  getShopPage: {
    description: 'For people who follow a link. Nothing can be bought on it: it says how an agent buys.',
    example: { params: bySlug }
  },
  getClaimPage: {
    description:
      'The claim token in its address is all that opens it: treat the address as a secret. Opening it changes nothing.',
    example: { params: bySlug }
  },
  claimOnPage: {
    description:
      'Does what POST /api/storefront/{slug}/claim does, for a page without a program. Sent twice, it claims once.',
    example: {
      params: bySlug,
      body: { email: 'grace@example.com', ...shippingAddress }
    }
  },
  askForRefundOnPage: {
    description:
      'Does what POST /api/storefront/{slug}/refund-request does, for a page without a program. Nothing is sent by this.',
    example: { params: bySlug, body: { refundAddress: 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080' } }
  }
}
