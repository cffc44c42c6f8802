// Holds many connections open, as a process of its own: `holder.ts <job as JSON>` prints a line once all have been
// answered, and counts the events that arrive until its standard input ends; then it prints {"events":N} and leaves.
import { once } from 'node:events'
import { connect } from 'node:net'

/** What the parent tells the holder to do. */
export interface HoldJob {
  readonly port: number
  readonly path: string
  readonly connections: number
  /** How many are opened concurrently. */
  readonly atOnce: number
}

async function hold({ port, path, connections, atOnce }: HoldJob): Promise<void> {
  let events = 0
  let broken = 0
  let left = connections
  const open = async (): Promise<void> => {
    while (left > 0) {
      left--
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => {
        broken++
      })
      await once(socket, 'connect')
      socket.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`)
      const [first] = (await once(socket, 'data')) as [Buffer]
      if (first.toString('latin1', 9, 12) !== '200') throw new Error(`answered ${first.toString('latin1', 0, 40)}`)
      socket.on('data', (piece: Buffer) => {
        for (let at = piece.indexOf('data: '); at >= 0; at = piece.indexOf('data: ', at + 6)) events++
      })
    }
  }
  await Promise.all(Array.from({ length: atOnce }, open))
  events = 0
  process.stdout.write('{"open":true}\n')
  process.stdin.resume()
  await once(process.stdin, 'end')
  process.stdout.write(`${JSON.stringify({ events, broken })}\n`)
  process.exit(0)
}

// The harness writes the argument; see HoldJob.
await hold(JSON.parse(process.argv[2] ?? '') as HoldJob)
