import { VALIDATION } from '../../engine/operations/error-kinds.ts'
import { ShortError, ValidationError } from '../../engine/operations/errors.ts'
import { isStorable, UNSTORABLE } from '../../engine/operations/validation.ts'
import { fieldName } from '../../engine/operations/field-errors.ts'
import { CURRENCIES, CURRENCY_RULES, type Currency } from '../../lightning/money/prices.ts'
import { inUnits, plainText, readDecimal, type Decimal } from '../../lightning/money/decimal.ts'
import { METADATA_LIMITS, type Payment, type PaymentInput } from './schema.ts'

export type PaymentDetails = Pick<
  Payment,
  'orderId' | 'amount' | 'currency' | 'description' | 'customerEmail' | 'customerName' | 'successUrl' | 'metadata'
>

const rules = CURRENCIES.map(currency => CURRENCY_RULES[currency])
/** More decimals than any currency has are a validation problem (decision 1). */
const MOST_PLACES = Math.max(...rules.map(rule => rule.places))
const LARGEST = rules.map(rule => rule.largest).reduce((a, b) => (a > b ? a : b))

/**
 * Checks what a field's schema cannot express. Decision 1: an error of one field alone is a validation problem, one
 * that depends on the currency is `{error}`.
 * @throws ValidationError 400, ShortError 400
 */
export function checkInput(input: PaymentInput): PaymentDetails {
  const faults: Record<string, string[]> = {}
  const refuse = (path: string, message: string): void => {
    ;(faults[fieldName(path)] ??= []).push(message)
  }
  const amount = readDecimal(input.amount)
  const fault = amountFault(amount)
  if (fault !== null) refuse('/amount', fault)
  // The schema's format accepts quoted names with spaces and commas.
  if (input.customerEmail !== undefined && !PLAIN_EMAIL.test(input.customerEmail))
    refuse('/customerEmail', 'Must be a valid email.')
  if (input.successUrl !== undefined && !isWebAddress(input.successUrl))
    refuse('/successUrl', 'Must be an http or https address.')
  for (const message of metadataFaults(input.metadata ?? {})) refuse('/metadata', message)
  if (amount === null || Object.keys(faults).length > 0) throw new ValidationError(faults)
  checkRules(amount, input.currency)
  return {
    orderId: input.orderId,
    amount: plainText(amount),
    currency: input.currency,
    description: input.description ?? null,
    customerEmail: input.customerEmail ?? null,
    customerName: input.customerName ?? null,
    successUrl: input.successUrl ?? null,
    metadata: input.metadata ?? null
  }
}

function amountFault(amount: Decimal | null): string | null {
  if (amount === null) return 'Must be a decimal number such as 0.00012.'
  if (amount.digits < 0n) return 'Must be at least 0.'
  if (amount.places > MOST_PLACES) return `Must have at most ${MOST_PLACES} decimal places.`
  return isAbove(amount, LARGEST) ? `Must be at most ${LARGEST}.` : null
}

/** @throws ShortError 400 for what this currency does not allow (decision 46) */
function checkRules(amount: Decimal, currency: Currency): void {
  const { places, largest } = CURRENCY_RULES[currency]
  if (amount.places > places)
    throw new ShortError(VALIDATION, `An amount in ${currency} has at most ${places} decimal places.`)
  if (isAbove(amount, largest)) throw new ShortError(VALIDATION, `An amount in ${currency} is at most ${largest}.`)
}

function isAbove(amount: Decimal, limit: bigint): boolean {
  return inUnits(amount, amount.places) > limit * 10n ** BigInt(amount.places)
}

/** A plain address, without the quoted names of the format `email` (decision 50). */
export const PLAIN_EMAIL = /^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+$/

/** A redirect target: excludes blanks and backslashes, which browsers parse differently. */
function isWebAddress(text: string): boolean {
  return /^https?:\/\/[^\s\\\p{Cc}]+$/iu.test(text) && URL.canParse(text)
}

function metadataFaults(metadata: Readonly<Record<string, string>>): string[] {
  const faults: string[] = []
  const pairs = Object.entries(metadata)
  if (pairs.length > METADATA_LIMITS.pairs) faults.push(`Must have at most ${METADATA_LIMITS.pairs} pairs.`)
  if (pairs.some(([key]) => key === '' || [...key].length > METADATA_LIMITS.key))
    faults.push(`Keys must have 1 to ${METADATA_LIMITS.key} characters.`)
  if (pairs.some(([key, value]) => !isStorable(key) || !isStorable(value))) faults.push(UNSTORABLE)
  return faults
}
