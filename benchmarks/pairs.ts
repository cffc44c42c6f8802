// node benchmarks/pairs.ts [--rounds N] [--requests N] [--metered] [CHECKOUT][@NODE_OPTION,…] …
// The verified path of this checkout beside others (`git worktree add` the state before) or beside other options of
// Node, and nginx: windows of one second, in turn. For what is tried on the hot path: read the ratios of neighbouring
// windows and the lowest quarters, not the microseconds. With --metered each gateway is asked for the metered path too.
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { plainGet, type LoadRequest } from './load/request.ts'
import { Fleet } from './measure/fleet.ts'
import { measure } from './measure/round.ts'
import { coresOf } from './measure/run.ts'
import { spreadOf } from './measure/statistics.ts'
import { mintCredentials, startBoltgate, type GatewayTarget } from './peers/boltgate.ts'
import { nginx } from './peers/nginx.ts'
import type { Target } from './peers/target.ts'
import { moveTrees } from './rig/affinity.ts'
import { makeFolder, removeFolder } from './rig/child.ts'
import { describeMachine } from './rig/machine.ts'
import { proveGate } from './scenarios/guard.ts'
import { METERED_PATH } from './scenarios/metered.ts'
import { PAID_PATH } from './scenarios/tokens.ts'

/** Windows of a second. */
const METERED_WARM_UP = 8

interface Subject {
  readonly label: string
  readonly target: Target
  readonly request: LoadRequest
  /** CPU microseconds a request, round by round; NaN for a void window. */
  readonly figures: number[]
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '12' },
    requests: { type: 'string', default: '100000' },
    metered: { type: 'boolean', default: false }
  }
})
const here = fileURLToPath(new URL('..', import.meta.url))
const say = (line: string): void => {
  process.stderr.write(`${line}\n`)
}

const folder = makeFolder()
const fleet = new Fleet(folder, coresOf(describeMachine()), say)
const gateways: GatewayTarget[] = []
try {
  const { origin } = await fleet.upstream()
  const subjects: Subject[] = []
  for (const [at, spec] of ['', ...positionals].entries()) {
    const [checkout = '', flags = ''] = spec.split('@')
    const gateway = await startBoltgate(
      { folder, core: null, upstream: origin, say },
      {
        name: `gateway-${at}`,
        checkout: checkout === '' ? here : checkout,
        flags: flags === '' ? [] : flags.split(',')
      }
    )
    gateways.push(gateway)
    for (const path of values.metered ? [PAID_PATH, METERED_PATH] : [PAID_PATH]) {
      const [authorization = ''] = await mintCredentials(gateway.port, 1, { path })
      await proveGate(gateway, path, authorization)
      const request = plainGet(path, { Authorization: authorization, Accept: 'application/json' })
      const label = `${spec === '' ? 'this checkout' : spec}${path === METERED_PATH ? ', metered' : ''}`
      subjects.push({ label, target: gateway, request, figures: [] })
    }
  }
  const request = subjects[0]?.request ?? plainGet('/')
  subjects.push({ label: nginx.label, target: await fleet.peer(nginx), request, figures: [] })
  await fleet.warmUp(
    subjects.filter(({ target }, at) => subjects.findIndex(each => each.target === target) === at),
    request,
    { requests: Number(values.requests), seconds: 40 }
  )
  const load = await fleet.load()
  const window = { connections: 64, seconds: 1, from: 0, count: null, core: fleet.cores?.generator ?? null }
  // A gateway is warmed up once, by its first request.
  for (const { target, request: asked } of values.metered ? subjects : [])
    for (let time = 0; time < METERED_WARM_UP; time++)
      await measure(load, target, { ...window, port: target.port, request: asked }, null)
  await fleet.hold()
  if (fleet.cores !== null)
    await moveTrees(
      gateways.map(({ pid }) => pid),
      String(fleet.cores.proxy)
    )
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const { target, request: asked, figures } of round % 2 === 0 ? subjects : subjects.toReversed()) {
      const sample = await measure(load, target, { ...window, port: target.port, request: asked }, null)
      figures.push(sample.void === undefined ? (sample.cpuPerRequest ?? NaN) : NaN)
      target.afterRound?.()
    }
    say(subjects.map(({ figures }) => (figures.at(-1) ?? NaN).toFixed(1)).join('  '))
  }
  const told = (some: readonly number[]): string => {
    const spread = spreadOf(some.filter(Number.isFinite))
    return spread === null ? '–' : `${spread.median.toFixed(2)} (${spread.low.toFixed(2)}–${spread.high.toFixed(2)})`
  }
  const lowestQuarter = (some: readonly number[]): number => {
    const lowest = some
      .filter(Number.isFinite)
      .toSorted((a, b) => a - b)
      .slice(0, Math.ceil(some.length / 4))
    return lowest.reduce((sum, value) => sum + value, 0) / lowest.length
  }
  for (const { label, figures } of subjects) {
    const ratios = subjects.map(
      other =>
        `${told(figures.map((figure, round) => figure / (other.figures[round] ?? NaN)))}, ` +
        `lowest quarters ${(lowestQuarter(figures) / lowestQuarter(other.figures)).toFixed(2)} to ${other.label}`
    )
    process.stdout.write(
      `${label}: ${told(figures)} µs, lowest quarter ${lowestQuarter(figures).toFixed(1)}\n  ${ratios.join('\n  ')}\n`
    )
  }
} finally {
  await Promise.all(gateways.map(gateway => gateway.stop()))
  await fleet.stop()
  removeFolder(folder)
}
