import type { Clock } from '../../platform/system/clock.ts'
import { AddressRefused, NameUnresolved } from '../../engine/upstream/guard.ts'
import type { OutboundCall } from '../../engine/upstream/outbound.ts'
import type { ProbeView } from './schema.ts'
import type { Probe } from './service.ts'

/**
 * Tries a proxy's target: one GET of its base address with the upstream header, through the address guard. A redirect
 * or an error of the target is a response: it is reached (decision 90).
 */
export function probeTarget(call: OutboundCall, clock: Clock): Probe {
  return async (row, authValue): Promise<ProbeView> => {
    const begun = clock.monotonic()
    const latency = (): number => Math.round(clock.monotonic() - begun)
    try {
      const headers = row.authHeader === null || authValue === null ? [] : [row.authHeader, authValue]
      const { status } = await call({
        method: 'GET',
        url: row.targetBaseUrl,
        headers,
        timeout: row.timeoutSeconds * 1000
      })
      const success = status < 400
      return {
        success,
        statusCode: status,
        latencyMs: latency(),
        message: success ? `The target answered ${status}.` : `The target was reached and answered ${status}.`
      }
    } catch (error) {
      return { success: false, statusCode: null, latencyMs: latency(), message: reason(error) }
    }
  }
}

/** What the merchant is told; never an address that a name resolved to. */
function reason(error: unknown): string {
  if (error instanceof AddressRefused) return `The target was refused: ${error.message}`
  if (error instanceof NameUnresolved) return 'The target could not be reached: its name has no address.'
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'no answer'
  return `The target could not be reached (${code}).`
}
