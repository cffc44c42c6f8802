import type { VNode } from 'preact'
import type { ProxyView } from '../../../../payments/proxies/schema.ts'
import { html } from '../../../kit/document.ts'
import { ApiRefusal } from '../../api.ts'
import type { PageRequest } from '../../page.ts'
import { field, fieldsOf, textArea } from '../../parts.ts'

type Price = NonNullable<ProxyView['defaultPrice']>

/** Fields of a price: satoshis, another currency, or an amount for each value of a field such as the model. */
export function priceFields(
  asked: Pick<PageRequest, 'form' | 'problem'>,
  which: string,
  label: string,
  sats: number | null,
  price: Price | undefined
): VNode {
  const of = fieldsOf(asked, which)
  // Tables by a header or the query are changed by the API alone.
  const table = typeof price === 'object' && 'json' in price.by ? { ...price, by: price.by.json } : null
  const amounts = of('amounts', table === null ? '' : linesOf(table.of))
  const amount = typeof price === 'object' ? '' : typeof price === 'string' ? price : String(sats ?? '')
  return html`
    ${field({ ...of('price', amount, /price(Sats)?$/i), label, hint: 'Satoshis such as 10, or an amount such as $0.002. 0 is free.', attributes: { maxlength: 40, autocomplete: 'off' } })}
    <details open=${amounts.value !== ''}><summary>By model or another request field</summary>
      ${field({ ...of('by', table?.by ?? 'model'), label: 'JSON body field', attributes: { maxlength: 200 } })}
      ${textArea({ ...amounts, label: 'One value and price per line', hint: 'For example, gpt-4o = $0.01.', attributes: { rows: 4, maxlength: 20_000 } })}
      ${field({ ...of('else', table?.else ?? 'refuse'), label: 'All other values', hint: 'A price, or “refuse”.', attributes: { maxlength: 40 } })}
    </details>
    ${field({ ...of('most', price === undefined || sats === null ? '' : String(sats)), label: 'Maximum in satoshis', hint: 'Maximum price of a request when its price is not fixed in satoshis.', attributes: { inputmode: 'numeric', maxlength: 10 } })}`
}

function linesOf(amounts: Readonly<Record<string, string>>): string {
  return Object.entries(amounts)
    .map(([value, amount]) => `${value} = ${amount}`)
    .join('\n')
}

/** @throws ApiRefusal for lines without a price, and without an upper bound where one is needed */
export function readPrice(form: URLSearchParams): { readonly sats: number | string; readonly price: unknown } {
  const text = (form.get('price') ?? '').trim()
  const lines = (form.get('amounts') ?? '').split('\n').filter(line => line.trim() !== '')
  if (lines.length === 0) {
    const [, sats] = /^(\d+)(?: sats?)?$/.exec(text) ?? []
    if (sats !== undefined) return { sats: Number(sats), price: null }
    // The API says what an amount looks like.
    return { sats: mostOf(form), price: text }
  }
  const amounts = lines.map(line => {
    const at = line.lastIndexOf('=')
    if (at < 0) throw refused('amounts', `Write a value, = and its price: ${line.trim()}`)
    return [line.slice(0, at).trim(), spelled(line.slice(at + 1))] as const
  })
  const rest = spelled(form.get('else') ?? '')
  return {
    sats: mostOf(form),
    price: {
      by: { json: (form.get('by') ?? '').trim() },
      of: Object.fromEntries(amounts),
      else: rest === '' ? 'refuse' : rest
    }
  }
}

/** A bare number is in satoshis. */
function spelled(text: string): string {
  const amount = text.trim()
  return /^\d+$/.test(amount) ? `${amount} sats` : amount
}

function mostOf(form: URLSearchParams): number {
  const most = (form.get('most') ?? '').trim()
  if (!/^[1-9]\d*$/.test(most)) throw refused('most', 'Type the most that a request may cost, in whole satoshis.')
  return Number(most)
}

function refused(name: string, words: string): ApiRefusal {
  return new ApiRefusal(422, words, { [name]: words })
}
