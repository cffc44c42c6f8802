import { priceWords } from '../../engine/checks/price.ts'
import type { PricedRoute } from '../../engine/openapi/paid.ts'

/** A store with `listInRegistry`. */
export interface ListedStore {
  readonly slug: string
  readonly description: string | null
}

export interface LlmsFacts {
  readonly serviceName: string
  readonly description: string
  readonly publicUrl: string
  readonly pricedRoutes: readonly PricedRoute[]
  readonly stores: readonly ListedStore[]
}

/** `/llms.txt`: how an agent finds and pays for what is sold here, as plain text. */
export function llmsText({ serviceName, description, publicUrl, pricedRoutes, stores }: LlmsFacts): string {
  const routes = pricedRoutes.map(route => {
    const methods = route.methods.length === 0 ? 'any method' : route.methods.join(', ').toUpperCase()
    const price = route.price === null ? 'price varies' : priceWords(route.price)
    return `- ${route.path} (${methods}): ${price}. ${route.description}`
  })
  const shops = stores.map(
    ({ slug, description: about }) =>
      `- [${slug}](${publicUrl}/api/storefront/${slug}/llms.txt)${about === null ? '' : `: ${oneLine(about)}`}`
  )
  return `# ${serviceName}

> ${description}

Address: ${publicUrl}

## How to pay
1. Send the request. A response of 402 carries one Lightning invoice in two WWW-Authenticate lines, L402 and Payment.
2. Pay the invoice; your wallet gives you the preimage (64 hex characters).
3. Send the same request again with one of
   - Authorization: L402 <macaroon>:<preimage> (good until the token expires, for the same path and price)
   - Authorization: Payment <base64url of {"challenge":{...},"payload":{"preimage":"..."}}> (good once)
   Where the price buys a balance, either is good until that is used up; \`GET ${publicUrl}/l402/balance\` with it says what is left.
A 503 means that nothing was charged: wait as long as Retry-After says.

## Paid routes
${routes.length === 0 ? 'None.' : routes.join('\n')}

## Stores
Goods are bought with one invoice, without an account: \
\`POST ${publicUrl}/api/storefront/{slug}/checkout\`. Each store tells how at \`/api/storefront/{slug}/llms.txt\`.
${shops.length === 0 ? 'None is listed here.' : shops.join('\n')}

## Selling here
With an API key (header X-API-Key) a merchant takes payments, gives refunds, puts a price on an API of its own (\`/api/proxy\`)
and makes challenges for what it serves itself (\`/api/l402/challenges\`).
- [Plans](${publicUrl}/api/billing/pricing), [in bitcoin](${publicUrl}/api/bitcoin/pricing)
- [Every operation](${publicUrl}/api/openapi.json)

## More
- [What is for sale, as OpenAPI](${publicUrl}/openapi.json): with prices in x-payment-info
- [The same for L402 clients](${publicUrl}/.well-known/l402.json)
- [Prices](${publicUrl}/api/l402/pricing)
- [Health](${publicUrl}/health)
`
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim()
}
