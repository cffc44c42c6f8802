import { nullableText } from '../../engine/formats/text-patterns.ts'
import { Type } from 'typebox'
import { MAX_PRICE_SATS } from '../../engine/checks/price.ts'
import { keyMeterOf } from '../../engine/checks/meter.ts'
import type { GatewayConfig, RouteConfig } from '../../engine/config/schema.ts'
import { isoTime, iso } from '../../engine/formats/iso-time.ts'
import type { Context } from '../../engine/message/context.ts'
import { NOT_FOUND, UNAUTHORIZED } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import { defineOperation, type AnyOperation, type Result } from '../../engine/operations/operation.ts'
import { readCredential, type Credential } from '../../lightning/codecs/credential.ts'
import { isOfBalance } from '../../lightning/l402/caveats.ts'
import { equalDigests, paymentHashOf } from '../../lightning/codecs/hmac.ts'
import { decodeMacaroonBase64 } from '../../lightning/l402/macaroon.ts'
import { encodePaidKey, keyProof, type TokenKeyRing } from '../../lightning/l402/root-key.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { randomToken } from '../../platform/system/ids.ts'
import type { Challenges } from '../challenges/service.ts'
import type { Claims } from '../holding/claims.ts'
import type { Challenge } from '../holding/challenge.ts'
import type { Settlements } from '../holding/settlements.ts'
import type { Minting } from '../minting/minting.ts'
import { isCrawler } from '../minting/probes.ts'
import { sentAgain } from '../minting/wording.ts'
import type { MadePage } from '../paywall/paywall.ts'
import { topUpOffer, type Offer } from '../offers/offer.ts'
import type { Offers } from '../offers/offers.ts'
import { UNPAID, type ClassicRefused } from '../verifying/verdict.ts'
import type { Verifier } from '../verifying/verify.ts'
import type { BalanceNow } from './balance.ts'
import type { Ledger } from './ledger.ts'
import { entryView, EntryView, Standing, standingView } from './operations.ts'
import { openBundle } from './service.ts'
import type { BalanceStore } from './store.ts'

export interface KeyOptions {
  readonly challenges: Challenges
  readonly claims: Claims
  readonly clock: Clock
  readonly ledger: Pick<Ledger, 'flush' | 'letGo'>
  readonly minting: Minting
  readonly offers: Offers
  readonly settlements: Settlements
  readonly store: BalanceStore
  readonly verifier: Verifier
  pages(sale: KeySale): Promise<MadePage>
  config(): Pick<GatewayConfig, 'routes'>
  keys(): TokenKeyRing
}

/** What a browser's page shows: the order form, or the bought key. */
export type KeySale =
  | { readonly key: null; readonly bundleSats: number | null }
  | {
      readonly key: string
      readonly balanceMsat: number
      /** Path that clients append theirs to, such as `/v1`. */
      readonly basePath: string
    }

export type KeyPages = (sale: KeySale) => MadePage

const PAGE = '/l402/keys'

const amount = (description = 'Satoshis.') => Type.Integer({ minimum: 1, maximum: MAX_PRICE_SATS, description })
const Purchase = Type.Object(
  {
    amount: Type.Optional(amount('Satoshis; default: the bundle of the route.')),
    label: Type.Optional(Type.String({ maxLength: 100, description: 'Repeated in the response. Not stored.' }))
  },
  { title: 'KeyPurchase' }
)
const Key = Type.Object(
  {
    key: Type.String({ description: 'Sent as `Authorization: Bearer bg_…`, `x-api-key` or `api-key`.' }),
    label: Type.Optional(Type.String()),
    paymentHash: Type.String({ description: 'Names the balance.' }),
    balanceMsat: Type.Integer(),
    expiresAt: isoTime()
  },
  { title: 'PaidKey' }
)
const KeyStanding = Type.Object(
  {
    ...Standing.properties,
    usage: Type.Array(
      Type.Object({
        day: Type.String({ description: 'In UTC.' }),
        model: nullableText(),
        requests: Type.Integer(),
        failed: Type.Integer({ description: 'Requests that cost nothing, since they failed or reported no usage.' }),
        input: Type.Integer(),
        output: Type.Integer(),
        msat: Type.Integer()
      }),
      { description: 'By day and model, newest first, of the last 90 days.' }
    ),
    requests: Type.Array(EntryView, { description: 'The last 50.' })
  },
  { title: 'KeyStanding' }
)
const TopUpInvoice = Type.Object(
  {
    invoice: Type.String({ description: 'BOLT 11. Once it is paid, its amount is in the balance.' }),
    paymentHash: Type.String(),
    amountSats: Type.Integer(),
    expiresAt: isoTime()
  },
  { title: 'KeyTopUpInvoice' }
)
interface Holder {
  readonly challenge: Challenge
  readonly key: string
  /** Has caveats that the sold key lacks. */
  readonly isNarrowed: boolean
}

const header = { Authorization: 'The key, or the credential of the payment in any of its forms.' }
const common = { tag: 'L402', access: 'public', mount: { use: 'service', chain: 'service-keys' } } as const

/** Paid keys: bought, shown, and topped up by their holders, without an account. */
export function keyOperations(options: KeyOptions): AnyOperation[] {
  const { challenges, claims, clock, ledger, minting, settlements, store, verifier } = options

  settlements.onSettled('top-up', async challenge => {
    const has = await store.topUp(challenge.path, challenge.paymentHash, challenge.amountSats * 1000, clock.now())
    if (!has) throw new Error(`the balance ${challenge.path} of a top-up is not open`)
  })

  /** The paid challenge of a key's request, claimed for keys; null without a credential. */
  const paidOf = async (ctx: Context): Promise<Holder | ClassicRefused | null> => {
    const credential = readCredential(ctx.headers.pairs, true)
    if (credential.kind === 'classic') return keyOfToken(credential)
    // A bare preimage is no proof: the holder of a narrowed token knows it too.
    if (credential.kind !== 'modern') return null
    const payment = await verifier.payments.genuine(credential)
    return 'kind' in payment ? null : keyOf(payment.challenge.paymentHash)
  }

  /** Claims the payment of a token. Its key has the token's own caveats, so that a narrowed one stays narrow. */
  const keyOfToken = async (
    credential: Extract<Credential, { kind: 'classic' }>
  ): Promise<Holder | ClassicRefused | null> => {
    const token = verifier.tokens.genuine(credential)
    if ('kind' in token) return token
    const { grant, paymentHash, tokenId } = token
    const rootKey = options.keys().rootKey(Buffer.from(tokenId, 'hex'))
    if (rootKey === null || grant.service === null || !isOfBalance(grant.service)) return null
    const challenge = (await verifier.tokens.standing(token)) ?? (await verifier.tokens.claim(token))
    if ('kind' in challenge) return challenge
    const macaroon = Buffer.from(credential.macaroon, credential.encoding)
    const sold = sentAgain(challenge, options.keys())
    return {
      challenge,
      key: encodePaidKey(keyProof(rootKey, paymentHash), macaroon),
      isNarrowed: sold === null || !isSameToken(sold.macaroon, macaroon)
    }
  }

  const keyOf = async (paymentHash: string): Promise<Holder | ClassicRefused | null> => {
    const found = await claims.find(paymentHash)
    const sent = found === null || !isOfBalance(found.service) ? null : sentAgain(found, options.keys())
    const rootKey = found === null ? null : options.keys().rootKey(Buffer.from(found.tokenId, 'hex'))
    if (sent === null || rootKey === null) return null
    const preimage = keyProof(rootKey, paymentHash).toString('hex')
    return keyOfToken({ kind: 'classic', macaroon: sent.macaroon, encoding: 'base64', preimage, isKey: true })
  }

  const opened = async (challenge: Challenge): Promise<BalanceNow> => {
    await ledger.flush(challenge.paymentHash)
    const before = await store.find(challenge.paymentHash)
    if (before !== null) return before
    const route = routeOfKeys(options.config())
    const unit = (route === null ? null : keyMeterOf(route))?.unit ?? 'unit'
    await openBundle(store, challenge, unit, clock.now())
    const balance = await store.find(challenge.paymentHash)
    if (balance === null) throw new Error('A balance was opened and is not there')
    return balance
  }

  /** Calls `then` for the holder of a key. */
  const asHolder = async (
    ctx: Context,
    then: (holder: Holder, balance: BalanceNow) => Promise<Result>
  ): Promise<Result> => {
    const paid = await paidOf(ctx)
    return paid === null
      ? refused('Send the key as Authorization: Bearer bg_…, x-api-key or api-key')
      : 'kind' in paid
        ? refused(paid.detail)
        : then(paid, await opened(paid.challenge))
  }

  return [
    defineOperation({
      ...common,
      id: 'buyKey',
      method: 'POST',
      path: '/l402/keys',
      summary: 'Buy an API key that spends a prepaid balance',
      description:
        'Without a credential the answer is 402 with an invoice over the amount. Send the same request with the credential of the payment to get the key. The credential shows the same key again.',
      body: Purchase,
      bodyOptional: true,
      headers: header,
      responses: {
        201: { description: 'The key. Store it like a password: it spends the balance.', schema: Key },
        402: 'The invoice, as of any priced request.',
        404: 'No route of this gateway sells keys.'
      },
      handle: async ({ ctx, body }): Promise<Result> => {
        const paid = await paidOf(ctx)
        if (paid === null) {
          const bundle = await keyOffer(options, ctx, body?.amount)
          // An order of its own: a neighbor that was handed the same token could widen a narrowed key with it.
          const query = isCrawler(ctx.headers.get('user-agent')) ? '' : randomToken(9)
          const reply = await challenges.answer(ctx, { ...bundle, query }, UNPAID)
          return { status: reply.status, body: null, reply }
        }
        if ('kind' in paid) return refused(paid.detail)
        const { balanceMsat, expiresAt } = standingView(await opened(paid.challenge))
        return ready(201, {
          key: paid.key,
          ...(body?.label === undefined ? {} : { label: body.label }),
          paymentHash: paid.challenge.paymentHash,
          balanceMsat,
          expiresAt
        })
      }
    }),
    defineOperation({
      ...common,
      id: 'getKeyPage',
      method: 'GET',
      path: PAGE,
      summary: 'The page on which people buy a key',
      description: 'With an amount it is the page of the invoice, and once that is paid it shows the key.',
      query: Type.Object({
        amount: Type.Optional(amount()),
        order: Type.Optional(Type.String({ maxLength: 100, description: 'Distinguishes two purchases.' }))
      }),
      responses: {
        200: { description: 'The page.', mediaType: 'text/html; charset=utf-8' },
        402: 'The page of the invoice.',
        404: 'No route of this gateway sells keys.'
      },
      handle: async ({ ctx, query }): Promise<Result> => {
        const offer = { ...(await keyOffer(options, ctx, query.amount)), passPath: PAGE, query: ctx.query }
        if (query.amount === undefined) {
          const page = await options.pages({ key: null, bundleSats: offer.amountSats })
          return { status: 200, body: null, reply: { status: 200, ...page } }
        }
        const passed = await challenges.pass(ctx, offer)
        if (passed === null) {
          const reply = await challenges.answer(ctx, offer, UNPAID, true)
          return { status: reply.status, body: null, reply }
        }
        if ('status' in passed) return { status: passed.status, body: null, reply: passed }
        const paid = await keyOf(passed.payment.paymentHash)
        if (paid === null || 'kind' in paid) return refused(paid?.detail ?? 'This payment is not known')
        const { balanceMsat } = standingView(await opened(paid.challenge))
        const basePath = basePathOf(routeOfKeys(options.config()))
        const page = await options.pages({ key: paid.key, balanceMsat, basePath })
        return { status: 200, body: null, reply: { status: 200, ...page } }
      }
    }),
    defineOperation({
      ...common,
      id: 'getKey',
      method: 'GET',
      path: '/l402/keys/self',
      summary: 'Get the balance and usage of a key',
      description:
        'For the holder of a key, or of the credential of its payment. Failed requests cost 0. A narrowed key shows the balance alone.',
      headers: header,
      responses: {
        200: { description: 'The balance, and its usage by day and model.', schema: KeyStanding },
        401: 'No key was sent, or it is invalid, expired or revoked.'
      },
      handle: ({ ctx }) =>
        asHolder(ctx, async ({ isNarrowed }, balance) => {
          // Other holders of the balance have a part in both.
          if (isNarrowed) return ready(200, { ...standingView(balance), usage: [], requests: [] })
          const entries = await store.entries(balance.id, { skip: 0, take: 50 })
          const usage = await store.usage(balance.id)
          return ready(200, { ...standingView(balance), usage, requests: entries.map(entryView) })
        })
    }),
    defineOperation({
      ...common,
      id: 'topUpKey',
      method: 'POST',
      path: '/l402/keys/self/top-ups',
      summary: 'Top up the balance of a key',
      description:
        'Answers an invoice. The amount is in the balance as soon as the provider reports the payment, or the same request comes with the preimage.',
      body: Type.Object(
        {
          amount: amount(),
          preimage: Type.Optional(Type.String({ pattern: '^[0-9a-f]{64}$', description: 'Of the paid invoice.' }))
        },
        { title: 'KeyTopUp' }
      ),
      headers: header,
      responses: {
        200: { description: 'The balance with the top-up.', schema: Standing },
        201: { description: 'The invoice to pay.', schema: TopUpInvoice },
        401: 'No key was sent, or it is invalid, expired or revoked.',
        404: 'The preimage is of no top-up of this key.'
      },
      handle: ({ ctx, body }) =>
        asHolder(ctx, async ({ challenge }, balance) => {
          if (body.preimage !== undefined) {
            await settlements.settled(await topUpOf(claims, body.preimage, balance.id))
            return ready(200, standingView(await opened(challenge)))
          }
          const created = await minting.forRequest(
            ctx,
            topUpOffer(await keyOffer(options, ctx, body.amount), balance.id)
          )
          const { invoice, paymentHash, amountSats, expiresAt } = created.challenge
          return ready(201, { invoice, paymentHash, amountSats, expiresAt: iso(expiresAt) })
        })
    })
  ]
}

/** Caveats change the signature. */
function isSameToken(sold: string, shown: Uint8Array): boolean {
  return equalDigests(
    decodeMacaroonBase64(sold).signature,
    decodeMacaroonBase64(Buffer.from(shown).toString('base64')).signature
  )
}

function ready(status: number, body: unknown): Result {
  return { status, headers: ['Cache-Control', 'no-store'], body }
}

function refused(detail: string): never {
  throw new LongError(UNAUTHORIZED, 'Unauthorized', `${detail}.`)
}

/** Ends of addresses that clients of the known APIs append themselves. */
const ENDPOINTS = /\/(?:\*|chat\/completions|completions|responses|embeddings|messages)$/

function basePathOf(route: RouteConfig | null): string {
  return route?.match.path[0]?.replace(ENDPOINTS, '') ?? ''
}

function routeOfKeys({ routes }: Pick<GatewayConfig, 'routes'>): RouteConfig | null {
  return routes.find(route => route.keys) ?? null
}

/**
 * A key is sold as a bundle of the first route with keys, and pays on all of them.
 * @throws LongError 404 if none has
 */
async function keyOffer(
  { offers, config }: Pick<KeyOptions, 'offers' | 'config'>,
  ctx: Context,
  amountSats: number | undefined
): Promise<Offer> {
  const route = routeOfKeys(config())
  const bundle = route === null ? null : offers.routeOffers(route).ofKey(ctx, amountSats)
  if (bundle === null)
    throw new LongError(
      NOT_FOUND,
      'Not found',
      'No route of this gateway sells keys; the operator adds `keys: true` to a route with a meter or sessions.'
    )
  return {
    ...bundle,
    sessions: null,
    path: '/*',
    tokenPath: '/*',
    wildcard: true,
    method: 'ANY',
    query: '',
    bindsDigest: false,
    // The route's own requests may get none.
    tokensOnly: false
  }
}

async function topUpOf(claims: Claims, preimage: string, balanceId: string): Promise<string> {
  const paymentHash = paymentHashOf(preimage)
  const challenge = await claims.find(paymentHash)
  if (challenge?.source === 'top-up' && challenge.path === balanceId) return paymentHash
  throw new LongError(NOT_FOUND, 'Not found', 'This preimage is of no top-up of this key.')
}
