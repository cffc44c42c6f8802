import { VALIDATION } from '../engine/operations/error-kinds.ts'
import { LongError } from '../engine/operations/errors.ts'
import type { Calculation, Catalog } from './platform.ts'
import type { Integration, OrderItem, ShippingRules, BuyerLocation } from './schema.ts'
import { trimmed, type ReadonlyHeaders } from '../engine/message/headers.ts'
import { countryCode } from './countries.ts'

export interface CartLine {
  readonly variantId: number
  readonly quantity: number
}

export interface StoreCheckoutInput {
  readonly items: readonly CartLine[]
  readonly email: string | null
}

/** Maximum lines, quantity per line, and total quantity (contract, Limits: Storefront cart). */
export const CART_LIMITS = Object.freeze({ lines: 10, quantity: 10, total: 10 })

/**
 * Checks the total quantity, which no schema of a field can.
 * @throws LongError 400
 */
export function checkTotalQuantity(lines: readonly CartLine[]): void {
  const total = lines.reduce((sum, line) => sum + line.quantity, 0)
  if (total > CART_LIMITS.total)
    throw invalidCart(`The cart holds ${total} pieces; at most ${CART_LIMITS.total} can be bought in one order.`)
}

export function joined(lines: readonly CartLine[]): CartLine[] {
  const quantities = new Map<number, number>()
  for (const { variantId, quantity } of lines) quantities.set(variantId, (quantities.get(variantId) ?? 0) + quantity)
  return [...quantities].map(([variantId, quantity]) => ({ variantId, quantity }))
}

/**
 * Adds titles and prices of the catalog.
 * @throws LongError 400 for a variant that is unknown or unavailable
 */
export function priced(lines: readonly CartLine[], catalog: Catalog): OrderItem[] {
  return lines.map(({ variantId, quantity }) => {
    for (const product of catalog.products) {
      const variant = product.variants.find(candidate => candidate.variantId === variantId)
      if (variant === undefined) continue
      if (!variant.available) throw soldOut(variantId)
      return {
        variantId,
        productTitle: product.title,
        variantTitle: variant.title,
        quantity,
        priceCents: variant.priceCents,
        requiresShipping: true
      }
    }
    throw invalidCart(`The catalog has no variant ${variantId}.`)
  })
}

/**
 * Applies the platform's current prices, which may be newer than the catalog; returns the same lines if nothing
 * changed.
 * @throws TypeError for a variant that the platform left out
 */
export function atPricesOf(items: readonly OrderItem[], { lines }: Calculation): OrderItem[] {
  return items.map(item => {
    const line = lines.get(item.variantId)
    if (line === undefined) throw new TypeError(`the platform has no price for variant ${item.variantId}`)
    return { ...item, ...line }
  })
}

export function subtotalOf(items: readonly OrderItem[]): number {
  return items.reduce((sum, item) => sum + item.priceCents * item.quantity, 0)
}

/** Cents: the flat rate, also abroad, or 0 from the free threshold on (decision 141). */
export function shippingFor(rules: ShippingRules, subtotalCents: number): number {
  return rules.freeEnabled && subtotalCents >= (rules.freeThresholdCents ?? 0) ? 0 : rules.domesticCents
}

/** Whether a store ships to a country: everywhere, or only within its own (decision 140). */
export function shipsTo(integration: Integration, country: string): boolean {
  return !integration.shipping.domesticOnly || integration.shopCountry === country
}

/** 400 for an international address on a domestic-only store (contract, Errors). */
export function notShippedTo(integration: Integration, country: string): LongError {
  const home = integration.shopCountry === null ? 'its own country' : integration.shopCountry
  return new LongError(
    VALIDATION,
    'Not shipped to this country',
    `This store ships within ${home} only, not to ${country}.`
  )
}

export function soldOut(variantId: number): LongError {
  return invalidCart(`Variant ${variantId} is not available, or not in this quantity.`)
}

function invalidCart(message: string): LongError {
  return new LongError(VALIDATION, 'Invalid cart', message)
}

export const LOCATION_HEADER = 'X-Buyer-Location'

const FORM = /^[A-Z]{2}-[A-Z0-9]{0,3}-.{0,20}$/

/**
 * Reads X-Buyer-Location: `{country}-{state}-{zip}`, split at the first two dashes (ZIP+4 keeps its own); the state may
 * be empty (decision 139). Required, since tax is computed from it (contract, Checkout 402 response).
 * @throws LongError 400 when it is missing, blank, malformed, or sent twice with different values
 */
export function readLocation(headers: ReadonlyHeaders): BuyerLocation {
  const [first, ...others] = new Set(headers.all(LOCATION_HEADER.toLowerCase()).map(trimmed))
  if (first === undefined || first === '')
    throw invalid(`The header ${LOCATION_HEADER} is required: {country}-{state}-{zip}, such as US-CA-94103.`)
  if (others.length > 0) throw invalid(`The header ${LOCATION_HEADER} was sent more than once, with different values.`)
  const text = first.toUpperCase()
  if (!FORM.test(text))
    throw invalid(
      `The header ${LOCATION_HEADER} must be {country}-{state}-{zip}, such as US-CA-94103 or SG--018956: two letters, at most 3 letters or digits, at most 20 characters.`
    )
  const zipAt = text.indexOf('-', 3) + 1
  const country = countryCode(text.slice(0, 2))
  if (country === null)
    throw invalid(
      `The header ${LOCATION_HEADER} must begin with a country's two letters (ISO 3166-1), not ${text.slice(0, 2)}.`
    )
  return { country, state: text.slice(3, zipAt - 1), zip: trimmed(text.slice(zipAt)) }
}

function invalid(message: string): LongError {
  return new LongError(VALIDATION, 'Invalid buyer location', message)
}
