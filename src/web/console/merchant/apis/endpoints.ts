import { t } from '../../../../engine/formats/language.ts'
import { COMMON_METHODS } from '../../../../engine/config/formats.ts'
import type { VNode } from 'preact'
import { html } from '../../../kit/document.ts'
import type { ProxyView } from '../../../../payments/proxies/schema.ts'
import { expectUnchanged, markOf } from '../../api.ts'
import type { PageRequest } from '../../page.ts'
import { action, choice, field, fieldsOf, table } from '../../parts.ts'
import { forRole, may } from '../../status.ts'
import { sats } from '../../words.ts'
import { priceFields, readPrice } from './prices.ts'

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

/** Prices of an API's addresses with forms to set and remove one. */
export function endpointPrices(asked: PageRequest, { proxyId, endpoints }: ProxyView): VNode {
  const of = fieldsOf(asked, 'endpoint')
  const was = markOf(endpoints)
  return html`
    ${table(
      'Prices by path',
      [
        { title: 'Address', cell: (one: Endpoint) => html`<code>${addressOf(one)}</code>` },
        { title: 'Description', cell: one => html`<bdi>${one.description ?? '–'}</bdi>` },
        { title: 'Price', cell: priceOf, isNumber: true },
        {
          title: 'Remove',
          cell: one =>
            !may(asked, 'editor')
              ? null
              : action(
                  'Remove',
                  { do: 'endpoint-remove', was, method: one.method ?? '', pathPattern: one.pathPattern },
                  { what: t`price of ${addressOf(one)}` }
                )
        }
      ],
      endpoints,
      html`<p>All paths have the same price. Set a path's price below. For metered prices, use <code>PUT /api/proxy/${proxyId}</code>.</p>`
    )}
    ${forRole(
      asked,
      'editor',
      html`<form method="post" class="form" aria-label="Price of a path">
        <input type="hidden" name="do" value="endpoint" />
        <input type="hidden" name="was" value=${was} />
        ${choice('method', 'Method', [['', 'any'], ...COMMON_METHODS.map(name => [name, name] as const)], of('method').value)}
        ${field({ ...of('pathPattern'), label: 'Path', hint: 'Relative to the address for buyers. End with /* to include all paths below.', attributes: { required: true, maxlength: 500, pattern: '/.*', placeholder: '/v1/reports/*' } })}
        ${priceFields(asked, 'endpoint', 'Price of a request', null, undefined)}
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
  const method = (form.get('method') ?? '') === '' ? null : form.get('method')
  const pathPattern = (form.get('pathPattern') ?? '').trim()
  const isMeant = (one: Endpoint): boolean => one.method === method && one.pathPattern === pathPattern
  const { price: _price, ...before } = endpoints.find(isMeant) ?? { method, pathPattern }
  const set = (): object => {
    const { sats: priceSats, price } = readPrice(form)
    return { ...before, priceSats, price }
  }
  const entries: readonly object[] = form.get('do') === 'endpoint-remove' ? [] : [set()]
  const at = endpoints.findIndex(isMeant)
  const next: readonly object[] = [...endpoints.slice(0, at), ...entries, ...endpoints.slice(at + 1)]
  await api.send({
    method: 'PUT',
    target,
    body: { endpoints: (at < 0 ? [...endpoints, ...entries] : next).map(withoutNulls) }
  })
}

/** The API returns null for inherited members and expects their absence. */
function withoutNulls(endpoint: object): object {
  return Object.fromEntries(Object.entries(endpoint).filter(([, value]) => value !== null))
}
