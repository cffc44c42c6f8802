import { adminOperation } from '../../accounts/merchants/principal.ts'
import { nullableText } from '../../engine/formats/text-patterns.ts'
import { terminalOf } from '../../engine/checks/chains.ts'
import { Type, type Static } from 'typebox'
import { effective, needsRestart, type ConfigurationChange } from '../../engine/config/effective.ts'
import { routeOrigin, routePriceWords, routeUpstreamWords } from '../../engine/checks/route-words.ts'
import type { GatewayConfig, RouteConfig } from '../../engine/config/schema.ts'
import { iso, isoTime } from '../../engine/formats/iso-time.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import type { FaultSum } from '../../platform/telemetry/tallies.ts'
import type { Traffic } from '../../accounts/traffic/traffic.ts'
import { RouteTrafficView, routeTrafficView } from '../../accounts/traffic/operations.ts'
import type { RunningConfiguration } from './schema.ts'
import { nothingMeasured, type MeasuredStep } from '../../accounts/traffic/measured.ts'

const { route: _route, ...traffic } = RouteTrafficView.properties

const RouteView = Type.Object(
  {
    name: Type.String({ description: 'As the log and the measurements call it.' }),
    host: nullableText('Null for any.'),
    methods: Type.Array(Type.String(), { description: 'Empty for any.' }),
    paths: Type.Array(Type.String()),
    from: Type.String({ description: 'A line of the file, or the preset that `use` names.' }),
    description: nullableText('What is sold.'),
    price: nullableText('In words; null for what is free.'),
    chain: Type.Object({
      name: Type.String(),
      plugins: Type.Array(
        Type.Object({
          plugin: Type.String(),
          isConditional: Type.Boolean({ description: 'It takes part in some requests only (`when`).' }),
          isObserving: Type.Boolean({ description: 'It decides and does not act (`mode: observe`).' })
        }),
        { description: 'In the order in which a request runs through them; the last one answers.' }
      )
    }),
    upstream: Type.Object({
      kind: Type.Enum(['url', 'internal', 'proxy', 'files']),
      address: Type.String({
        description: "A server's address, operations of the gateway, a merchant's proxy, or a folder."
      }),
      state: Type.Enum(['good', 'failing', 'down', 'idle'], {
        description:
          'By the last five whole minutes: `down` if every request failed, `failing` if some did, `idle` without requests.'
      })
    }),
    now: Type.Object(traffic, { description: 'Of the last five whole minutes.' }),
    day: Type.Object(traffic, { description: 'Of a day, in whole hours.' }),
    faults: Type.Array(
      Type.Object({
        status: Type.Integer(),
        message: Type.String(),
        times: Type.Integer(),
        firstAt: isoTime(),
        lastAt: isoTime(),
        correlationId: Type.String({ description: 'Of the last of them: its line in the log has more.' })
      }),
      { description: 'How requests failed in the last day, the newest first, five at most.' }
    )
  },
  { title: 'LiveRoute' }
)

export type LiveRoute = Static<typeof RouteView>

const RoutesQuery = Type.Object({
  of: Type.Optional(
    Type.Enum(['file', 'presets', 'all'], {
      description: "Those of the file, the gateway's own, or all of them; all unless said."
    })
  )
})

const ConfigurationView = Type.Object(
  {
    file: Type.String(),
    generation: Type.Integer({ description: 'One more with each reload that is used.' }),
    yaml: Type.String({
      description: 'The file with its defaults filled in. Secrets are shown as `(hidden)`.'
    }),
    waitsForRestart: Type.Array(Type.String(), {
      description: 'Parts of the file that have changed since the start, and are as they were until a restart.'
    }),
    reload: Type.Unsafe<null | { at: string; isUsed: boolean; problem: string | null; changes: ConfigurationChange[] }>(
      {
        anyOf: [
          { type: 'null' },
          Type.Object({
            at: isoTime(),
            isUsed: Type.Boolean({ description: 'false: the file has a mistake, and the one before is in effect.' }),
            problem: nullableText('What is wrong with it.'),
            changes: Type.Array(
              Type.Object({
                path: Type.String(),
                before: nullableText('Null for what was not there.'),
                after: nullableText('Null for what is gone.')
              })
            )
          })
        ],
        description: 'What became of the last change of the file; null for none since the start.'
      }
    ),
    warnings: Type.Array(Type.String(), { description: 'What is allowed and probably not meant.' })
  },
  { title: 'LiveConfiguration' }
)
export type ConfigurationView = Static<typeof ConfigurationView>

const MOST_FAULTS = 5

export function configurationOperations({
  generation,
  running,
  traffic
}: {
  running(): RunningConfiguration
  generation(): number
  readonly traffic: Pick<Traffic, 'byRoute' | 'latelyByRoute' | 'faults'>
}): AnyOperation[] {
  return [
    defineOperation({
      ...adminOperation,
      id: 'adminListRoutes',
      method: 'GET',
      path: '/api/admin/routes',
      summary: 'The routes that are live: their chain, price, traffic, and how their upstream is',
      description:
        'Upstream health is derived from requests, without probes. Traffic covers all processes, and merchants’ proxies as a whole.',
      query: RoutesQuery,
      responses: { 200: { description: 'A bare array, in the order of the file.', schema: Type.Array(RouteView) } },
      async handle({ query: { of = 'all' } }) {
        const { config, plugins } = running()
        const [now, day, faults] = await Promise.all([
          traffic.latelyByRoute(5),
          traffic.byRoute({ from: null, to: null }, '1h'),
          traffic.faults(MOST_FAULTS)
        ])
        const recent = new Map(now.map(step => [step.route, step]))
        const ofDay = new Map(day.routes.map(step => [step.route, step]))
        const chosen = config.routes.filter(
          route => of === 'all' || (route.at.file === config.file) === (of === 'file')
        )
        return {
          status: 200,
          body: chosen.map(route =>
            routeView(config, plugins, route, recent.get(route.name), ofDay.get(route.name), faults)
          )
        }
      }
    }),
    defineOperation({
      ...adminOperation,
      id: 'adminGetConfiguration',
      method: 'GET',
      path: '/api/admin/configuration',
      summary:
        'The configuration in effect without its secrets, what its last change did, and what waits for a restart',
      description:
        'Hidden is what the schema calls a secret, users, passwords and queries of addresses, headers that are set on upstreams, values of fields by which prices differ where clients send them, and texts in the settings of plugins that are not the gateway’s own.',
      responses: { 200: { description: 'As of the process that answers.', schema: ConfigurationView } },
      handle: async () => {
        const { config, plugins, reload, started } = running()
        return {
          status: 200,
          body: {
            file: config.file,
            generation: generation(),
            yaml: effective(config, plugins).yaml,
            waitsForRestart: needsRestart(started, config),
            reload:
              reload === null
                ? null
                : { ...reload, at: iso(reload.at), isUsed: reload.problem === null, changes: [...reload.changes] },
            warnings: config.warnings.map(({ message }) => message)
          }
        }
      }
    })
  ]
}

function routeView(
  config: GatewayConfig,
  plugins: RunningConfiguration['plugins'],
  route: RouteConfig,
  now: MeasuredStep | undefined,
  day: MeasuredStep | undefined,
  faults: readonly FaultSum[]
): LiveRoute {
  const measured = (step: MeasuredStep | undefined) => routeTrafficView(route.name, step ?? nothingMeasured())
  return {
    name: route.name,
    host: route.match.host ?? null,
    methods: [...(route.match.method ?? [])],
    paths: [...route.match.path],
    from: routeOrigin(config, route),
    description: route.description ?? null,
    price: routePriceWords(config, route),
    chain: { name: route.chain, plugins: pluginsOf(config, plugins, route) },
    upstream: { kind: route.upstream.kind, address: routeUpstreamWords(route), state: stateOf(now) },
    now: measured(now),
    day: measured(day),
    faults: faults
      .filter(fault => fault.route === route.name)
      .map(({ firstAt, lastAt, ...fault }) => ({ ...fault, firstAt: iso(firstAt), lastAt: iso(lastAt) }))
  }
}

function pluginsOf(config: GatewayConfig, plugins: RunningConfiguration['plugins'], route: RouteConfig) {
  const entries = (config.chains[route.chain] ?? []).filter(({ disabled }) => !disabled)
  const last = entries.at(-1)
  const isWhole = last !== undefined && plugins.get(last.file ?? last.plugin)?.terminal === true
  const end = terminalOf(route.upstream)
  return [
    ...entries.map(({ mode, plugin, when }) => ({
      plugin,
      isConditional: when !== undefined,
      isObserving: mode === 'observe'
    })),
    ...(isWhole || last?.plugin === 'internal' ? [] : [{ plugin: end, isConditional: false, isObserving: false }])
  ]
}

function stateOf(now: MeasuredStep | undefined): LiveRoute['upstream']['state'] {
  if (now === undefined || now.requests === 0) return 'idle'
  if (now.upstreamFailures === 0) return 'good'
  // The gateway's own 402s and refusals never reached the upstream.
  return now.upstreamFailures >= now.requests - now.asked - now.clientErrors ? 'down' : 'failing'
}
