import type { Test as T } from 'tap'
import { localAddress, portOf } from '../../../src/engine/config/listen-address.ts'
import { loadConfigText } from '../../../src/engine/config/load.ts'
import { compile } from '../../../src/engine/pipeline/compile.ts'
import { Gateway } from '../../../src/engine/pipeline/gateway.ts'
import { InternalUpstream } from '../../../src/engine/pipeline/internal.ts'
import type { Services } from '../../../src/engine/pipeline/plugin.ts'
import { defaultLimits } from '../../../src/engine/listener/deadlines.ts'
import { createListener } from '../../../src/engine/listener/listener.ts'
import { dashboardOperations } from '../../../src/web/admin/jobs-page.ts'
import { AdminKey } from '../../../src/accounts/merchants/admin-key.ts'
import { AuthThrottle } from '../../../src/accounts/merchants/auth-throttle.ts'
import { assetOperations } from '../../../src/web/kit/assets.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { freshId } from '../../../src/platform/system/ids.ts'
import type { Jobs } from '../../../src/platform/jobs/jobs.ts'
import { createLog } from '../../../src/platform/telemetry/log.ts'
import { Metrics } from '../../../src/platform/telemetry/metrics.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { MemoryState } from '../../../src/platform/state/memory.ts'
import { builtInPlugins } from '../../../src/app/plugins.ts'

export const ADMIN_KEY = 'bgadmin_the key of the tests'

const YAML = `
mode: development
server: { listen: "127.0.0.1:0" }
data: /nowhere
chains:
  jobs: [ correlation, { access-log: { path: query } }, metrics, dashboard-auth, { throttle: { policy: admin } } ]
  assets: [ correlation ]
policies: { admin: { limit: 100000, window: 1m } }
routes:
  - match: { path: [ /jobs, /jobs/:queue/:id/retry ] }
    chain: jobs
    upstream: { internal: api }
  - match: { path: /assets/* }
    chain: assets
    upstream: { internal: api }
`

/** A gateway with nothing but the dashboard, over HTTP. */
export interface DashboardServer {
  readonly url: string
  /** Its lines of log. */
  readonly lines: readonly string[]
}

/** Starts it; it ends with the test. */
export async function serveDashboard(t: T, jobs: Jobs): Promise<DashboardServer> {
  const lines: string[] = []
  const clock = systemClock
  const log = createLog({
    level: 'info',
    destination: {
      write: line => {
        lines.push(line)
      }
    }
  })
  const state = new MemoryState(clock)
  const config = await loadConfigText('gateway.yaml', YAML, {}, { plugins: builtInPlugins, internals: ['api'] })
  const services = {
    clock,
    log,
    metrics: new Metrics(),
    state,
    policies: config.policies,
    adminKey: new AdminKey(new Secret(ADMIN_KEY)),
    authThrottle: new AuthThrottle(state, clock),
    // No session.
    sessions: { tokenOf: () => null } as unknown as Services['sessions'],
    signInRecord: { principal: async () => {}, failed: async () => {} } as unknown as Services['signInRecord']
  }
  const api = new InternalUpstream([...dashboardOperations({ jobs, clock }), ...assetOperations()])
  // The plugins of these chains use no other service.
  const snapshot = await compile(config, {
    services: services as unknown as Services,
    plugins: builtInPlugins,
    internals: new Map([['api', api]]),
    generation: 1
  })
  const gateway = new Gateway(snapshot)
  const listener = createListener({
    limits: { ...defaultLimits, ...config.server.limits },
    trustedProxies: [],
    clock,
    freshId,
    handle: (ctx, wire) => {
      gateway.handle(ctx, wire)
    },
    refused: () => {},
    failed: error => {
      throw error
    }
  })
  await listener.listen(localAddress())
  t.teardown(async () => {
    await listener.drain(100)
    await gateway.close()
  })
  return { url: `http://127.0.0.1:${portOf(listener.addresses)}`, lines }
}
