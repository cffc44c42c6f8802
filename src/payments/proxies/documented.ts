import type { OperationText } from '../../engine/operations/operation.ts'

const input = {
  name: 'Weather',
  targetBaseUrl: 'https://api.example.com/v1',
  defaultPriceSats: 10,
  endpoints: [{ method: 'GET', pathPattern: '/today/*', priceSats: 5 }],
  authHeader: 'Authorization',
  authValue: 'Bearer the-key-of-your-api'
}
const proxy = {
  proxyId: 'weather-3fa9c1',
  proxyUrl: 'https://gateway.example.com/l402/proxy/weather-3fa9c1',
  name: 'Weather',
  description: null,
  targetBaseUrl: 'https://api.example.com/v1',
  defaultPriceSats: 10,
  endpoints: [
    {
      method: 'GET',
      pathPattern: '/today/*',
      priceSats: 5,
      description: null,
      tokenPath: 'exact',
      tokenValiditySeconds: null
    }
  ],
  tokenValiditySeconds: 3600,
  timeout: 30,
  renewal: 'default',
  priceGrace: 0,
  allowedMethods: [],
  allowedPaths: [],
  blockedPaths: [],
  authHeader: 'Authorization',
  hasAuthValue: true,
  isActive: true,
  createdAt: '2026-11-22T10:00:00.000Z',
  updatedAt: '2026-11-22T10:00:00.000Z'
}
const byId = { proxyId: proxy.proxyId }

/** What OpenAPI says of the operations of proxies. */
export const proxyTexts: Readonly<Record<string, OperationText>> = {
  createProxy: {
    description:
      'Puts a price on an API of yours: buyers ask at proxyUrl, pay, and are forwarded to the target. ' +
      'The target must be a public https address; authValue is sent to it and to nobody else.',
    example: { body: input, responses: { 201: proxy } }
  },
  listProxies: {
    description: 'Deleted ones are not among them. The value of authHeader is never shown.',
    example: { responses: { 200: [proxy] } }
  },
  getProxy: {
    description: 'With its prices and limits as they stand, and without the value of authHeader.',
    example: { params: byId, responses: { 200: proxy } }
  },
  updateProxy: {
    description:
      'What is left out stays; a list that is named replaces the one before. Requests in flight end as they began, and new prices hold within seconds.',
    example: {
      params: byId,
      body: { defaultPriceSats: 12, isActive: true },
      responses: { 200: { ...proxy, defaultPriceSats: 12 } }
    }
  },
  deleteProxy: {
    description:
      "Buyers are answered 404 from then on, those with a token too. It frees its place under the plan's cap.",
    example: { params: byId }
  },
  testProxy: {
    description:
      "Asks the target as buyers' requests do, with authHeader, without a payment. Nothing is sold and nothing is counted.",
    example: {
      params: byId,
      responses: { 200: { success: true, statusCode: 200, latencyMs: 84, message: 'The target answered 200.' } }
    }
  }
}
