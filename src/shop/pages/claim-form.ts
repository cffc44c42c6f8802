import { currentLanguage, t } from '../../engine/formats/language.ts'
import { isStorable } from '../../engine/operations/validation.ts'
import { isMailAddress } from '../../web/mail/mail.ts'
import { asciiEmail } from '../../engine/formats/text-patterns.ts'
import { addressRules, COUNTRIES, countryCode, countryName } from '../countries.ts'
import type { Order, ShippingAddress } from '../schema.ts'
import type { VNode } from 'preact'
import { satoshisText } from '../../web/kit/amounts.ts'
import { html } from '../../web/kit/document.ts'
import type { SentForm } from '../../web/kit/form.ts'
import { failureWords } from '../orders/placement.ts'

/** Maximum characters (contract, Shipping address; RFC 5321 for the email). */
export const MAXIMA = {
  email: 254,
  firstName: 200,
  lastName: 200,
  country: 100,
  address1: 500,
  address2: 500,
  city: 100,
  province: 100,
  zip: 20,
  phone: 30
} as const
export type Field = keyof typeof MAXIMA
export const FIELDS = Object.keys(MAXIMA) as Field[] /* the object's own keys */

export type FormValues = Readonly<Record<Field, string>>
export type FormErrors = Readonly<Partial<Record<Field, string>>>

export interface ClaimFormDetails {
  readonly email: string
  readonly shippingAddress: ShippingAddress
}

/** Missing fields are empty; values are trimmed. */
export function valuesOfForm(form: SentForm): FormValues {
  return valuesOf(field => oneSpace(form.text(field)))
}

/** One line, as labels and customs forms show. */
function oneSpace(text: string): string {
  return text.replaceAll(/[\t\n\v\f\r\u0085\u2028\u2029]+/g, ' ').trim()
}

function valuesOf(value: (field: Field) => string): FormValues {
  const values = Object.fromEntries(FIELDS.map(field => [field, value(field)])) as Record<Field, string> /* of all */
  return { ...values, email: asciiEmail(values.email) }
}

export function prefilled(order: Pick<Order, 'email' | 'location'>, onlyCountry: string | null): FormValues {
  const { country, state, zip } = order.location
  const known: Partial<Record<Field, string>> = {
    email: order.email ?? '',
    country: onlyCountry ?? country,
    province: state,
    zip
  }
  return valuesOf(field => known[field] ?? '')
}

export function countriesOf(onlyCountry: string | null): ReadonlyArray<(typeof COUNTRIES)[number]> {
  const countries = onlyCountry === null ? COUNTRIES : COUNTRIES.filter(({ code }) => code === onlyCountry)
  const language = currentLanguage()
  if (language === 'en') return countries
  return countries
    .map(({ code }) => ({ code, name: countryName(code) }))
    .sort((one, other) => one.name.localeCompare(other.name, language))
}

/** Returns the details or the errors by field. `onlyCountry`: the only country that the shop ships to; null for any. */
export function checkForm(
  values: FormValues,
  onlyCountry: string | null
): { readonly details: ClaimFormDetails } | { readonly errors: FormErrors } {
  const errors: Partial<Record<Field, string>> = {}
  const country = countryCode(values.country)
  for (const field of FIELDS) {
    const value = values[field]
    if (!isStorable(value) || /\p{Cc}/u.test(value))
      errors[field] = t`${labelOf(field, country)} contains an invalid character. Enter it again.`
    else if ([...value].length > MAXIMA[field])
      errors[field] = t`${labelOf(field, country)} can have at most ${MAXIMA[field]} characters.`
  }
  for (const field of FIELDS)
    if (values[field] === '' && isNeeded(field, country))
      errors[field] = t`Enter a value for “${labelOf(field, country)}”.`
  if (values.email !== '' && !isMailAddress(values.email))
    errors.email ??= t('Enter an email address like name@example.com.')
  if (country === null) errors.country ??= t('Choose a country from the list.')
  else if (onlyCountry !== null && country !== onlyCountry)
    errors.country ??= t`This shop only ships within ${countryName(onlyCountry)}.`
  if (country === null || Object.keys(errors).length > 0) return { errors }
  const { email, firstName, lastName, address1, city } = values
  return {
    details: {
      email,
      shippingAddress: {
        firstName,
        lastName,
        address1,
        address2: orNull(values.address2),
        city,
        province: orNull(values.province),
        zip: orNull(values.zip),
        country,
        phone: orNull(values.phone)
      }
    }
  }
}

function orNull(text: string): string | null {
  return text === '' ? null : text
}

/** The name of a field on the page, by the chosen country's two capital letters; null for none. */
export function labelOf(field: Field, country: string | null): string {
  const { stateLabel, zipLabel } = addressRules(country ?? '')
  const labels: Readonly<Record<Field, string>> = {
    email: t('Email'),
    firstName: t('First name'),
    lastName: t('Last name'),
    country: t('Country'),
    address1: t('Street and house number'),
    address2: t('Apartment, suite or floor'),
    city: t('City'),
    province: t(stateLabel),
    zip: t(zipLabel),
    phone: t('Phone')
  }
  return labels[field]
}

export function isNeeded(field: Field, country: string | null): boolean {
  const { stateNeeded, zipNeeded } = addressRules(country ?? '')
  if (field === 'province') return stateNeeded
  if (field === 'zip') return zipNeeded
  return field !== 'address2' && field !== 'phone'
}

/** Longest Bitcoin address or invoice (contract, Limits: refundAddress). */
export const LONGEST_ADDRESS = 500

/** Why a paid order was not made, and a form for a refund address; null without a failure. */
export function refundPanel(
  order: Order,
  action: string,
  { given = '', refusal = null }: { readonly given?: string; readonly refusal?: string | null } = {}
): VNode | null {
  const { failure, refundRequest, refundedAt } = order
  if (failure === null && refundRequest === null && refundedAt === null) return null
  if (refundedAt !== null)
    return html`<section class="panel" aria-labelledby="refund"><h2 id="refund" class="result-heading">Your payment has been refunded</h2></section>`
  return html`
    <section class="panel" aria-labelledby="refund">
      <div>
        <h2 id="refund" class="result-heading">${refundRequest === null ? t('Or request a refund') : t('Refund requested')}</h2>
        ${failure === null ? null : html`<p class="soft">${t(failureWords(failure.reason))} ${t('You can submit your address again later, or request a refund.')}</p>`}
        ${refundRequest === null ? null : html`<p class="soft">The shop will send it to <bdi>${refundRequest.address}</bdi>. Until then, your order can still be placed.</p>`}
      </div>
      <form class="form" method="post" action=${action}>
        <div class=${refusal === null ? 'input' : 'input wrong'}>
          <label for="refundAddress"><span class="label-text">Bitcoin address or Lightning invoice</span></label>
          ${refusal === null ? null : html`<p class="error" id="refundAddress-error">${t(refusal)}</p>`}
          <input id="refundAddress" name="refundAddress" type="text" value=${given} maxlength=${LONGEST_ADDRESS} autocapitalize="none" spellcheck="false" autocomplete="off" required
            ...${refusal === null ? {} : { 'aria-invalid': 'true', 'aria-describedby': 'refundAddress-error' }} />
        </div>
        <button class="button second" data-busy="Sending…">${refundRequest === null ? t('Request refund') : t('Use this address instead')}</button>
        <p class="hint">You paid ${satoshisText(order.totalSats)}. The shop sends refunds manually, so an invoice should be valid for several days.</p>
      </form>
    </section>`
}
