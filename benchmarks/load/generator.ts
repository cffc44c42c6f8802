// A load generator over bare sockets, run as a process of its own that serves a whole run, so that its code is compiled
// once. It reads a Job as a line of JSON, opens the connections, prints {"ready":true}, waits for a line, makes the
// load, and prints a LoadResult, or {"failed":"why"}; then it waits for the next job, until its standard input ends.
// The open loop needs it: wrk waits for an answer before it asks again, and so hides how long a stalled server lets
// clients wait. The closed loop is used where wrk is not installed, and where requests are counted or differ from one
// another.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { percentiles } from '../measure/statistics.ts'
import { requestBytes } from './request-bytes.ts'
import type { LoadRequest, LoadResult } from './request.ts'

/** What the parent tells the generator to do. */
export interface Job {
  readonly host: string
  readonly port: number
  readonly request: LoadRequest
  /** First variation of the request to use. */
  readonly from: number
  readonly connections: number
  readonly seconds: number
  /** Seconds of load before those, which are not counted: the first request of each connection falls into them. */
  readonly lead: number
  /** Requests a second, at intended times; null asks again as soon as an answer is there. */
  readonly rate: number | null
  /** Ends after so many requests instead of after a time; null without a limit. For credentials that are good once. */
  readonly count: number | null
}

const HEAD_END = Buffer.from('\r\n\r\n')

/** One connection, with at most one request in flight. */
class Lane {
  readonly socket: Socket
  readonly #free: (lane: Lane, status: number) => void
  /** When the request in flight was meant to be sent, in milliseconds; negative when there is none. */
  since = -1
  #missing = 0
  #status = 0
  #head: Buffer | null = null

  constructor(socket: Socket, free: (lane: Lane, status: number) => void) {
    this.socket = socket
    this.#free = free
  }

  send(request: Buffer, since: number): void {
    this.since = since
    this.socket.write(request)
  }

  take(piece: Buffer): void {
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

/** Runs one job to its end. `ready` is waited for when the connections are open and before the first request. */
export async function generate(job: Job, ready: () => Promise<void> = async () => {}): Promise<LoadResult> {
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
  const senseless = Promise.withResolvers<never>()
  senseless.promise.catch(() => {})
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
  try {
    for (let made = 0; made < connections; made++) {
      const socket = connect(job.port, job.host)
      socket.setNoDelay(true)
      await once(socket, 'connect')
      const lane = new Lane(socket, free)
      socket.on('data', (piece: Buffer) => {
        try {
          lane.take(piece)
        } catch (error) {
          // An answer that cannot be read ends the window, not the process, which serves the others.
          senseless.reject(error)
        }
      })
      socket.on('error', () => {})
      socket.on('close', () => {
        if (running || lane.since >= 0) broken++
        if (lanes.every(({ socket: { destroyed } }) => destroyed)) spent.resolve()
      })
      lanes.push(lane)
    }

    await ready()
    const begin = performance.now()
    counting = begin + lead * 1000
    if (rate === null) {
      for (const lane of lanes.slice(0, limit)) send(lane, performance.now())
      const timer = Promise.withResolvers<void>()
      const over = setTimeout(timer.resolve, (lead + seconds) * 1000)
      try {
        await Promise.race([timer.promise, spent.promise, senseless.promise])
      } finally {
        clearTimeout(over)
      }
    } else {
      idle.push(...lanes)
      await Promise.race([
        senseless.promise,
        openLoop(
          begin,
          lead + seconds,
          rate,
          (due, now) => {
            if (due >= counting) lateness.push((now - due) * 1000)
            const lane = idle.shift()
            if (lane === undefined) waiting.push(due)
            else send(lane, due)
          },
          limit
        )
      ])
    }
    const elapsed = (performance.now() - counting) / 1000
    const counted = latencies.length
    // Requests in flight get a second to arrive, so that slow answers are not left out of the open loop's percentiles.
    const patience = performance.now() + 1000
    running = false
    if (rate !== null) {
      while (
        lanes.some(lane => !lane.socket.destroyed) &&
        (waiting.length > 0 || lanes.some(lane => lane.since >= 0)) &&
        performance.now() < patience
      ) {
        await new Promise(resolve => {
          setTimeout(resolve, 5)
        })
      }
      broken += lanes.filter(lane => lane.since >= 0 && !lane.socket.destroyed).length
    }
    const result = {
      requests: rate === null ? counted : latencies.length,
      seconds: elapsed,
      refused,
      broken,
      sent,
      latency: percentiles(latencies)
    }
    if (rate === null) return result
    const late = percentiles(lateness)
    return { ...result, lateMedian: late.p50, late: late.p99, unsent: waiting.length }
  } finally {
    running = false
    for (const lane of lanes) {
      lane.since = -1
      lane.socket.destroy()
    }
  }
}

/**
 * Calls `send` at evenly spaced times. It turns the event loop without sleeping: a timer of one millisecond would be
 * later than most answers take, and a thread that slept and woke this one came later than that. So the generator fills
 * its core, and the harness sees to it that the upstream there comes first.
 */
async function openLoop(
  begin: number,
  seconds: number,
  rate: number,
  send: (due: number, now: number) => void,
  limit: number
): Promise<void> {
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

/** Jobs from standard input, one after another. */
async function serve(): Promise<void> {
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
  const print = (value: object): void => {
    process.stdout.write(`${JSON.stringify(value)}\n`)
  }
  for (;;) {
    const line = await lines.next()
    if (line.done === true) return
    try {
      // The harness writes the line; see Job.
      print(
        await generate(JSON.parse(line.value) as Job, async () => {
          print({ ready: true })
          await lines.next()
        })
      )
    } catch (error) {
      print({ failed: error instanceof Error ? error.message : String(error) })
    }
  }
}

if (import.meta.main) await serve()
