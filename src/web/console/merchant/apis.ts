import { t } from '../../../engine/formats/language.ts'
import type { VNode } from 'preact'
import type { EarningsView } from '../../../selling/sales/operations.ts'
import type { ProxyTrafficView } from '../../../accounts/traffic/operations.ts'
import { NO_PROVIDER_KEY, type ProbeView, type ProxyView } from '../../../payments/proxies/schema.ts'
import { html } from '../../kit/document.ts'
import { expectUnchanged, markOf } from '../api.ts'
import { earningsSection } from '../earnings.ts'
import type { PageRequest, ConsolePage, PageContent } from '../page.ts'
import { action, badge, copyable, danger, facts, fieldsOf, table } from '../parts.ts'
import { count, forRole, latency, may, sats } from '../words.ts'
import { changeEndpoint, endpointPrices, priceFields, priceInWords, readPrice } from './apis/endpoints.ts'
import { apiSettings, changeSettings } from './apis/settings.ts'
import { apiTraffic, apiTrafficSection } from './traffic.ts'

/** Complete programs that pay for an address and print the response. */
interface BuyersPrograms {
  readonly typescript: string
  readonly python: string
}

/**
 * Sample programs for buyers of `url`, each with a third-party library and the user's wallet. `test/interop/nwc` runs
 * each as shown.
 */
export function programsFor(url: string): BuyersPrograms {
  return {
    typescript: `// npm install @getalby/sdk @getalby/lightning-tools
import { fetch402 } from '@getalby/lightning-tools/402'
import { NWCClient } from '@getalby/sdk'

// The address that your wallet shows for an app: nostr+walletconnect://…
const wallet = new NWCClient({ nostrWalletConnectUrl: process.env.NWC_URL })
const response = await fetch402(${JSON.stringify(url)}, {}, { wallet })
console.log(await response.text())
wallet.close()
`,
    python: `# pip install l402-requests
# NWC_CONNECTION_STRING is the address that your wallet shows for an app: nostr+walletconnect://…
import l402_requests

print(l402_requests.get(${JSON.stringify(url)}).text)
`
  }
}

const EARNINGS = '/api/merchant/earnings'

export const apisPage: ConsolePage = {
  id: 'getConsoleApis',
  path: 'apis',
  summary: 'APIs that the account sells, and the form that makes another one',
  async show(request) {
    const { api, link } = request
    const field = fieldsOf(request)
    const [proxies, traffic, sums] = await Promise.all([
      api.get<readonly ProxyView[]>('/api/proxy'),
      apiTraffic(request, null),
      api.get<EarningsView>(`${EARNINGS}?by=day&of=proxy`)
    ])
    const earned = earnedOf(sums)
    const counted = new Map(traffic.proxies.map(one => [one.proxyId, one]))
    const asked402 = (one: (typeof traffic.proxies)[number] | undefined): string =>
      one === undefined ? '–' : t`${count(one.asked)}, ${count(one.paidRequests)} paid`
    return {
      title: 'APIs',
      content: html`
        ${table(
          'APIs',
          [
            ['Name', proxy => html`<a href=${link(`apis/${proxy.proxyId}`)}><bdi>${proxy.name}</bdi></a>`],
            ['Status', proxy => stateOf(request, proxy, counted.get(proxy.proxyId))],
            ['Forwards to', proxy => html`<bdi>${proxy.targetBaseUrl}</bdi>`],
            ['Price', priceOf, 'number'],
            ['Earnings (30 days)', ({ proxyId }) => earned(proxyId), 'number'],
            ['Requests', ({ proxyId }) => count(counted.get(proxyId)?.requests ?? 0), 'number'],
            ['402 responses', ({ proxyId }) => asked402(counted.get(proxyId)), 'number'],
            ['Errors', ({ proxyId }) => count(counted.get(proxyId)?.serverErrors ?? 0), 'number'],
            [
              'p50, p99',
              ({ proxyId }) =>
                `${latency(counted.get(proxyId)?.p50 ?? null)}, ${latency(counted.get(proxyId)?.p99 ?? null)}`,
              'number'
            ]
          ],
          proxies,
          html`<p>No APIs yet. Enter an https address and a price per request. Buyers pay here and are forwarded to your address.</p>`
        )}
        ${proxies.length === 0 ? null : apiTrafficSection(request, traffic)}
        <section aria-labelledby="make">
          <h2 id="make">Add an API</h2>
          ${forRole(
            request,
            'editor',
            html`<form method="post" class="form">
            ${field('name', '1. Name', { required: true, maxlength: 100 })}
            ${field('targetBaseUrl', '2. Address of your API', { hint: 'Must use https and be reachable from the internet.', type: 'url', required: true, maxlength: 2048, placeholder: 'https://api.example.com/v1' })}
            ${field('defaultPriceSats', '3. Satoshis per request', { value: '10', required: true, inputmode: 'numeric', pattern: '[0-9]+', maxlength: 10 })}
            <button class="button" type="submit">Add API</button>
          </form>`
          )}
        </section>`
    }
  },
  async act({ api, form }) {
    const { proxyId } = await api.post<ProxyView>('/api/proxy', {
      name: form.text('name'),
      targetBaseUrl: form.text('targetBaseUrl'),
      defaultPriceSats: form.number('defaultPriceSats')
    })
    const { success, statusCode } = await api.post<ProbeView>(`/api/proxy/${proxyId}/test`)
    return success || statusCode !== null ? { to: `apis/${proxyId}`, done: 'made' } : { to: `apis/${proxyId}` }
  }
}

export const apiPage: ConsolePage = {
  id: 'getConsoleApi',
  path: 'apis/:proxyId',
  summary: 'One API: its test, how buyers pay it, its prices and earnings',
  show: request => shown(request, null),
  async act(request) {
    const { api, form, id } = request
    const target = `/api/proxy/${id('proxyId')}`
    const to = `apis/${id('proxyId')}`
    switch (form.get('do')) {
      case 'test':
        return await shown(request, await api.post<ProbeView>(`${target}/test`))
      case 'pause':
      case 'resume':
        expectUnchanged(form, stateInWords(await api.get<ProxyView>(target)))
        await api.put(target, { isActive: form.get('do') === 'resume' })
        break
      case 'price': {
        const now = await api.get<ProxyView>(target)
        expectUnchanged(form, usualMark(now), usualPrice(now))
        const { priceSats: defaultPriceSats, price: defaultPrice } = readPrice(form)
        await api.put(target, { defaultPrice, defaultPriceSats })
        break
      }
      case 'settings':
        await changeSettings(request, target)
        break
      case 'endpoint':
      case 'endpoint-remove':
        await changeEndpoint(request, target)
        break
      case 'revoke':
        await api.delete(`${target}/tokens`)
        return { to, done: 'revoked' }
      case 'remove':
        await api.delete(target)
        return { to: 'apis', done: 'removed' }
      default:
        return await shown(request, null)
    }
    return { to, done: 'saved' }
  }
}

/** Earnings per API. Sums only separate the top 20; others are on their own pages. */
function earnedOf({ points }: EarningsView): (proxyId: string) => string {
  const byProxy = new Map<string | null, number>()
  for (const point of points) byProxy.set(point.key, (byProxy.get(point.key) ?? 0) + point.sats)
  return proxyId => {
    const earned = byProxy.get(proxyId)
    return earned === undefined && byProxy.has(null) ? t('less than the top 20') : sats(earned ?? 0)
  }
}

function stateInWords({ isActive }: ProxyView): string {
  return isActive ? 'on sale' : 'paused'
}

/** A target that answered requests of the last day can be sold, whatever its last test found. */
function stateOf(
  { link }: Pick<PageRequest, 'link'>,
  { isActive, problem }: ProxyView,
  traffic: ProxyTrafficView['proxies'][number] | undefined
): VNode {
  if (!isActive) return badge('paused', 'quiet')
  const hasAnswered = traffic !== undefined && traffic.paidRequests > traffic.upstreamFailures
  if (problem === null || (hasAnswered && problem !== NO_PROVIDER_KEY)) return badge('active', 'good')
  const why = badge(t`cannot be sold: ${problem.charAt(0).toLowerCase() + problem.slice(1).replace(/\.$/, '')}`, 'bad')
  return problem === NO_PROVIDER_KEY ? html`${why} <a href=${link('settings#provider')}>Save a key</a>` : why
}

/** Price of addresses without one of their own. */
function usualPrice({ defaultPriceSats, defaultPrice }: ProxyView): string {
  const price = priceInWords(defaultPrice, defaultPriceSats)
  return defaultPrice === undefined ? price : t`${price}, never more than ${sats(defaultPriceSats)}`
}

/** For a form's `was`: two prices by request have equal words. */
function usualMark({ defaultPriceSats, defaultPrice }: ProxyView): string {
  return defaultPrice === undefined ? String(defaultPriceSats) : markOf([defaultPriceSats, defaultPrice])
}

function priceOf(proxy: ProxyView): string {
  const { endpoints } = proxy
  const usual = usualPrice(proxy)
  return endpoints.length === 0 ? usual : t`${usual}, and ${endpoints.length} more`
}

async function shown(request: PageRequest, probe: ProbeView | null): Promise<PageContent> {
  const proxy = await request.api.get<ProxyView>(`/api/proxy/${request.id('proxyId')}`)
  const { proxyId } = proxy
  const [traffic, earned] = await Promise.all([
    apiTraffic(request, proxyId),
    earningsSection(request, EARNINGS, ['proxy'], { proxyId })
  ])
  const programs = programsFor(proxy.proxyUrl)
  return {
    title: proxy.name,
    isName: true,
    content: html`
      ${facts([
        ['Status', stateOf(request, proxy, traffic.proxies[0])],
        ['Forwards to', html`<bdi>${proxy.targetBaseUrl}</bdi>`],
        ['Price', priceOf(proxy)],
        ['Token validity', t`${proxy.tokenValiditySeconds} seconds`],
        ['Sales', html`<a href=${request.link(`sales?proxyId=${proxy.proxyId}`)}>Sales</a>`]
      ])}
      <section aria-labelledby="test"><h2 id="test">Test connection</h2>
        ${probe === null ? null : html`<p class=${`notice ${probe.success ? 'good' : 'bad'}`} role="status">${probe.message} (${probe.latencyMs} ms)</p>`}
        ${forRole(request, 'editor', action('Test now', { do: 'test' }))}
      </section>
      ${earned}
      ${apiTrafficSection(request, traffic)}
      <section aria-labelledby="buy"><h2 id="buy">How to buy</h2>
        ${copyable('url', 'Address for buyers', proxy.proxyUrl)}
        ${copyable('curl', 'Try it', `curl -i '${proxy.proxyUrl}'`)}
        <details><summary>From TypeScript and Python</summary>
          <pre>${programs.typescript}</pre>
          <pre>${programs.python}</pre>
        </details>
      </section>
      <section aria-labelledby="prices"><h2 id="prices">Prices</h2>
        ${endpointPrices(request, proxy)}
        ${forRole(
          request,
          'editor',
          html`<form method="post" class="form">
          <input type="hidden" name="do" value="price" />
          <input type="hidden" name="was" value=${usualMark(proxy)} />
          ${priceFields(request, 'price', 'Price of all other requests', proxy.defaultPriceSats, proxy.defaultPrice)}
          <button class="button" type="submit">Save</button>
        </form>`
        )}
      </section>
      ${apiSettings(request, proxy)}
      ${
        may(request, 'editor')
          ? html`<section aria-labelledby="more"><h2 id="more">More actions</h2>
        ${proxy.isActive ? action('Pause API', { do: 'pause', was: stateInWords(proxy) }) : action('Resume sales', { do: 'resume', was: stateInWords(proxy) })}
        ${danger('Revoke all sales', 'Buyers can no longer use what they paid for and must pay again.', action('Revoke all', { do: 'revoke' }, { isDanger: true }))}
        ${danger('Remove API', 'Its address then returns 404 and is never reused. Past earnings stay in the lists.', action('Remove', { do: 'remove' }, { isDanger: true }))}
      </section>`
          : null
      }`
  }
}
