import { pageRange, pageQuery } from '../../engine/operations/keyset.ts'
import { nullableText } from '../../engine/formats/text-patterns.ts'
import { proxyNotFound } from '../../accounts/merchants/holdings.ts'
import { Type } from 'typebox'
import { isoTime, iso } from '../../engine/formats/iso-time.ts'
import { RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { isHex32 } from '../../lightning/codecs/hmac.ts'
import { adminOperation, merchantOf } from '../../accounts/merchants/principal.ts'
import type { Claims } from '../holding/claims.ts'
import type { AmbiguousLease } from '../holding/challenge.ts'
import type { ChallengeStore } from '../holding/store.ts'
import type { Revocations } from '../verifying/revocations.ts'
import type { VerifierOptions } from '../verifying/verify.ts'

interface RevocationDependencies {
  readonly claims: Pick<Claims, 'find'>
  readonly revocations: Pick<Revocations, 'revoke'>
  readonly keys: VerifierOptions['keys']
  ownerOf(proxyId: string): Promise<number | null>
  isMerchant(merchantId: number): Promise<boolean>
}

const Revoked = Type.Object(
  {
    issuedUntil: isoTime('What was issued up to this moment is refused; what is sold after it is good.')
  },
  { title: 'Revocation' }
)

const one = {
  204: {
    description:
      'Revoked, now or before: every credential of this payment, used or not, is refused everywhere within 5 seconds.'
  }
}
const all = {
  200: {
    description: 'Revoked on every node within 5 seconds. Later sales are not affected.',
    schema: Revoked
  }
}
const missing = (what: string) => ({
  404: `There is no such ${what}, or it is another account's.`
})
const ofPayment = {
  params: Type.Object({ paymentHash: Type.String() }),
  responses: { ...one, ...missing('payment') }
}
const ofProxy = { params: Type.Object({ proxyId: Type.String() }), responses: { ...all, ...missing('proxy') } }

/**
 * Revokes one payment, or everything issued for a proxy or account until now: the operator for all, merchants for their
 * own. Open to every plan, so that a leaked token can always be stopped.
 */
export function revocationOperations(dependencies: RevocationDependencies): AnyOperation[] {
  const { revocations, ownerOf, isMerchant } = dependencies
  const operators = { ...adminOperation, method: 'DELETE' } as const
  const mount = { use: 'merchant-api', chain: 'settings-write' } as const
  const merchants = { access: 'merchant', mount, method: 'DELETE' } as const
  const ofMerchants = { ...merchants, tag: 'Merchant' } as const
  const revokeAll = async (kind: 'proxy' | 'merchant', id: string) => ({
    status: 200,
    body: { issuedUntil: iso(await revocations.revoke(kind, id)) }
  })
  return [
    defineOperation({
      ...operators,
      id: 'adminRevokeToken',
      path: '/api/admin/tokens/:paymentHash',
      summary: 'Revoke the credentials of one payment',
      description:
        'For any credential that leaked or was sold by mistake. The money stays where it is: refund it if it is owed.',
      ...ofPayment,
      handle: ({ params }) => revokePayment(dependencies, params.paymentHash, null)
    }),
    defineOperation({
      ...operators,
      id: 'adminRevokeProxyTokens',
      path: '/api/admin/proxies/:proxyId/tokens',
      summary: 'Revoke everything that was issued for a proxy until now',
      description:
        'Ends all credentials of one proxy, without touching the proxy. Buyers with a token are asked to pay again.',
      ...ofProxy,
      handle: async ({ params: { proxyId } }) => {
        if ((await ownerOf(proxyId)) === null) throw proxyNotFound()
        return await revokeAll('proxy', proxyId)
      }
    }),
    defineOperation({
      ...operators,
      id: 'adminRevokeMerchantTokens',
      path: '/api/admin/merchants/:merchantId/tokens',
      summary: 'Revoke everything that was issued for a merchant until now',
      description:
        "Ends all credentials of the merchant's proxies, resources and stores, without touching the account.",
      params: Type.Object({ merchantId: Type.String() }),
      responses: { ...all, ...missing('merchant') },
      handle: async ({ params: { merchantId } }) => {
        if (!/^[1-9]\d{0,8}$/.test(merchantId) || !(await isMerchant(Number(merchantId))))
          throw new ShortError(RESOURCE_NOT_FOUND, 'Merchant not found')
        return await revokeAll('merchant', merchantId)
      }
    }),
    defineOperation({
      ...ofMerchants,
      id: 'revokeToken',
      path: '/api/merchant/tokens/:paymentHash',
      summary: "Revoke the credentials of one payment of the account's proxies or resources",
      description: 'For a leaked credential. Works on every plan; nothing is refunded.',
      ...ofPayment,
      handle: ({ ctx, params }) => revokePayment(dependencies, params.paymentHash, merchantOf(ctx).id)
    }),
    defineOperation({
      ...ofMerchants,
      id: 'revokeTokens',
      path: '/api/merchant/tokens',
      summary: "Revoke everything that was issued for the account's proxies, resources and stores until now",
      description:
        'Ends everything that was sold until now and cannot be taken back: buyers with a token are asked to pay again.',
      responses: all,
      handle: ({ ctx }) => revokeAll('merchant', String(merchantOf(ctx).id))
    }),
    defineOperation({
      ...merchants,
      tag: 'proxies',
      id: 'revokeProxyTokens',
      path: '/api/proxy/:proxyId/tokens',
      summary: 'Revoke everything that was issued for a proxy until now',
      description: 'Revokes everything sold for this proxy until now. The proxy keeps selling.',
      ...ofProxy,
      handle: async ({ ctx, params: { proxyId } }) => {
        if ((await ownerOf(proxyId)) !== merchantOf(ctx).id) throw proxyNotFound()
        return await revokeAll('proxy', proxyId)
      }
    })
  ]
}

/** @param merchantId required owner of the payment; null for the operator, who may revoke any */
async function revokePayment(
  { claims, revocations, keys }: RevocationDependencies,
  paymentHash: string,
  merchantId: number | null
): Promise<{ status: number; body: null }> {
  const challenge = isHex32(paymentHash) ? await claims.find(paymentHash) : null
  // What Aperture sold has no row.
  const isKnown = challenge !== null || (merchantId === null && isHex32(paymentHash) && keys().aperture !== null)
  if (!isKnown || (merchantId !== null && challenge?.merchantId !== String(merchantId)))
    throw new ShortError(RESOURCE_NOT_FOUND, 'Payment not found')
  await revocations.revoke('payment', paymentHash)
  return { status: 204, body: null }
}

const Ambiguous = Type.Object(
  {
    paymentHash: Type.String(),
    source: Type.String({ description: 'What was sold: route, proxy or ping.' }),
    merchantId: nullableText(),
    proxyId: nullableText(),
    method: Type.String(),
    path: Type.String({ description: 'The resource of the credential, without its query.' }),
    amountSats: Type.Integer(),
    gateway: Type.String({ description: 'The process that died, the same for all its leases.' }),
    lapsedAt: isoTime('Until when its lease was held.')
  },
  { title: 'AmbiguousLease' }
)

/** `GET /api/admin/leases/ambiguous`: payments whose gateway died during their request (decision 183). */
export function leaseOperations(store: Pick<ChallengeStore, 'ambiguous'>): AnyOperation[] {
  return [
    defineOperation({
      id: 'adminListAmbiguousLeases',
      method: 'GET',
      path: '/api/admin/leases/ambiguous',
      ...adminOperation,
      summary:
        'Single-use credentials that count as spent though it is unknown whether their request was answered: its gateway died',
      description:
        "The payer may have been answered or not. Compare with the upstream's own records, and refund payers who got nothing.",
      query: Type.Object(pageQuery),
      responses: {
        200: {
          description:
            "A bare array, newest first. What the upstream's own records say decides whether the payer is to be refunded.",
          schema: Type.Array(Ambiguous)
        }
      },
      handle: async ({ query }) => ({ status: 200, body: (await store.ambiguous(pageRange(query))).map(view) })
    })
  ]
}

function view({ lapsedAt, ...lease }: AmbiguousLease) {
  return { ...lease, lapsedAt: iso(lapsedAt) }
}
