import { currentLanguage, speaking } from '../../engine/formats/language.ts'
import { Type } from 'typebox'
import { UNSUPPORTED_MEDIA_TYPE } from '../../engine/operations/error-kinds.ts'
import { foreseen, GatewayError, LongError, Unavailable, ValidationError } from '../../engine/operations/errors.ts'
import { HeaderList, type ReadonlyHeaders } from '../../engine/message/headers.ts'
import { defineOperation, type AnyOperation, type Result } from '../../engine/operations/operation.ts'
import { assetNames } from '../../web/kit/assets.ts'
import { FORM_PAGE_HEADERS, HTML_TYPE, PAGE_HEADERS } from '../../web/kit/document.ts'
import {
  checkForm,
  FIELDS,
  formErrors,
  MAXIMA,
  readForm,
  readRefundForm,
  type FormErrors,
  LONGEST_ADDRESS
} from './claim-form.ts'
import {
  buyingOperations,
  EMPTY_CART,
  invoiceAddress,
  orderOf,
  problemOf,
  readCart,
  type BuyingOptions,
  type Cart
} from './buying.ts'
import {
  address,
  claimPage,
  failedPage,
  formPage,
  missingOrderPage,
  onlyCountryOf,
  claimedOrderPage,
  type ClaimPageFacts
} from './claim-page.ts'
import { ALREADY_CLAIMED } from '../orders/placement.ts'
import type { OrderClaims } from '../orders/claims.ts'
import type { Orders } from '../orders/orders.ts'
import type { RefundRequests } from '../orders/refunds.ts'
import type { Catalog } from '../platform.ts'
import type { Integration, Order } from '../schema.ts'
import { awayShopPage, missingShopPage, shopHeaders, shopPage } from './shop-page.ts'

export interface StorefrontPageOptions {
  readonly orders: Pick<Orders, 'byClaimToken'>
  readonly claims: Pick<OrderClaims, 'claim'>
  readonly refundRequests: Pick<RefundRequests, 'ask'>
  readonly catalogs: {
    /** Throws Unavailable without any catalog. */
    get(integration: Integration): Promise<Catalog>
  }
  /** Null for an unknown or closed store. */
  selling(slug: string): Promise<Integration | null>
  readonly buying: BuyingOptions
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
const FORM_TYPE = 'application/x-www-form-urlencoded'
const ClaimForm = Type.Object({
  ...Object.fromEntries(FIELDS.map(field => [field, Type.Optional(Type.String({ maxLength: MAXIMA[field] }))])),
  change: Type.Optional(
    Type.String({ description: 'Where it is there, the form is shown again with these values and nothing is claimed.' })
  )
})

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
  const shown = async (integration: Integration, cart: Cart, problem: string | null): Promise<Result> => {
    const catalog = await options.catalogs.get(integration)
    const facts = { integration, catalog, publicUrl: options.publicUrl(), cart, problem }
    return {
      status: problem === null ? 200 : 400,
      body: shopPage(facts, assets),
      headers: shopHeaders(catalog, integration)
    }
  }
  const claimed = (facts: ClaimPageFacts): Result => ({
    status: 303,
    body: null,
    headers: ['Location', address(facts), ...FORM_PAGE_HEADERS]
  })
  return [
    defineOperation({
      ...storePage,
      id: 'getShopPage',
      method: 'GET',
      path: '/storefront/:slug',
      summary: "A store's catalog as a page",
      description: 'For people who follow a link. Shows how an agent buys; it has no checkout of its own.',
      responses: {
        200: { description: 'The page.', mediaType: HTML_TYPE },
        404: {
          description: 'A page that says that there is no such store, or that it is closed.',
          mediaType: HTML_TYPE
        },
        503: {
          description: 'A page that says that the store cannot be reached; `Retry-After` says when to come back.',
          mediaType: HTML_TYPE
        }
      },
      async handle({ params: { slug } }) {
        const integration = await options.selling(slug)
        if (integration === null || !integration.isActive)
          return { status: 404, body: missingShopPage(assets), headers: PAGE_HEADERS }
        try {
          return await shown(integration, EMPTY_CART, null)
        } catch (error) {
          if (!(error instanceof Unavailable)) throw error
          return { status: 503, body: awayShopPage(assets), headers: [...PAGE_HEADERS, ...error.headers] }
        }
      }
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
        303: { description: 'The order waits for payment; its page is at `Location`.' },
        400: { description: 'The page again, with what is wrong.', mediaType: HTML_TYPE },
        404: { description: 'A page that says that there is no such store.', mediaType: HTML_TYPE },
        413: 'Larger than 64 KiB.',
        415: 'It is no form.',
        503: { description: 'A page that says that the store cannot be reached.', mediaType: HTML_TYPE }
      },
      async handle({ params: { slug }, ctx }) {
        requireForm(ctx.headers)
        const cart = readCart(await ctx.body.bytes())
        const integration = await options.selling(slug)
        if (integration === null || !integration.isActive)
          return { status: 404, body: missingShopPage(assets), headers: PAGE_HEADERS }
        const wanted = orderOf(cart)
        if ('problem' in wanted) return await shown(integration, cart, wanted.problem)
        const bought = await refusalOr(options.buying.checkout.order(ctx, slug, wanted.input, wanted.location))
        if (bought instanceof GatewayError) {
          const problem = problemOf(bought)
          if (problem === null) throw bought
          return { ...(await shown(integration, cart, problem)), status: bought.status === 503 ? 503 : 400 }
        }
        const to = invoiceAddress(integration, bought.order, options.buying.sealer)
        return { status: 303, body: null, headers: ['Location', to, 'Cache-Control', 'no-store'] }
      }
    }),
    ...buyingOperations(options.buying),
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
        200: { description: 'The form again, to change what was filled in.', mediaType: HTML_TYPE },
        303: { description: 'The order is claimed, now or before; its page is at `Location`.' },
        400: {
          description: 'The form with what is wrong beside each field; an error, when it cannot be read at all.',
          mediaType: HTML_TYPE
        },
        404: { description: 'A page that says that the address opens no order.', mediaType: HTML_TYPE },
        413: 'Larger than 64 KiB.',
        415: 'It is no form.',
        502: {
          description: 'A page from which the same can be sent again: the store did not make the order.',
          mediaType: HTML_TYPE
        },
        503: {
          description: 'The same page: the order is being created, or a required component is down.',
          mediaType: HTML_TYPE
        }
      },
      async handle({ params: { slug }, query: { claimToken }, ctx }) {
        requireForm(ctx.headers)
        const { values, change } = readForm(await ctx.body.bytes())
        const facts = await find(slug, claimToken)
        if (facts === null) return missing()
        if (isClaimed(facts.order)) return claimed(facts)
        const again = (errors: FormErrors, refusal: string | null): Result => ({
          status: 400,
          body: formPage(facts, values, errors, refusal, assets),
          headers: FORM_PAGE_HEADERS
        })
        if (change) return { ...again({}, null), status: 200 }
        const checked = checkForm(values, onlyCountryOf(facts.integration))
        if ('errors' in checked) return again(checked.errors, null)
        const error = await refusalOf(
          options.claims.claim(slug, { claimToken: facts.claimToken, ...checked.details }, NO_HEADERS)
        )
        if (error === null) return claimed(facts)
        const now = await unlessAway(find(slug, claimToken), facts)
        if (now === null) return missing()
        // Submitted twice: the first one counts, and both see the result.
        if (isClaimed(now.order)) return claimed(facts)
        if (error instanceof ValidationError)
          return again(formErrors(error.errors) ?? {}, 'Please check what you have filled in.')
        // Another process is making the order, or died over it: the claim expires, and the next submit finds the
        // result.
        const running = error instanceof LongError && error.error === ALREADY_CLAIMED
        if (error.status === 400 && !running) return again({}, error.message)
        if (!running && error.status !== 502 && error.status !== 503) throw error
        return {
          status: running ? 503 : error.status,
          body: failedPage(now, values, running, assets),
          headers: [...FORM_PAGE_HEADERS, ...(running ? ['Retry-After', '5'] : error.headers)]
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
        400: {
          description: 'The claim page with what is wrong; an error, when the form cannot be read at all.',
          mediaType: HTML_TYPE
        },
        404: { description: 'A page that says that the address opens no order.', mediaType: HTML_TYPE },
        413: 'Larger than the body may be.',
        415: 'It is no form.'
      },
      async handle({ params: { slug }, query: { claimToken }, ctx }) {
        requireForm(ctx.headers)
        const given = readRefundForm(await ctx.body.bytes())
        const facts = await find(slug, claimToken)
        if (facts === null) return missing()
        const wrong =
          given.length < 26 || given.length > LONGEST_ADDRESS ? 'Enter a Bitcoin address or a Lightning invoice.' : null
        const error = wrong === null ? await refusalOf(options.refundRequests.ask(slug, facts.claimToken, given)) : null
        if (wrong === null && error === null) return claimed(facts)
        if (error !== null && error.status !== 400) throw error
        const now = await unlessAway(find(slug, claimToken), facts)
        if (now === null) return missing()
        if (isClaimed(now.order)) return claimed(facts)
        return {
          status: 400,
          body: claimPage(now, assets, { given, refusal: wrong ?? error?.message ?? null }),
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

async function refusalOf(claim: Promise<unknown>): Promise<GatewayError | null> {
  const outcome = await refusalOr(claim)
  return outcome instanceof GatewayError ? outcome : null
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

function requireForm(headers: ReadonlyHeaders): void {
  const type = headers.get('content-type') ?? ''
  const coding = headers.get('content-encoding')?.trim().toLowerCase() ?? 'identity'
  if (
    coding === 'identity' &&
    /^application\/x-www-form-urlencoded\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?$/i.test(type.trim())
  )
    return
  throw new LongError(
    UNSUPPORTED_MEDIA_TYPE,
    'Unsupported media type',
    'The body must be a form with Content-Type: application/x-www-form-urlencoded, in UTF-8.'
  )
}
