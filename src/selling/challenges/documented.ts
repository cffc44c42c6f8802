import type { OperationText } from '../../engine/operations/operation.ts'

const HASH = '4d784aaa1f64c1b2b6b4a9d0a4c7c3f0e9d3a7b5c1f2e4d6a8b0c2d4e6f80123'
const PREIMAGE = '2f1c6b0a9d8e7f605142332415060708090a0b0c0d0e0f101112131415161718'
const RESOURCE = '/reports/2026-11'
const challenge = {
  paymentHash: HASH,
  resource: RESOURCE,
  amountSats: 250,
  status: 'paid',
  createdAt: '2026-11-22T10:15:00.000Z',
  paidAt: '2026-11-22T10:15:30.000Z',
  expiresAt: '2026-11-22T10:25:00.000Z',
  idempotencyKey: 'report-7-buyer-3'
}
const page = { limit: 50, offset: 0 }
const byHash = { paymentHash: HASH }

/** What OpenAPI says of the producer API, of the public operations of L402, and of the ping. */
export const challengeTexts: Readonly<Record<string, OperationText>> = {
  createChallenge: {
    description:
      'For an API that is served elsewhere: answer your buyer with 402 and these values, then have what the buyer sends back verified. ' +
      "The first challenge for a resource takes a place under the plan's cap of endpoints.",
    example: {
      body: {
        resource: RESOURCE,
        priceSats: 250,
        description: 'The report of November',
        idempotencyKey: 'report-7-buyer-3'
      },
      responses: {
        200: {
          invoice: 'lnbcrt2500n1p5q0example',
          macaroon: 'AgEJbG9jYWxob3N0AkIAAExampleMacaroon',
          paymentHash: HASH,
          expiresAt: challenge.expiresAt,
          resource: RESOURCE,
          priceSats: 250,
          mppChallenge:
            'Payment id="bHkEx4mpl3", realm="gateway.example.com", method="lightning", intent="charge", request="eyJhbW91bnQiOiIyNTAifQ"'
        }
      }
    }
  },
  listChallenges: {
    description:
      'paid means that a credential was verified: an invoice that was paid and never used reads as unpaid, and later as expired.',
    example: { responses: { 200: { challenges: [challenge], total: 1, ...page, status: null, since: null } } }
  },
  getChallenge: {
    description: 'How one challenge stands, by the payment hash of its invoice.',
    example: { params: byHash, responses: { 200: challenge } }
  },
  listEndpoints: {
    description: "Those that are not retired count for the plan's cap, together with the account's proxies.",
    example: {
      responses: {
        200: { endpoints: [{ resource: RESOURCE, createdAt: challenge.createdAt, retiredAt: null }], total: 1, ...page }
      }
    }
  },
  retireEndpoint: {
    description: 'No challenge can be made for the resource from then on; credentials that were sold go on being good.',
    example: { body: { resource: RESOURCE } }
  },
  verifyToken: {
    description:
      'Checks signature, preimage, term and revocation. It uses nothing up: a token is good for every request until it ends. ' +
      'Compare resource with what the buyer asked for.',
    example: {
      body: { macaroon: 'AgEJbG9jYWxob3N0AkIAAExampleMacaroon', preimage: PREIMAGE },
      responses: { 200: { valid: true, resource: RESOURCE, merchantId: 7, amountSats: 250, paymentHash: HASH } }
    }
  },
  verifyCredential: {
    description:
      'A Payment credential is good once: serve the request when consumed is true, and send receipt to the payer as Payment-Receipt. ' +
      'Name resource and amountSats, so that a credential for something else is refused and not used up.',
    example: {
      body: { credential: 'Payment eyJjaGFsbGVuZ2UiOnt9fQ', resource: RESOURCE, amountSats: 250 },
      responses: {
        200: {
          valid: true,
          consumed: true,
          resource: RESOURCE,
          merchantId: 7,
          amountSats: 250,
          paymentHash: HASH,
          receipt: 'eyJzdGF0dXMiOiJzdWNjZXNzIn0'
        }
      }
    }
  },
  getPricing: {
    description:
      "The routes of this gateway that cost something. varies stands where the price depends on a merchant's proxy.",
    example: {
      responses: {
        200: {
          defaultPriceSats: 10,
          serviceName: 'boltgate',
          endpoints: [{ pathPattern: '/demo/*', priceSats: 10, description: 'A quote about money' }],
          tokenValiditySeconds: 3600
        }
      }
    }
  },
  getTokenStatus: {
    description:
      'For a client that keeps tokens: whether to use the one it has or to buy anew. Whatever is wrong with it, the status is 200.',
    example: {
      responses: {
        200: { authenticated: true, paymentHash: HASH, expiresAt: '2026-11-22T11:15:30.000Z', remainingRequests: null }
      }
    }
  },
  getPing: {
    description:
      'The cheapest request there is: answered with 402 and an invoice, and with pong once it carries the paid credential.',
    example: { responses: { 200: { message: 'pong', paymentHash: HASH } } }
  }
}

const revoked = { 200: { issuedUntil: '2026-11-22T12:00:00.000Z' } }

/** What OpenAPI says of taking back what was sold. */
export const revocationTexts: Readonly<Record<string, OperationText>> = {
  adminRevokeToken: {
    description:
      "For a credential that leaked or was sold by mistake, whoever's it is. The money stays where it is: refund it if it is owed.",
    example: { params: byHash }
  },
  adminRevokeProxyTokens: {
    description:
      'Ends all credentials of one proxy at once, without touching the proxy. Buyers with a token are asked to pay anew.',
    example: { params: { proxyId: 'weather-3fa9c1' }, responses: revoked }
  },
  adminRevokeMerchantTokens: {
    description:
      "Ends all credentials of the merchant's proxies, resources and stores at once, without touching the account.",
    example: { params: { merchantId: '7' }, responses: revoked }
  },
  revokeToken: {
    description: 'For a credential that leaked. It works whatever the plan; the money stays where it is.',
    example: { params: byHash }
  },
  revokeTokens: {
    description:
      'Ends everything that was sold until now and cannot be taken back: buyers with a token are asked to pay anew.',
    example: { responses: revoked }
  },
  revokeProxyTokens: {
    description: 'Ends everything that was sold for this proxy until now; the proxy itself goes on selling.',
    example: { params: { proxyId: 'weather-3fa9c1' }, responses: revoked }
  }
}

/** What OpenAPI says of leases that lapsed. */
export const leaseTexts: Readonly<Record<string, OperationText>> = {
  adminListAmbiguousLeases: {
    description:
      "Somebody has paid, and may have been answered or not. Compare with the upstream's own records, and refund who got nothing.",
    example: {
      responses: {
        200: [
          {
            paymentHash: HASH,
            source: 'proxy',
            merchantId: '7',
            proxyId: 'weather-3fa9c1',
            method: 'POST',
            path: '/l402/proxy/weather-3fa9c1/orders',
            amountSats: 10,
            gateway: '0199f1d0-5a5b-7c5d-8e5f-606162636465',
            lapsedAt: '2026-11-22T10:16:30.000Z'
          }
        ]
      }
    }
  }
}
