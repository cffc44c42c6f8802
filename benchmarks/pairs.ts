// node benchmarks/pairs.ts [--of SCENARIO,…] [--servers] [--rounds N] [--once N] [--requests N] [CHECKOUT][@NODE_OPTION,…] …
// This checkout beside others (`git worktree add` the state before) or beside other options of Node, and nginx: windows
// of one second, or of 1,000 requests (--once) where each is good once, in turn. Scenarios: verified-l402 (unless said),
// metered, keyed (a paid key beside its L402 credential), mint-402, modern-once. With --servers the gateways run on PostgreSQL and Redis, and the CPU of these is
// printed too. For what is tried on the hot path: read the ratios of neighboring windows and the lowest quarters, not the
// microseconds.
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
import { cpuOfTree } from './rig/cpu.ts'
import { describeMachine } from './rig/machine.ts'
import { valuesFile } from './scenarios/gateways.ts'
import { proveGate } from './scenarios/guard.ts'
import { METERED_PATH } from './scenarios/metered.ts'
import { PAID_PATH } from './scenarios/tokens.ts'

/** Windows before the measured ones: a gateway is warmed up with the verified path alone. */
const WARM_UP = 8
const ACCEPT = { Accept: 'application/json' }

/** What a gateway is asked; `count` requests are good once each. */
type Prepare = (gateway: GatewayTarget, count: number, name: string) => Promise<LoadRequest>

const KEYED_PATH = '/keyed/quote'

const paidTo =
  (path: string): Prepare =>
  async gateway => {
    const [authorization = ''] = await mintCredentials(gateway.port, 1, { path })
    await proveGate(gateway, path, authorization)
    return plainGet(path, { Authorization: authorization, ...ACCEPT })
  }

const prepares: Readonly<Record<string, Prepare>> = {
  'verified-l402': paidTo(PAID_PATH),
  metered: paidTo(METERED_PATH),
  keyed: async gateway => {
    const [authorization = ''] = await mintCredentials(gateway.port, 1, { path: KEYED_PATH })
    const [macaroon = '', preimage = ''] = authorization.slice('L402 '.length).split(':')
    const key = Buffer.concat([Buffer.from(preimage, 'hex'), Buffer.from(macaroon, 'base64')]).toString('base64url')
    await proveGate(gateway, KEYED_PATH, `Bearer bg_${key}`)
    return plainGet(KEYED_PATH, { Authorization: `Bearer bg_${key}`, ...ACCEPT })
  },
  'mint-402': async (_gateway, count, name) => {
    const networks = Array.from({ length: count }, (_, at) => `10.${(at >> 16) & 255}.${(at >> 8) & 255}.${at & 255}`)
    const varied = { header: 'X-Forwarded-For', file: valuesFile(fleet, name, networks) }
    return { ...plainGet(PAID_PATH, ACCEPT), status: 402, varied }
  },
  'modern-once': async ({ port }, count, name) => {
    const credentials = await mintCredentials(port, count, { path: PAID_PATH, scheme: 'payment' })
    return {
      ...plainGet(PAID_PATH, ACCEPT),
      varied: { header: 'Authorization', file: valuesFile(fleet, name, credentials) }
    }
  }
}

/** What the same gateway is asked in the windows between. */
const beside: Readonly<Record<string, { readonly label: string; readonly prepare: Prepare }>> = {
  keyed: { label: 'its L402 credential', prepare: paidTo(KEYED_PATH) }
}

interface Subject {
  readonly label: string
  readonly target: Target
  readonly request: LoadRequest
  /** CPU microseconds a request, round by round; NaN for a void window. */
  readonly figures: number[]
  /** The same of PostgreSQL. */
  readonly database: number[]
  used: number
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    of: { type: 'string', default: 'verified-l402' },
    servers: { type: 'boolean', default: false },
    rounds: { type: 'string', default: '12' },
    once: { type: 'string', default: '1000' },
    requests: { type: 'string', default: '100000' }
  }
})
const rounds = Number(values.rounds)
const once = Number(values.once)
const scenarios = values.of.split(',').map(id => {
  const prepare = prepares[id]
  if (prepare === undefined) throw new TypeError(`there is no ${id}; there are ${Object.keys(prepares).join(', ')}`)
  return { id, prepare }
})
const here = fileURLToPath(new URL('..', import.meta.url))
const say = (line: string): void => {
  process.stderr.write(`${line}\n`)
}

const folder = makeFolder()
const fleet = new Fleet(folder, coresOf(describeMachine()), say)
const gateways: Array<{ readonly label: string; readonly target: GatewayTarget }> = []

/** Windows of each subject in turn; their figures are added to it. */
async function compare(subjects: readonly Subject[]): Promise<void> {
  const load = await fleet.load()
  const postgres = values.servers ? (await fleet.servers()).postgresPid : null
  const visit = async (subject: Subject): Promise<void> => {
    const { target, request } = subject
    const count = request.varied === null ? null : once
    const seconds = count === null ? 1 : 60
    const core = fleet.cores?.generator ?? null
    const window = { connections: 64, seconds, from: subject.used, count, core, port: target.port, request }
    const before = postgres === null ? 0 : cpuOfTree(postgres)
    const sample = await measure(load, target, window, null)
    const ofDatabase = postgres === null ? 0 : cpuOfTree(postgres) - before
    if (count !== null) subject.used += sample.sent
    subject.figures.push(sample.void === undefined ? (sample.cpuPerRequest ?? NaN) : NaN)
    subject.database.push(sample.void === undefined ? ofDatabase / sample.requests : NaN)
    target.afterRound?.()
  }
  for (const subject of subjects) for (let time = 0; time < WARM_UP; time++) await visit(subject)
  for (const { figures, database } of subjects) figures.length = database.length = 0
  for (let round = 0; round < rounds; round++) {
    for (const subject of round % 2 === 0 ? subjects : subjects.toReversed()) await visit(subject)
    say(subjects.map(({ figures }) => (figures.at(-1) ?? NaN).toFixed(1)).join('  '))
  }
}

function told(some: readonly number[]): string {
  const spread = spreadOf(some.filter(Number.isFinite))
  return spread === null ? '–' : `${spread.median.toFixed(2)} (${spread.low.toFixed(2)}–${spread.high.toFixed(2)})`
}

function lowestQuarter(some: readonly number[]): number {
  const sorted = some.filter(Number.isFinite).toSorted((a, b) => a - b)
  const lowest = sorted.slice(0, Math.ceil(some.length / 4))
  return lowest.reduce((sum, value) => sum + value, 0) / lowest.length
}

function report(subjects: readonly Subject[], what: string, figuresOf: (subject: Subject) => readonly number[]): void {
  for (const subject of subjects) {
    const figures = figuresOf(subject)
    const ratios = subjects
      .filter(other => other !== subject)
      .map(other => {
        const others = figuresOf(other)
        const quarters = (lowestQuarter(figures) / lowestQuarter(others)).toFixed(2)
        return `\n  ${told(figures.map((figure, round) => figure / (others[round] ?? NaN)))}, lowest quarters ${quarters} to ${other.label}`
      })
    process.stdout.write(
      `${subject.label}, ${what}: ${told(figures)} µs, lowest quarter ${lowestQuarter(figures).toFixed(1)}${ratios.join('')}\n`
    )
  }
}

try {
  const { origin } = await fleet.upstream()
  for (const [at, spec] of ['', ...positionals].entries()) {
    const [checkout = '', flags = ''] = spec.split('@')
    const name = `gateway-${at}`
    const servers = values.servers ? { servers: await (await fleet.servers()).another(`pairs_${at}`) } : {}
    const target = await startBoltgate(
      { folder, core: null, upstream: origin, say },
      {
        name,
        ...servers,
        checkout: checkout === '' ? here : checkout,
        keyed: scenarios.some(({ id }) => id === 'keyed'),
        flags: flags === '' ? [] : flags.split(',')
      }
    )
    gateways.push({ label: spec === '' ? 'this checkout' : spec, target })
  }
  const yardstick = await fleet.peer(nginx)
  for (const { id, prepare } of scenarios) {
    await fleet.free()
    if (fleet.cores !== null)
      await moveTrees(
        gateways.map(({ target }) => target.pid),
        `${fleet.cores.proxy},${fleet.cores.generator}`
      )
    const subjects: Subject[] = []
    for (const [at, { label, target }] of gateways.entries()) {
      const request = await prepare(target, once * (rounds + WARM_UP), `${id}-${at}`)
      subjects.push({ label, target, request, figures: [], database: [], used: 0 })
      const other = beside[id]
      if (other === undefined) continue
      const otherRequest = await other.prepare(target, 0, `${id}-beside-${at}`)
      subjects.push({ label: other.label, target, request: otherRequest, figures: [], database: [], used: 0 })
    }
    const plain = plainGet('/passed/quote', ACCEPT)
    // Two loads of one port at a time would write the same script.
    const cold = subjects.filter(({ target }, at) => subjects.findIndex(other => other.target === target) === at)
    await fleet.warmUp(cold, plain, { requests: Number(values.requests), seconds: 40 })
    subjects.push({ label: nginx.label, target: yardstick, request: plain, figures: [], database: [], used: 0 })
    await fleet.hold()
    if (fleet.cores !== null)
      await moveTrees(
        gateways.map(({ target }) => target.pid),
        String(fleet.cores.proxy)
      )
    say(id)
    await compare(subjects)
    process.stdout.write(`\n${id}\n`)
    report(subjects, 'gateway', ({ figures }) => figures)
    if (values.servers) report(subjects.slice(0, -1), 'PostgreSQL', ({ database }) => database)
  }
} finally {
  await Promise.all(gateways.map(({ target }) => target.stop()))
  await fleet.stop()
  removeFolder(folder)
}
