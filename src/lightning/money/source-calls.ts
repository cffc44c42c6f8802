import { Agent, buildConnector, request } from 'undici'
import { overInterim } from '../../platform/system/interim-responses.ts'
import type { AskSource } from './feed.ts'
import { SourceFault } from './sources.ts'

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
    async ask(url, headers, signal) {
      // One source requires a User-Agent.
      const response = await request(url, {
        dispatcher: agent,
        signal,
        headers: { accept: 'application/json', 'user-agent': 'boltgate', ...headers }
      })
      const body = await response.body.text()
      if (response.statusCode !== 200) throw new SourceFault(`status ${response.statusCode}`)
      return body
    },
    close: () => agent.destroy()
  }
}
