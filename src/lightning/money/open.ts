import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Metrics } from '../../platform/telemetry/metrics.ts'
import { PriceFeed, type AskSource } from './feed.ts'
import { FixedPrices, type Quotes } from './prices.ts'
import { PRICE_SOURCES, SourceFault } from './sources.ts'
import { Agent, buildConnector, request } from 'undici'
import { overInterim } from '../../platform/system/interim-responses.ts'

export interface OpenedPrices extends Quotes {
  close(): Promise<void>
}

/** `ask` is for tests. */
interface PriceContext {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly ask?: AskSource
}

/** Market prices, or fixed ones when both slots are the sandbox. Other gateways never use a made-up price. */
export function openPrices(config: Pick<GatewayConfig, 'lightning' | 'prices'>, around: PriceContext): OpenedPrices {
  const { lightning, prices } = config
  if ([...lightning.primary, ...lightning.alternate].every(({ kind }) => kind === 'sandbox')) {
    return Object.assign(new FixedPrices(undefined, around.clock), { close: async () => {} })
  }
  const calls = openSourceCalls()
  const feed = new PriceFeed({
    clock: around.clock,
    log: around.log,
    metrics: around.metrics,
    ask: around.ask ?? calls.ask,
    sources: Object.entries(PRICE_SOURCES).map(([name, source]) => ({
      name,
      url: (prices.urls[name] ?? source.url).replace(/(?<!\/)\/+$/, ''),
      source
    }))
  })
  return Object.assign(feed, { close: () => calls.close() })
}

const MAX_RESPONSE_BYTES = 64 * 1024

/** HTTP calls to price sources. Redirects are not followed. */
export function openSourceCalls(): { readonly ask: AskSource; close(): Promise<void> } {
  const agent = new Agent({
    connections: 4,
    allowH2: false,
    maxResponseSize: MAX_RESPONSE_BYTES,
    connect: overInterim(buildConnector({ allowH2: false }))
  })
  return {
    async ask(url, signal) {
      // One source requires a User-Agent.
      const response = await request(url, {
        dispatcher: agent,
        signal,
        headers: { accept: 'application/json', 'user-agent': 'boltgate' }
      })
      const body = await response.body.text()
      if (response.statusCode !== 200) throw new SourceFault(`status ${response.statusCode}`)
      return body
    },
    close: () => agent.destroy()
  }
}
