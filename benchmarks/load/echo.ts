// Sends messages over WebSocket connections and waits for each echo before the next: `echo.ts <job as JSON>` prints
// {"messages":N,"seconds":S}.
import { once } from 'node:events'
import { WebSocket } from 'ws'

/** What the parent tells the sender to do. */
export interface EchoJob {
  readonly port: number
  readonly path: string
  readonly connections: number
  readonly seconds: number
  readonly bytes: number
}

async function echo({ port, path, connections, seconds, bytes }: EchoJob): Promise<void> {
  const message = Buffer.alloc(bytes, 0x78)
  let messages = 0
  let running = true
  const sockets = Array.from(
    { length: connections },
    () => new WebSocket(`ws://127.0.0.1:${port}${path}`, { perMessageDeflate: false })
  )
  await Promise.all(sockets.map(socket => once(socket, 'open')))
  for (const socket of sockets) {
    socket.on('message', () => {
      messages++
      if (running) socket.send(message)
    })
    socket.send(message)
  }
  await new Promise(resolve => {
    setTimeout(resolve, 300)
  })
  messages = 0
  const begin = performance.now()
  process.stdout.write('{"begun":true}\n')
  await new Promise(resolve => {
    setTimeout(resolve, seconds * 1000)
  })
  running = false
  process.stdout.write(`${JSON.stringify({ messages, seconds: (performance.now() - begin) / 1000 })}\n`)
  process.exit(0)
}

// The harness writes the argument; see EchoJob.
await echo(JSON.parse(process.argv[2] ?? '') as EchoJob)
