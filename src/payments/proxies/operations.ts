import { Type } from 'typebox'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { merchantOf, merchantOperation } from '../../accounts/merchants/principal.ts'
import { ProbeView, ProxyChange, ProxyInput, ProxyView } from './schema.ts'
import type { ProxyService } from './service.ts'

// Malformed ids are 404 like unknown ones (decision 10).
const ProxyId = Type.Object({ proxyId: Type.String() })
const missing = "There is no such proxy, or it is another merchant's."
const capped = 'A cap of the plan was reached; paying an invoice does not help.'

export function proxyOperations(proxies: ProxyService): AnyOperation[] {
  const common = { tag: 'proxies', access: 'merchant' } as const
  const reads = { ...common, method: 'GET', mount: { use: 'merchant-api', chain: 'proxies-read' } } as const
  const writes = { ...common, mount: { use: 'merchant-api', chain: 'proxies-write' } } as const
  return [
    defineOperation({
      ...writes,
      id: 'createProxy',
      method: 'POST',
      path: '/api/proxy',
      summary: 'Create a proxy',
      description:
        'Puts a price on an API of yours: buyers ask at proxyUrl, pay, and are forwarded to the target. ' +
        'The target must be a public https address; authValue is sent to it only.',
      body: ProxyInput,
      responses: { 201: { description: 'Created.', schema: ProxyView }, 402: capped },
      handle: async ({ ctx, body }) => {
        const view = await proxies.create(merchantOf(ctx), body)
        return { status: 201, body: view, headers: ['Location', `/api/proxy/${view.proxyId}`] }
      }
    }),
    merchantOperation({
      ...reads,
      id: 'listProxies',
      path: '/api/proxy',
      summary: "List the merchant's proxies, newest first",
      description: 'Without deleted ones. The value of authHeader is never shown.',
      responses: { 200: { description: 'A bare array.', schema: Type.Array(ProxyView) } },
      handle: ({ merchant }) => proxies.list(merchant)
    }),
    merchantOperation({
      ...reads,
      id: 'getProxy',
      path: '/api/proxy/:proxyId',
      summary: 'One proxy',
      description: 'With its current prices and limits, without the value of authHeader.',
      params: ProxyId,
      responses: { 200: { description: 'The proxy.', schema: ProxyView }, 404: missing },
      handle: ({ merchant, params }) => proxies.get(merchant, params.proxyId)
    }),
    merchantOperation({
      ...writes,
      id: 'updateProxy',
      method: 'PUT',
      path: '/api/proxy/:proxyId',
      summary: 'Update the given fields',
      description:
        'What is left out stays; a list that is named replaces the one before. Requests in flight end as they began, and new prices hold within seconds.',
      params: ProxyId,
      body: ProxyChange,
      responses: { 200: { description: 'The updated proxy.', schema: ProxyView }, 402: capped, 404: missing },
      handle: ({ merchant, params, body }) => proxies.update(merchant, params.proxyId, body)
    }),
    merchantOperation({
      ...writes,
      id: 'deleteProxy',
      method: 'DELETE',
      path: '/api/proxy/:proxyId',
      summary: 'Delete a proxy',
      description:
        "Buyers are answered 404 from then on, those with a token too. It frees its place under the plan's cap.",
      params: ProxyId,
      responses: { 204: { description: 'Deleted.' }, 404: missing },
      handle: ({ merchant, params }) => proxies.delete(merchant, params.proxyId)
    }),
    merchantOperation({
      ...writes,
      id: 'testProxy',
      unaudited: true,
      method: 'POST',
      path: '/api/proxy/:proxyId/test',
      summary: 'Send one GET to the target',
      description:
        "Asks the target as buyers' requests do, with authHeader, without a payment. Nothing is sold and nothing is counted.",
      params: ProxyId,
      responses: {
        200: {
          description: 'The response of the target; success is false if it rejected the request.',
          schema: ProbeView
        },
        404: missing
      },
      handle: ({ merchant, params }) => proxies.test(merchant, params.proxyId)
    })
  ]
}
