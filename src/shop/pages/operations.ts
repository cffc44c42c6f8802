import { currentLanguage, speaking, t } from '../../engine/formats/language.ts'
import { Type } from 'typebox'
import { foreseen, GatewayError, LongError, Unavailable } from '../../engine/operations/errors.ts'
import type { Context } from '../../engine/message/context.ts'
import { HeaderList, type ReadonlyHeaders } from '../../engine/message/headers.ts'
import { defineOperation, type AnyOperation, type Result } from '../../engine/operations/operation.ts'
import type { Sealer } from '../../platform/keys/secrets.ts'
import { assetNames } from '../../web/kit/assets.ts'
import { FORM_PAGE_HEADERS, HTML_TYPE } from '../../web/kit/document.ts'
import { FORM_TYPE, sentForm } from '../../web/kit/form.ts'
import { checkForm, FIELDS, LONGEST_ADDRESS, MAXIMA, valuesOfForm } from './claim-form.ts'
import { EMPTY_CART, orderOf, payTokenOf, problemOf, readCart, type Cart } from './buying.ts'
import {
  address,
  claimedOrderPage,
  claimPage,
  missingOrderPage,
  onlyCountryOf,
  type ClaimPageFacts
} from './claim-page.ts'
import type { StoreCheckoutInput } from '../cart.ts'
import type { Catalog } from '../platform.ts'
import { ALREADY_CLAIMED } from '../orders/placement.ts'
import type { OrderClaims } from '../orders/claims.ts'
import type { Orders } from '../orders/orders.ts'
import type { RefundRequests } from '../orders/refunds.ts'
import type { BuyerLocation, Integration, Order } from '../schema.ts'
import { storeNotFound } from '../store-errors.ts'
import { shopHeaders, shopPage } from './shop-page.ts'

interface StorefrontPageOptions {
  readonly orders: Pick<Orders, 'byClaimToken'>
  readonly claims: Pick<OrderClaims, 'claim'>
  readonly refundRequests: Pick<RefundRequests, 'ask'>
  readonly catalogs: {
    /** Throws Unavailable without any catalog. */
    get(integration: Integration): Promise<Catalog>
  }
  readonly checkout: {
    /** @throws GatewayError as the checkout of the API */
    order(
      ctx: Context,
      slug: string,
      input: StoreCheckoutInput,
      location: BuyerLocation
    ): Promise<{ readonly order: Order }>
  }
  readonly sealer: Sealer
  /** Null for an unknown or closed store. */
  selling(slug: string): Promise<Integration | null>
  publicUrl(): string
}

/** 32 random bytes in base64url (decision 134). Other forms are not looked up. */
const TOKEN = /^[A-Za-z0-9_-]{43}$/

const Slug = Type.Object({ slug: Type.String() })
/** Of the pages of a store. */
const storePage = {
  tag: 'pages',
  access: 'public',
  params: Slug,
  mount: { use: 'storefront', chain: 'page-forms', below: '/storefront/*' }
} as const
const ClaimQuery = Type.Object({
  claimToken: Type.Optional(Type.String({ description: 'The claim token: it alone opens the page.' }))
})
/** Bytes. */
const MOST_FORM = 65_536
const ClaimForm = Type.Object(
  Object.fromEntries(FIELDS.map(field => [field, Type.Optional(Type.String({ maxLength: MAXIMA[field] }))]))
)

/** A form without credentials: its token is the only authority, so other sites cannot forge it. */
const NO_HEADERS: ReadonlyHeaders = new HeaderList()

/** A store's page, and the page where buyers claim and follow a paid order (decision 134). */
export function storefrontPageOperations(options: StorefrontPageOptions): AnyOperation[] {
  const assets = assetNames()
  const missing = (): Result => ({
    status: 404,
    // Without links to other languages, which would repeat the query.
    body: speaking(currentLanguage(), () => missingOrderPage(assets)),
    headers: FORM_PAGE_HEADERS
  })
  const find = async (slug: string, claimToken: string | undefined): Promise<ClaimPageFacts | null> => {
    if (claimToken === undefined || !TOKEN.test(claimToken)) return null
    const found = await options.orders.byClaimToken(slug, claimToken)
    // There is no token before payment.
    return found === null || found.order.status === 'PendingPayment' ? null : { ...found, claimToken }
  }
  const open = async (slug: string): Promise<Integration> => {
    const integration = await options.selling(slug)
    if (integration === null) throw storeNotFound()
    return integration
  }
  const shown = async (integration: Integration, cart: Cart, problem: string | null): Promise<Result> => {
    const catalog = await options.catalogs.get(integration)
    const facts = { integration, catalog, publicUrl: options.publicUrl(), cart, problem }
    return {
      status: problem === null ? 200 : 400,
      body: shopPage(facts, assets),
      headers: shopHeaders(catalog, integration)
    }
  }
  const see = (claimToken: string): Result => ({
    status: 303,
    body: null,
    headers: ['Location', address(claimToken), ...FORM_PAGE_HEADERS]
  })
  return [
    defineOperation({
      ...storePage,
      id: 'getShopPage',
      method: 'GET',
      path: '/storefront/:slug',
      summary: "A store's catalog as a page",
      description: 'For people who follow a link: a cart to pay with a wallet, and how an agent buys.',
      responses: {
        200: { description: 'The page.', mediaType: HTML_TYPE },
        404: 'There is no such store, or it is closed.',
        503: 'The store cannot be reached; `Retry-After` says when to come back.'
      },
      handle: async ({ params: { slug } }) => await shown(await open(slug), EMPTY_CART, null)
    }),
    defineOperation({
      ...storePage,
      id: 'buyOnShopPage',
      method: 'POST',
      path: '/storefront/:slug',
      summary: "Take in the cart of a store's page, and show its invoice",
      description:
        'As POST /api/storefront/{slug}/checkout without a credential, for a person. Works without JavaScript.',
      form: {
        mediaType: FORM_TYPE,
        schema: Type.Object(
          {
            country: Type.Optional(Type.String()),
            state: Type.Optional(Type.String()),
            zip: Type.Optional(Type.String()),
            email: Type.Optional(Type.String())
          },
          { additionalProperties: true, description: 'And `v<variantId>`: how many of a variant.' }
        )
      },
      responses: {
        303: { description: 'The order waits for payment; its pay page is at `Location`.' },
        400: { description: 'The page again, with what is wrong.', mediaType: HTML_TYPE },
        404: 'There is no such store, or it is closed.',
        503: { description: 'The page again: the store cannot be reached.', mediaType: HTML_TYPE }
      },
      async handle({ params: { slug }, ctx }) {
        const cart = readCart(await sentForm(ctx, MOST_FORM))
        const integration = await open(slug)
        const wanted = orderOf(cart)
        if ('problem' in wanted) return await shown(integration, cart, wanted.problem)
        const bought = await refusalOr(options.checkout.order(ctx, slug, wanted.input, wanted.location))
        if (bought instanceof GatewayError) {
          const problem = problemOf(bought)
          if (problem === null) throw bought
          return { ...(await shown(integration, cart, problem)), status: bought.status === 503 ? 503 : 400 }
        }
        const to = `../pay/${payTokenOf(bought.order, options.sealer)}`
        return { status: 303, body: null, headers: ['Location', to, 'Cache-Control', 'no-store'] }
      }
    }),
    defineOperation({
      ...storePage,
      id: 'getClaimPage',
      method: 'GET',
      path: '/storefront/:slug/claim',
      summary: 'The page on which a buyer claims a paid order, and later sees how far it is',
      description:
        'The claim token in the URL is the only authorization: keep the URL secret. Opening it changes nothing.',
      query: ClaimQuery,
      responses: {
        200: { description: 'The form, or the order once it is claimed.', mediaType: HTML_TYPE },
        404: {
          description:
            "A page that says that the address opens no order: unknown token, another store's, or its time is over.",
          mediaType: HTML_TYPE
        }
      },
      async handle({ params: { slug }, query: { claimToken } }) {
        const facts = await find(slug, claimToken)
        if (facts === null) return missing()
        return {
          status: 200,
          body: isClaimed(facts.order) ? claimedOrderPage(facts, assets) : claimPage(facts, assets),
          headers: FORM_PAGE_HEADERS
        }
      }
    }),
    defineOperation({
      ...storePage,
      id: 'claimOnPage',
      method: 'POST',
      path: '/storefront/:slug/claim',
      summary: 'Take in the form of the claim page',
      description: 'As POST /api/storefront/{slug}/claim, for a page without JavaScript. Idempotent.',
      query: ClaimQuery,
      // Errors are shown next to the fields.
      form: { mediaType: FORM_TYPE, schema: ClaimForm },
      responses: {
        303: { description: 'The order is claimed, now or before; its page is at `Location`.' },
        400: { description: 'The form with what is wrong beside each field.', mediaType: HTML_TYPE },
        404: { description: 'A page that says that the address opens no order.', mediaType: HTML_TYPE },
        502: { description: 'The form again: the store did not make the order.', mediaType: HTML_TYPE },
        503: {
          description: 'The form again: the order is being created, or a required component is down.',
          mediaType: HTML_TYPE
        }
      },
      async handle({ params: { slug }, query: { claimToken }, ctx }) {
        const values = valuesOfForm(await sentForm(ctx, MOST_FORM))
        const facts = await find(slug, claimToken)
        if (facts === null) return missing()
        if (isClaimed(facts.order)) return see(facts.claimToken)
        const checked = checkForm(values, onlyCountryOf(facts.integration))
        if ('errors' in checked)
          return {
            status: 400,
            body: claimPage(facts, assets, { values, errors: checked.errors }),
            headers: FORM_PAGE_HEADERS
          }
        const error = await refusalOr(
          options.claims.claim(slug, { claimToken: facts.claimToken, ...checked.details }, NO_HEADERS)
        )
        if (!(error instanceof GatewayError)) return see(facts.claimToken)
        const now = await unlessAway(find(slug, claimToken), facts)
        // Submitted twice: the first one counts, and both see the result.
        if (now === null || isClaimed(now.order)) return see(facts.claimToken)
        // Another process is making the order, or died over it: the claim expires, and the next submit finds the
        // result.
        const isRunning = error instanceof LongError && error.error === ALREADY_CLAIMED
        if (![400, 502, 503].includes(error.status)) throw error
        const refusal = isRunning
          ? t('Your order is being placed. Try again in a moment.')
          : error.status === 400
            ? error.message
            : t(
                'Your order could not be placed. Your payment is safe, and nothing is ordered twice. Try again in a moment.'
              )
        return {
          status: isRunning ? 503 : error.status,
          body: claimPage(now, assets, { values, refusal }),
          headers: [...FORM_PAGE_HEADERS, ...(isRunning ? ['Retry-After', '5'] : error.headers)]
        }
      }
    }),
    defineOperation({
      ...storePage,
      id: 'askForRefundOnPage',
      method: 'POST',
      path: '/storefront/:slug/claim-refund',
      summary: 'Take in the form of the claim page that asks for the money back',
      description: 'As POST /api/storefront/{slug}/refund-request, for a page without JavaScript. Sends no money.',
      query: ClaimQuery,
      form: {
        mediaType: FORM_TYPE,
        schema: Type.Object({ refundAddress: Type.String({ minLength: 26, maxLength: LONGEST_ADDRESS }) })
      },
      responses: {
        303: { description: 'The shop sees it; the claim page at `Location` says so.' },
        400: { description: 'The claim page with what is wrong.', mediaType: HTML_TYPE },
        404: { description: 'A page that says that the address opens no order.', mediaType: HTML_TYPE }
      },
      async handle({ params: { slug }, query: { claimToken }, ctx }) {
        const given = (await sentForm(ctx, MOST_FORM)).text('refundAddress')
        const facts = await find(slug, claimToken)
        if (facts === null) return missing()
        if (isClaimed(facts.order)) return see(facts.claimToken)
        const error = await refusalOr(options.refundRequests.ask(slug, facts.claimToken, given))
        if (!(error instanceof GatewayError)) return see(facts.claimToken)
        if (error.status !== 400) throw error
        return {
          status: 400,
          body: claimPage(facts, assets, { refund: { given, refusal: error.message } }),
          headers: FORM_PAGE_HEADERS
        }
      }
    })
  ]
}

/** Whether the buyer has nothing left to do. */
function isClaimed({ status }: Order): boolean {
  return status !== 'PendingPayment' && status !== 'PaidAwaitingDetails'
}

/** Returns the earlier value without a database: an outage must not cost a buyer a filled-in form. */
async function unlessAway<T>(reading: Promise<T>, before: T): Promise<T> {
  try {
    return await reading
  } catch (error) {
    if (foreseen(error) instanceof Unavailable) return before
    throw error
  }
}

async function refusalOr<T>(running: Promise<T>): Promise<T | GatewayError> {
  try {
    return await running
  } catch (error) {
    const refusal = foreseen(error)
    if (refusal === null) throw error
    return refusal
  }
}
