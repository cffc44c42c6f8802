import { t } from '../../../../engine/formats/language.ts'
import { COMMON_METHODS } from '../../../../engine/config/formats.ts'
import type { VNode } from 'preact'
import { html } from '../../../kit/document.ts'
import type { ProxyView } from '../../../../payments/proxies/schema.ts'
import { expectUnchanged, invalid, markOf } from '../../api.ts'
import type { PageRequest } from '../../page.ts'
import { action, fieldsOf, table } from '../../parts.ts'
import { forRole, may, sats } from '../../words.ts'

type Endpoint = ProxyView['endpoints'][number]

/** Price of a request in words. `price` takes precedence; the satoshis are then its upper bound. */
export function priceInWords(price: Endpoint['price'], priceSats: number): string {
  return typeof price === 'string' ? price : price === undefined ? sats(priceSats) : 'by request'
}

function priceOf({ price, priceSats }: Endpoint): string {
  return priceInWords(price, priceSats)
}

function addressOf({ method, pathPattern }: Pick<Endpoint, 'method' | 'pathPattern'>): string {
  return `${method ?? 'any'} ${pathPattern}`
}

function inWords(endpoints: readonly Endpoint[]): string {
  return endpoints.map(one => `${addressOf(one)} ${priceOf(one)}`).join('; ')
}

export function endpointPrices(request: PageRequest, { proxyId, endpoints }: ProxyView): VNode {
  const field = fieldsOf(request, 'endpoint')
  const was = markOf(endpoints)
  return html`
    ${table(
      'Prices by path',
      [
        ['Address', one => html`<code>${addressOf(one)}</code>`],
        ['Description', one => html`<bdi>${one.description ?? '–'}</bdi>`],
        ['Price', priceOf, 'number'],
        [
          'Remove',
          one =>
            !may(request, 'editor')
              ? null
              : action(
                  'Remove',
                  { do: 'endpoint-remove', was, method: one.method ?? '', pathPattern: one.pathPattern },
                  { what: t`price of ${addressOf(one)}` }
                )
        ]
      ],
      endpoints,
      html`<p>All paths have the same price. Set a path's price below. For metered prices, use <code>PUT /api/proxy/${proxyId}</code>.</p>`
    )}
    ${forRole(
      request,
      'editor',
      html`<form method="post" class="form" aria-label="Price of a path">
        <input type="hidden" name="do" value="endpoint" />
        <input type="hidden" name="was" value=${was} />
        ${field('method', 'Method', { options: [['', 'any'], ...COMMON_METHODS] })}
        ${field('pathPattern', 'Path', { hint: 'Relative to the address for buyers. End with /* to include all paths below.', required: true, maxlength: 500, placeholder: '/v1/reports/*' })}
        ${priceFields(request, 'endpoint', 'Price of a request', null, undefined)}
        <button class="button" type="submit">Set price</button>
      </form>`
    )}`
}

/**
 * Sets or removes the price of one address and keeps the entry's other members.
 * @throws ApiRefusal after a concurrent change, and for the API's refusals
 */
export async function changeEndpoint({ api, form }: PageRequest, target: string): Promise<void> {
  const { endpoints } = await api.get<ProxyView>(target)
  expectUnchanged(form, markOf(endpoints), inWords(endpoints))
  const method = form.text('method') || null
  const pathPattern = `/${form.text('pathPattern').replace(/^\//, '')}`
  const isMeant = (one: Endpoint): boolean => one.method === method && one.pathPattern === pathPattern
  const { price: _price, ...before } = endpoints.find(isMeant) ?? { method, pathPattern }
  const entries = form.get('do') === 'endpoint-remove' ? [] : [{ ...before, ...readPrice(form) }]
  const at = endpoints.findIndex(isMeant)
  const next: object[] = [...endpoints]
  next.splice(at < 0 ? next.length : at, 1, ...entries)
  await api.put(target, { endpoints: next.map(withoutNulls) })
}

/** The API returns null for inherited members and expects their absence. */
function withoutNulls(endpoint: object): object {
  return Object.fromEntries(Object.entries(endpoint).filter(([, value]) => value !== null))
}

type Price = NonNullable<ProxyView['defaultPrice']>

/** Fields of a price: satoshis, another currency, or an amount for each value of a field such as the model. */
export function priceFields(
  request: Pick<PageRequest, 'form' | 'problem'>,
  which: string,
  label: string,
  sats: number | null,
  price: Price | undefined
): VNode {
  const field = fieldsOf(request, which)
  // Tables by a header or the query are changed by the API alone.
  const table = typeof price === 'object' && 'json' in price.by ? { ...price, by: price.by.json } : null
  const amounts = table === null ? '' : linesOf(table.of)
  const isOpen = (request.form.text('do') === which ? request.form.text('amounts') : amounts) !== ''
  const amount = typeof price === 'object' ? '' : typeof price === 'string' ? price : String(sats ?? '')
  return html`
    ${field('price', label, { value: amount, at: /price(Sats)?$/i, hint: 'Satoshis such as 10, or an amount such as $0.002. 0 is free.', maxlength: 40, autocomplete: 'off' })}
    <details open=${isOpen}><summary>By model or another request field</summary>
      ${field('by', 'JSON body field', { value: table?.by ?? 'model', maxlength: 200 })}
      ${field('amounts', 'One value and price per line', { value: amounts, hint: 'For example, gpt-4o = $0.01.', rows: 4, maxlength: 20_000 })}
      ${field('else', 'All other values', { value: table?.else ?? 'refuse', hint: 'A price, or “refuse”.', maxlength: 40 })}
    </details>
    ${field('most', 'Maximum in satoshis', { value: price === undefined ? '' : sats, hint: 'Maximum price of a request when its price is not fixed in satoshis.', inputmode: 'numeric', maxlength: 10 })}`
}

function linesOf(amounts: Readonly<Record<string, string>>): string {
  return Object.entries(amounts)
    .map(([value, amount]) => `${value} = ${amount}`)
    .join('\n')
}

/** @throws ApiRefusal for lines without a price, and without an upper bound where one is needed */
export function readPrice(form: PageRequest['form']): { readonly priceSats: number; readonly price: unknown } {
  const text = form.text('price')
  const lines = form.lines('amounts')
  if (lines.length === 0) {
    const [, sats] = /^(\d+)(?: sats?)?$/.exec(text) ?? []
    if (sats !== undefined) return { priceSats: Number(sats), price: null }
    // The API says what an amount looks like.
    return { priceSats: mostOf(form), price: text }
  }
  const amounts = lines.map(line => {
    const at = line.lastIndexOf('=')
    if (at < 0) throw invalid('amounts', t`Write a value, = and its price: ${line}`)
    return [line.slice(0, at).trim(), spelled(line.slice(at + 1))] as const
  })
  return {
    priceSats: mostOf(form),
    price: {
      by: { json: form.text('by') },
      of: Object.fromEntries(amounts),
      else: spelled(form.text('else')) || 'refuse'
    }
  }
}

/** A bare number is in satoshis. */
function spelled(text: string): string {
  const amount = text.trim()
  return /^\d+$/.test(amount) ? `${amount} sats` : amount
}

function mostOf(form: PageRequest['form']): number {
  const most = form.text('most')
  if (!/^[1-9]\d*$/.test(most)) throw invalid('most', 'Type the most that a request may cost, in whole satoshis.')
  return Number(most)
}
