import { priceWords } from '../../engine/checks/price.ts'
import { titleOf } from '../../engine/sections/suite.ts'
import { aboutOf, type SaleFacts } from './manifests.ts'

export interface ListedStore {
  readonly slug: string
  readonly description: string | null
}

interface LlmsFacts extends SaleFacts {
  readonly stores: readonly ListedStore[]
  serves(path: string): boolean
  /** Whether invoices are paid at `/sandbox/pay`. */
  readonly isSandbox: boolean
}

/** `/llms.txt`: how an agent finds and pays for what is sold here, as plain text. */
export function llmsText({ config, publicUrl, pricedRoutes, stores, serves, isSandbox }: LlmsFacts): string {
  const sellsByX402 = config.payment.schemes.includes('x402')
  const routes = pricedRoutes.flatMap(({ path, methods, price, description: about, examples }) => [
    `- ${path} (${methods.length === 0 ? 'any method' : methods.join(', ').toUpperCase()}): ${price === null ? 'price varies' : priceWords(price)}. ${oneLine(about)}`,
    ...examples.map(
      ({ method, target, body }) =>
        `  - Example: ${method} ${publicUrl}${target}${body === undefined ? '' : ` with the body ${typeof body === 'string' ? oneLine(body) : JSON.stringify(body)}`}`
    )
  ])
  const shops = stores.map(
    ({ slug, description: about }) =>
      `- [${slug}](${publicUrl}/api/storefront/${slug}/llms.txt)${about === null ? '' : `: ${oneLine(about)}`}`
  )
  const links = (list: ReadonlyArray<readonly [path: string, text: string, after?: string]>): string =>
    list
      .flatMap(([path, text, after = '']) => (serves(path) ? [`- [${text}](${publicUrl}${path})${after}\n`] : []))
      .join('')
  return `# ${titleOf(config)}

> ${aboutOf(config)}

Address: ${publicUrl}

## How to pay
1. Send the request. A response of 402 carries one Lightning invoice in two WWW-Authenticate lines, L402 and Payment.${
    sellsByX402
      ? '\n   Where one request is sold, PAYMENT-REQUIRED offers the same invoice by x402 version 2, scheme exact on lnbtc.'
      : ''
  }
2. Pay the invoice; your wallet gives you the preimage (64 hex characters).${
    isSandbox
      ? `\n   This is a sandbox, no money is involved: from this machine, \`POST ${publicUrl}/sandbox/pay\` with \`{"invoice": "<invoice>"}\` returns the preimage.`
      : ''
  }
3. Send the same request again with one of
   - Authorization: L402 <macaroon>:<preimage> (valid until the token expires, for the same path and price)
   - Authorization: Payment <base64url of {"challenge":{...},"payload":{"preimage":"..."}}> (valid once)${
     sellsByX402
       ? '\n   - PAYMENT-SIGNATURE: <base64 of {"x402Version":2,"accepted":{...},"payload":{"preimage":"..."}}> (valid once)'
       : ''
   }${
     pricedRoutes.some(({ calls }) => calls !== undefined)
       ? '\n   A JSON-RPC call is paid inside its message: error -32042 has the challenge with the invoice in error.data.challenges. Send the call again with\n   params._meta["org.paymentauth/credential"] = {"challenge":{...},"payload":{"preimage":"..."}} (valid once).'
       : ''
   }
   Where the price buys a balance, both are valid until it is used up; \`GET ${publicUrl}/l402/balance\` with the credential returns the remainder.
503 means that nothing was charged: wait for Retry-After.

## Paid routes
${routes.length === 0 ? 'None.' : routes.join('\n')}
${
  serves('/api/storefront/x/checkout')
    ? `
## Stores
Goods are bought with one invoice, without an account: \`POST ${publicUrl}/api/storefront/{slug}/checkout\`. Each store says how at \`/api/storefront/{slug}/llms.txt\`.
${shops.length === 0 ? 'No stores are listed.' : shops.join('\n')}
`
    : ''
}${
    serves('/api/proxy')
      ? `
## Selling here
With an API key (header X-API-Key) a merchant takes payments, gives refunds, puts a price on an API of its own (\`/api/proxy\`)
and makes challenges for what it serves itself (\`/api/l402/challenges\`).
${links([
  ['/api/billing/pricing', 'Plans'],
  ['/api/bitcoin/pricing', 'Plans in bitcoin']
])}`
      : ''
  }
## More
${links([
  ['/openapi.json', 'What is for sale, as OpenAPI', ': with prices in x-payment-info'],
  [
    '/api/openapi/index.json',
    'Every operation, by topic',
    ': a list with links to one small OpenAPI document for each'
  ],
  ['/api/openapi.json', 'Every operation, as one OpenAPI document'],
  ['/.well-known/l402.json', 'The offers for L402 clients'],
  ['/api/l402/pricing', 'Prices'],
  ['/health', 'Health']
])}`
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim()
}
