import { StorePlatformError, type CalculatedLine, type Calculation, type CartQuestion } from '../platform.ts'
import type { OrderTax, TaxLine } from '../schema.ts'
import { requireDollars } from './catalog.ts'
import { plainWords } from './faults.ts'
import { money, requireDone, SHIPPING_TITLE, taxRate, variantGid } from './orders.ts'
import type { ShopifyValue } from './reader.ts'

/** A draft that is computed and never stored. */
export function cartInput({ items, location, shippingCents }: CartQuestion): object {
  return {
    lineItems: items.map(({ variantId, quantity }) => ({ variantId: variantGid(variantId), quantity })),
    shippingAddress: {
      countryCode: location.country,
      ...(location.state === '' ? {} : { provinceCode: location.state }),
      ...(location.zip === '' ? {} : { zip: location.zip })
    },
    shippingLine: { title: SHIPPING_TITLE, priceWithCurrency: money(shippingCents) },
    // The buyer pays the shop's prices.
    acceptAutomaticDiscounts: false
  }
}

/**
 * Current prices and taxes. A shop whose prices include tax adds none on top: the buyer would pay it twice (contract:
 * totalUsd equals subtotal plus shipping plus tax; decision 142). The platform's subtotal and total must agree to the
 * cent, or nothing is sold.
 * @throws StorePlatformError `refused` for what the platform cannot compute, `away` for a response that does not add up
 */
export function readCalculation(data: ShopifyValue, { items, shippingCents }: CartQuestion): Calculation {
  const payload = data.member('draftOrderCalculate')
  requireDone(payload, 'work out tax')
  const draft = payload.member('calculatedDraftOrder')
  requireDollars(draft.member('currencyCode').text())
  for (const warning of draft.member('warnings').list()) {
    // Tax at a location that the platform doubts would be an estimate; other warnings are about bundles and discounts.
    if (/address|region|tax/i.test(`${warning.member('field').text()} ${warning.member('errorCode').text()}`)) {
      throw new StorePlatformError(
        'refused',
        `The store platform did not work out tax: ${plainWords(warning.member('message').text())}`,
        { upstreamStatus: 200 }
      )
    }
  }
  const lines = readLines(draft)
  const goods = items.reduce((sum, { variantId, quantity }) => {
    const line = lines.get(variantId) ?? draft.member('lineItems').fail(`a list that has variant ${variantId}`)
    return sum + line.priceCents * quantity
  }, 0)
  const subtotal = readMoney(draft.member('subtotalPriceSet'))
  const shipping = readMoney(draft.member('totalShippingPriceSet'))
  const total = readMoney(draft.member('totalPriceSet'))
  const isIncluded = draft.member('taxesIncluded').flag()
  const taxCents = readMoney(draft.member('totalTaxSet'))
  const onTop = isIncluded ? 0 : taxCents
  if (goods !== subtotal) draft.member('subtotalPriceSet').fail('the sum of its lines')
  if (shipping !== shippingCents)
    draft.member('totalShippingPriceSet').fail(`the ${shippingCents} cents of shipping that were asked for`)
  if (subtotal + shipping + onTop !== total) draft.member('totalPriceSet').fail('the sum of goods, shipping and tax')
  return { lines, taxCents: onTop, tax: readTax(draft, taxCents, subtotal + shipping, isIncluded) }
}

function readLines(draft: ShopifyValue): Map<number, CalculatedLine> {
  const lines = new Map<number, CalculatedLine>()
  for (const line of draft.member('lineItems').list()) {
    lines.set(line.member('variant').member('legacyResourceId').id(), {
      priceCents: readMoney(line.member('originalUnitPriceSet')),
      requiresShipping: line.member('requiresShipping').flag()
    })
  }
  return lines
}

/**
 * Taxes by name and rate, summed over lines and shipping. Each is rounded separately, so the largest takes the missing
 * cent.
 */
function readTax(draft: ShopifyValue, taxCents: number, onCents: number, isIncluded: boolean): OrderTax {
  const found = draft.member('taxLines')
  const given = found.list()
  const byName = new Map<string, TaxLine>()
  for (const line of given) {
    const title = line.member('title').text()
    const cents = readMoney(line.member('priceSet'))
    const rate = line.optional('rate')?.share() ?? taxRate(cents, Math.max(onCents, 1))
    const key = `${rate} ${title}`
    byName.set(key, { title, rate, cents: cents + (byName.get(key)?.cents ?? 0) })
  }
  const lines = [...byName.values()].filter(line => line.cents > 0)
  const missing = taxCents - lines.reduce((sum, line) => sum + line.cents, 0)
  if (missing === 0) return { lines, isIncluded }
  if (Math.abs(missing) > given.length || lines.length === 0) return found.fail('the sum of tax')
  const largest = lines.reduce((most, line) => (line.cents > most.cents ? line : most))
  return { lines: lines.map(line => (line === largest ? { ...line, cents: line.cents + missing } : line)), isIncluded }
}

function readMoney(set: ShopifyValue): number {
  const given = set.member('shopMoney')
  requireDollars(given.member('currencyCode').text())
  return given.member('amount').cents()
}
