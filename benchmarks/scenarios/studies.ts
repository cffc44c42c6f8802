import { fileURLToPath } from 'node:url'
import { startTool } from '../load/tool.ts'
import { warmUp } from '../load/warm-up.ts'
import { startBoltgate } from '../peers/boltgate.ts'
import { haproxy } from '../peers/haproxy.ts'
import { nginx } from '../peers/nginx.ts'
import { httpProxy3, undici } from '../peers/node-peers.ts'
import type { Peer, Place, Target } from '../peers/target.ts'
import { announcedPort, start } from '../rig/child.ts'
import { cpuOfProcess, cpuOfTree } from '../rig/cpu.ts'
import { moveTrees } from '../rig/affinity.ts'
import { residentOf, residentOfOne } from '../rig/memory.ts'
import { serversMissing, startServers } from '../rig/servers.ts'
import type { Figure, Study, StudyRow } from './scenario.ts'

const GENERATOR_CORE = 1

/** The gateway as a peer among others. */
export const gateway: Peer = {
  id: 'boltgate',
  label: 'boltgate',
  version: '',
  install: '',
  start: place => startBoltgate(place, { name: 'boltgate' })
}

/** The same with two workers, and a PostgreSQL and Redis of its own. */
const twoWorkers: Peer = {
  id: 'boltgate-two',
  label: 'boltgate on PostgreSQL and Redis, two workers',
  version: serversMissing() === null ? '' : null,
  install: 'apt-get install postgresql redis-server',
  async start(place) {
    const servers = await startServers(place.folder, null)
    try {
      const target = await startBoltgate(place, { name: 'boltgate-two', servers, workers: 2 })
      return {
        ...target,
        whole: true,
        async stop() {
          await target.stop()
          await servers.stop()
        }
      }
    } catch (error) {
      await servers.stop()
      throw error
    }
  }
}

async function pause(ms: number): Promise<void> {
  await new Promise(resolve => {
    setTimeout(resolve, ms)
  })
}

/** Where load generators and upstreams run. */
export function generatorCore(place: Place): number | null {
  return place.core === null ? null : GENERATOR_CORE
}

/**
 * Runs one measurement on each target, before the upstream that knows streams and WebSockets. The targets start at the
 * same time, and `atOnce` of them are measured at a time: several only where most of the measuring is waiting.
 */
export async function overTargets(
  place: Place,
  peers: readonly Peer[],
  measure: (target: Target & { readonly pid: number }, peer: Peer) => Promise<Readonly<Record<string, Figure>>>,
  atOnce = 1
): Promise<StudyRow[]> {
  const program = fileURLToPath(new URL('../upstream/streams.mjs', import.meta.url))
  const core = place.core === null ? null : GENERATOR_CORE
  const upstream = start('streams', place.folder, core, [process.execPath, program], {
    env: { NODE_ENV: 'production' }
  })
  const rows: Array<Promise<StudyRow>> = []
  const stops: Array<() => Promise<void>> = []
  try {
    const behind: Place = { ...place, upstream: `http://127.0.0.1:${await announcedPort('streams', upstream)}` }
    const begun = await Promise.all(
      peers.map(async peer => {
        if (peer.version === null) return { peer, target: null, absent: `not installed here: \`${peer.install}\`` }
        try {
          // On any core while they start.
          const target = await peer.start({ ...behind, core: null })
          stops.push(() => target.stop())
          const { pid } = target
          if (pid === null) throw new TypeError(`${peer.id} has no process`)
          return { peer, target: { ...target, pid }, absent: null }
        } catch (error) {
          return {
            peer,
            target: null,
            absent: `did not start: ${error instanceof Error ? error.message : String(error)}`
          }
        }
      })
    )
    if (place.core !== null)
      await moveTrees(
        begun.flatMap(({ target }) => (target === null ? [] : [target.pid])),
        String(place.core)
      )
    const rowOf = async ({ peer, target, absent }: (typeof begun)[number]): Promise<StudyRow> => {
      const row = { id: peer.id, label: peer.label }
      if (target === null) return { ...row, absent, figures: {} }
      place.say(peer.label)
      try {
        return { ...row, absent: null, figures: await measure(target, peer) }
      } catch (error) {
        return {
          ...row,
          absent: `did not do it: ${target.fault() ?? (error instanceof Error ? error.message : String(error))}`,
          figures: {}
        }
      }
    }
    const next = begun.entries()
    await Promise.all(
      Array.from({ length: atOnce }, async () => {
        for (const [at, one] of next) await (rows[at] = rowOf(one))
      })
    )
  } finally {
    await Promise.all(stops.map(stop => stop()))
    await upstream.stop()
  }
  return await Promise.all(rows)
}

/** Many streams of server-sent events. */
export const eventStreams: Study = {
  id: 'sse',
  seconds: { quick: 11, full: 30 },
  title: 'Server-sent events: 1,000 open streams',
  text: '1,000 clients hold a stream each through the target; the upstream sends every one of them an event of 100 bytes a second. The targets hold their streams at the same time. The memory of each is counted from a process that has served before (8,000 short requests and 50 streams; 20,000 in a full run), since what that makes it grow by, once, is no cost of streams: the young space at its size, compiled code. Beside it is the same counted from the process as it was started.',
  charted: 'memory for each stream',
  async run(place, scale, say) {
    const connections = 1_000
    const rows = await overTargets(
      { ...place, say },
      [gateway, twoWorkers, nginx, haproxy, undici],
      async target => {
        const core = place.core === null ? null : GENERATOR_CORE
        const fresh = residentOfTarget(target)
        await warmUp(target.port, '/passed/quote', scale === 'quick' ? 8_000 : 20_000)
        const warm = startTool(
          'holder',
          { port: target.port, path: '/passed/events', connections: 50, atOnce: 10 },
          core
        )
        await warm.next()
        await warm.stop()
        await pause(scale === 'quick' ? 500 : 1_500)
        const before = residentOfTarget(target)
        const holder = startTool('holder', { port: target.port, path: '/passed/events', connections, atOnce: 50 }, core)
        try {
          await holder.next()
          await pause(scale === 'quick' ? 500 : 2_000)
          const cpu: number[] = []
          const resident: number[] = []
          for (let round = 0; round < (scale === 'quick' ? 3 : 5); round++) {
            const cpuBefore = cpuOfTarget(target)
            await pause(1_000)
            cpu.push((cpuOfTarget(target) - cpuBefore) / connections)
            resident.push(residentOfTarget(target))
          }
          const forEach = (base: number): Figure => ({
            unit: 'KiB',
            values: resident.map(value => (value - base) / connections / 1024)
          })
          holder.end()
          const { events } = await holder.next()
          return {
            'memory for each stream': forEach(before),
            'counted from the start': forEach(fresh),
            'CPU for each event': { unit: 'µs', values: cpu },
            'events that arrived': { unit: '', values: [Number(events)] }
          }
        } finally {
          await holder.stop()
        }
      },
      5
    )
    return {
      rows,
      remarks: [
        "Memory is what the target's own process gained in resident pages; the embedded database of boltgate, a process beside it, has no part in streams and is left out. CPU is that of a second, over its 1,000 events, with what the process does at rest."
      ]
    }
  }
}

/** Idle connections. */
export const idleConnections: Study = {
  id: 'idle',
  seconds: { quick: 10, full: 35 },
  title: 'Idle keep-alive connections: 10,000',
  text: '10,000 clients connect, ask once, and keep their connection open without doing anything.',
  charted: 'memory with all of them',
  async run(place, scale, say) {
    const connections = 10_000
    const rows = await overTargets({ ...place, say }, [gateway, nginx, haproxy, undici], async target => {
      const before = residentOfTarget(target)
      const holder = startTool(
        'holder',
        { port: target.port, path: '/passed/quote', connections, atOnce: 100 },
        place.core === null ? null : GENERATOR_CORE
      )
      try {
        await holder.next()
        const resident: number[] = []
        for (let round = 0; round < (scale === 'quick' ? 3 : 5); round++) {
          await pause(scale === 'quick' ? 300 : 1_000)
          resident.push(residentOfTarget(target))
        }
        return {
          'memory with all of them': { unit: 'MiB', values: resident.map(value => value / 2 ** 20) },
          'for each connection': { unit: 'KiB', values: resident.map(value => (value - before) / connections / 1024) }
        }
      } finally {
        await holder.stop()
      }
    })
    return { rows, remarks: ["Resident pages of the target's own process. Connections of the kernel are not in them."] }
  }
}

/** Messages over upgraded connections. */
export const webSocketEcho: Study = {
  id: 'websocket',
  seconds: { quick: 8, full: 28 },
  title: 'WebSocket echo',
  text: '64 connections send a message of 64 bytes each and wait for its echo before the next.',
  charted: 'CPU for each message',
  async run(place, scale, say) {
    const rows = await overTargets(
      { ...place, say },
      [gateway, twoWorkers, nginx, haproxy, httpProxy3],
      async target => {
        const cpu: number[] = []
        const rate: number[] = []
        for (let round = 0; round < (scale === 'quick' ? 3 : 4); round++) {
          const echo = startTool(
            'echo',
            {
              port: target.port,
              path: '/passed/socket',
              connections: 64,
              seconds: scale === 'quick' ? 0.5 : 1,
              bytes: 64
            },
            place.core === null ? null : GENERATOR_CORE
          )
          try {
            await echo.next()
            const before = cpuOfTree(target.pid)
            const { messages, seconds } = await echo.next()
            cpu.push((cpuOfTree(target.pid) - before) / Math.max(1, Number(messages)))
            rate.push(Number(messages) / Number(seconds))
          } finally {
            await echo.stop()
          }
        }
        return { 'CPU for each message': { unit: 'µs', values: cpu }, 'messages a second': { unit: '', values: rate } }
      }
    )
    return {
      rows,
      remarks: [
        "Sender, upstream and echo share the second core, so the messages a second say how fast they are; the CPU is the target's."
      ]
    }
  }
}

/**
 * What is below this only watches over children that serve; taskset becomes its program, so the rest serve themselves.
 */
const MASTER = 8 * 2 ** 20

/** A target with its root process. */
type Process = Pick<Target, 'whole'> & { readonly pid: number }

function wholeTree({ pid, whole }: Process): boolean {
  return whole === true || residentOfOne(pid) < MASTER
}

/**
 * Resident memory, in bytes, of what serves: workers are children of the first process, and boltgate's embedded
 * database is left out.
 */
export function residentOfTarget(target: Process): number {
  return wholeTree(target) ? residentOf(target.pid) : residentOfOne(target.pid)
}

/** CPU time so far, in microseconds, of the same processes. */
export function cpuOfTarget(target: Process): number {
  return wholeTree(target) ? cpuOfTree(target.pid) : cpuOfProcess(target.pid)
}
