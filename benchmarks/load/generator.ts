// A load generator over bare sockets, run as a process of its own: `generator.ts <job as JSON>` prints a LoadResult as JSON.
// The open loop needs it: wrk waits for an answer before it asks again, and so hides how long a stalled server lets
// clients wait. The closed loop stands in where wrk is not installed.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { percentiles } from '../measure/statistics.ts'
import { requestBytes } from './request-bytes.ts'
import type { LoadRequest, LoadResult } from './request.ts'

/** What the generator is told. */
export interface Job {
  readonly host: string
  readonly port: number
  readonly request: LoadRequest
  /** First variation of the request to use. */
  readonly from: number
  readonly connections: number
  readonly seconds: number
  /** Seconds of load before those, which are not counted: the generator's own code is compiled then. */
  readonly lead: number
  /** Requests a second, at intended times; null asks again as soon as an answer is there. */
  readonly rate: number | null
  /** Ends after so many requests in the place of the time; null without a limit. For credentials that are good once. */
  readonly count: number | null
}

const HEAD_END = Buffer.from('\r\n\r\n')

/** One connection, with at most one request under way. */
class Lane {
  readonly socket: Socket
  readonly #free: (lane: Lane, status: number) => void
  /** When the request under way was meant to be sent, in milliseconds; negative when there is none. */
  since = -1
  #missing = 0
  #status = 0
  #head: Buffer | null = null

  constructor (socket: Socket, free: (lane: Lane, status: number) => void) {
    this.socket = socket
    this.#free = free
  }

  send (request: Buffer, since: number): void {
    this.since = since
    this.socket.write(request)
  }

  take (piece: Buffer): void {
    if (this.#missing > 0) {
      this.#missing -= piece.length
    } else {
      const bytes = this.#head === null ? piece : Buffer.concat([this.#head, piece])
      const end = bytes.indexOf(HEAD_END)
      if (end < 0) {
        this.#head = bytes
        return
      }
      this.#head = null
      const head = bytes.toString('latin1', 0, end)
      const length = /\r\ncontent-length: *(\d+)/i.exec(head)
      if (length === null) throw new Error(`an answer has no Content-Length: ${head.split('\r\n', 1)[0] ?? ''}`)
      this.#status = Number(head.slice(9, 12))
      this.#missing = Number(length[1]) - (bytes.length - end - HEAD_END.length)
    }
    if (this.#missing < 0) throw new Error('an answer is longer than its Content-Length')
    if (this.#missing === 0) this.#free(this, this.#status)
  }
}

/** Runs one job to its end. */
export async function generate (job: Job): Promise<LoadResult> {
  const { connections, seconds, lead, rate, count } = job
  const requests = requestBytes(job.request, `${job.host}:${job.port}`, job.from)
  // Variations are used up at the end of a window, never in it.
  const limit = Math.min(count ?? Infinity, requests.supply)
  const latencies: number[] = []
  const lateness: number[] = []
  const idle: Lane[] = []
  let refused = 0
  let broken = 0
  let sent = 0
  let running = true
  // Requests that are due from this moment on are counted.
  let counting = 0

  const spent = Promise.withResolvers<void>()
  const send = (lane: Lane, since: number): void => {
    sent++
    lane.send(requests.next(), since)
  }
  const free = (lane: Lane, status: number): void => {
    const now = performance.now()
    if (lane.since >= counting) latencies.push((now - lane.since) * 1000)
    if (status !== job.request.status) refused++
    lane.since = -1
    if (rate === null) {
      if (running && sent < limit) send(lane, now)
      else if (sent >= limit && lanes.every(({ since }) => since < 0)) spent.resolve()
    } else if (waiting.length > 0) {
      send(lane, waiting.shift() ?? now)
    } else {
      idle.push(lane)
    }
  }
  // Due times for which no connection was free: their wait belongs to their latency.
  const waiting: number[] = []

  const lanes: Lane[] = []
  for (let made = 0; made < connections; made++) {
    const socket = connect(job.port, job.host)
    socket.setNoDelay(true)
    await once(socket, 'connect')
    const lane = new Lane(socket, free)
    socket.on('data', (piece: Buffer) => { lane.take(piece) })
    socket.on('error', () => {})
    socket.on('close', () => { if (running || lane.since >= 0) broken++ })
    lanes.push(lane)
  }

  const begin = performance.now()
  counting = begin + lead * 1000
  if (rate === null) {
    for (const lane of lanes.slice(0, limit)) send(lane, performance.now())
    const timer = Promise.withResolvers<void>()
    const over = setTimeout(timer.resolve, (lead + seconds) * 1000)
    await Promise.race([timer.promise, spent.promise])
    clearTimeout(over)
  } else {
    idle.push(...lanes)
    await openLoop(begin, lead + seconds, rate, (due, now) => {
      if (due >= counting) lateness.push((now - due) * 1000)
      const lane = idle.shift()
      if (lane === undefined) waiting.push(due)
      else send(lane, due)
    }, limit)
  }
  const elapsed = (performance.now() - counting) / 1000
  const counted = latencies.length
  // What is under way gets a second to arrive, so that slow answers are not left out of the open loop's percentiles.
  const patience = performance.now() + 1000
  running = false
  if (rate !== null) {
    while (lanes.some(lane => !lane.socket.destroyed) && (waiting.length > 0 || lanes.some(lane => lane.since >= 0)) && performance.now() < patience) {
      await new Promise(resolve => { setTimeout(resolve, 5) })
    }
    broken += lanes.filter(lane => lane.since >= 0 && !lane.socket.destroyed).length
  }
  const unsent = waiting.length
  for (const lane of lanes) {
    lane.since = -1
    lane.socket.destroy()
  }
  const result = { requests: rate === null ? counted : latencies.length, seconds: elapsed, refused, broken, sent, latency: percentiles(latencies) }
  return rate === null ? result : { ...result, late: percentiles(lateness).p99, unsent }
}

/**
 * Calls `send` at evenly spaced times. It turns the event loop without sleeping: a timer of one millisecond would be later
 * than most answers take. So the generator fills its core, and yields it to the upstream there whenever that wakes up.
 */
async function openLoop (begin: number, seconds: number, rate: number, send: (due: number, now: number) => void, limit: number): Promise<void> {
  const total = Math.min(limit, Math.floor(seconds * rate))
  const gap = 1000 / rate
  let sent = 0
  await new Promise<void>(resolve => {
    const turn = (): void => {
      const now = performance.now()
      while (sent < total && begin + sent * gap <= now) {
        send(begin + sent * gap, now)
        sent++
      }
      if (sent < total) setImmediate(turn)
      else resolve()
    }
    turn()
  })
}

if (import.meta.main) {
  // The harness writes the argument; see Job.
  const result = await generate(JSON.parse(process.argv[2] ?? '') as Job)
  process.stdout.write(`${JSON.stringify(result)}\n`)
}
