import { openApiDocument, type PricedRoute } from '../gateway/openapi.ts'
import { defineOperation, type AnyOperation } from '../gateway/operation.ts'

/** What agents and people can find out about this gateway without a key. */
export interface DiscoveryFacts {
  publicUrl (): string
  serviceName (): string
  /** Every operation that is mounted; asked for when the document is first read. */
  operations (): readonly AnyOperation[]
  pricedRoutes (): readonly PricedRoute[]
}

const DESCRIPTION = 'Pay-per-request access over Lightning: L402 and the HTTP Payment scheme on the same 402, backed by one invoice.'

/** `GET /openapi.json` and `GET /llms.txt`. */
export function discoveryOperations (facts: DiscoveryFacts): AnyOperation[] {
  const openapi = defineOperation({
    id: 'getOpenApi',
    method: 'GET',
    path: '/openapi.json',
    summary: 'This description as OpenAPI 3.1',
    tag: 'discovery',
    access: 'public',
    answers: { 200: { description: 'The document.', mediaType: 'application/json; charset=utf-8' } },
    handle () {
      const document = openApiDocument(facts.operations(), {
        title: facts.serviceName(),
        description: DESCRIPTION,
        publicUrl: facts.publicUrl(),
        pricedRoutes: facts.pricedRoutes()
      })
      return { status: 200, body: JSON.stringify(document), headers: ['Cache-Control', 'public, max-age=60'] }
    }
  })
  const llms = defineOperation({
    id: 'getLlmsText',
    method: 'GET',
    path: '/llms.txt',
    summary: 'How an agent pays here, in plain text',
    tag: 'discovery',
    access: 'public',
    answers: { 200: { description: 'The text.', mediaType: 'text/plain; charset=utf-8' } },
    handle: () => ({ status: 200, body: llmsText(facts), headers: ['Cache-Control', 'public, max-age=60'] })
  })
  return [openapi, llms]
}

function llmsText (facts: DiscoveryFacts): string {
  const routes = facts.pricedRoutes().map(route => {
    const methods = route.methods.length === 0 ? 'any method' : route.methods.join(', ').toUpperCase()
    const price = route.amountSats === null ? 'price varies' : `${route.amountSats} sat${route.amountSats === 1 ? '' : 's'}`
    return `- ${route.path} (${methods}): ${price}. ${route.description}`
  })
  return `# ${facts.serviceName()}

> ${DESCRIPTION}

Address: ${facts.publicUrl()}

## How to pay
1. Send the request. An answer of 402 carries one Lightning invoice in two WWW-Authenticate lines, L402 and Payment.
2. Pay the invoice; your wallet gives you the preimage (64 hex characters).
3. Send the same request again with one of
   - Authorization: L402 <macaroon>:<preimage> (good until the token expires, for the same path and price)
   - Authorization: Payment <base64url of {"challenge":{...},"payload":{"preimage":"..."}}> (good once)
A 503 means that nothing was charged: wait as long as Retry-After says.

## Paid routes
${routes.length === 0 ? 'None.' : routes.join('\n')}

## More
- [OpenAPI](${facts.publicUrl()}/openapi.json): every operation, with prices in x-payment-info
- [Prices](${facts.publicUrl()}/api/l402/pricing)
- [Health](${facts.publicUrl()}/health)
`
}
