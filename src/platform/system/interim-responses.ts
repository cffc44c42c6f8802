import type { buildConnector } from 'undici'

/** Bytes of interim responses skipped before one response. */
const MOST = 64 * 1024
const START = /^HTTP\/1\.[01] 1(?!01)\d\d\b/
/** The longest prefix that START needs. */
const START_BYTES = 'HTTP/1.1 100 '.length
const END = '\r\n\r\n'

/**
 * Makes undici skip interim responses: it treats an unsolicited 100 as a fault, which RFC 9110 15.2 forbids. Checks
 * only after a write, where a response begins.
 */
export function overInterim(connect: buildConnector.connector): buildConnector.connector {
  return (options, callback) => {
    connect(options, (...result) => {
      const [, socket] = result
      if (socket !== null && socket !== undefined) watch(socket)
      callback(...result)
    })
  }
}

type Stream = Pick<NodeJS.ReadWriteStream, 'read' | 'write'>

function watch(socket: Stream): void {
  const read = socket.read.bind(socket) as (size?: number) => Buffer | null
  const write = socket.write.bind(socket) as (...args: unknown[]) => boolean
  let isBefore = false
  let skipped = 0
  let held: Buffer = Buffer.alloc(0)
  const mine = {
    write(...args: unknown[]): boolean {
      isBefore = true
      skipped = 0
      return write(...args)
    },
    read(size?: number): Buffer | null {
      for (;;) {
        const piece = read(size)
        if (piece === null || !isBefore) return piece
        held = held.length === 0 ? piece : Buffer.concat([held, piece])
        const rest = withoutInterim()
        if (rest !== null) return rest
      }
    }
  }
  /** The first other byte and what follows; null when more must come to tell. */
  const withoutInterim = (): Buffer | null => {
    for (;;) {
      const start = held.toString('latin1', 0, START_BYTES)
      const isInterim = START.test(start)
      const mayBecome = start.length < START_BYTES && 'HTTP/1.1 1'.startsWith(start.slice(0, 10))
      const end = isInterim ? held.indexOf(END) : -1
      if (skipped + held.length <= MOST && ((isInterim && end < 0) || mayBecome)) return null
      if (end < 0 || skipped > MOST) break
      skipped += end + END.length
      held = held.subarray(end + END.length)
      if (held.length === 0) return null
    }
    isBefore = false
    const rest = held
    // What follows is another protocol.
    if (rest.toString('latin1', 0, START_BYTES).startsWith('HTTP/1.1 101')) Object.assign(socket, { read, write })
    held = Buffer.alloc(0)
    return rest
  }
  Object.assign(socket, mine)
}
