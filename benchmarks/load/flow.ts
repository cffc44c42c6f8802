// One long body through a target: `flow.ts <job as JSON>` reads an answer of so many bytes, or sends an upload of so
// many, and prints {"bytes":N,"seconds":S}, where N is what arrived at the other end.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

/** What is to flow, and which way. */
export interface FlowJob {
  readonly port: number
  readonly way: 'down' | 'up'
  readonly bytes: number
}

const piece = Buffer.alloc(256 * 1024, 'x')

function fail(error: Error): never {
  throw error
}

/** Reads the answer and counts the bytes of its body; one buffer for all of it. */
async function down({ port, bytes }: FlowJob): Promise<number> {
  let head = ''
  let got = 0
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  const socket = connect({
    port,
    host: '127.0.0.1',
    onread: {
      buffer: Buffer.alloc(256 * 1024),
      callback(size, buffer) {
        let begin = 0
        if (!head.endsWith('\r\n\r\n')) {
          // The head of an answer is far shorter than the buffer.
          const text = Buffer.from(buffer.buffer, buffer.byteOffset, size)
          const end = text.indexOf('\r\n\r\n')
          head += text.toString('latin1', 0, end < 0 ? size : end + 4)
          begin = end < 0 ? size : end + 4
        }
        got += size - begin
        if (got === bytes) resolve(got)
        return true
      }
    }
  })
  socket.on('error', reject)
  socket.on('close', () => {
    reject(new Error(`the connection ended after ${got} bytes; the answer begins ${JSON.stringify(head.slice(0, 80))}`))
  })
  socket.write(`GET /passed/endless?bytes=${bytes} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`)
  const count = await promise
  if (!head.startsWith('HTTP/1.1 200 ')) throw new Error(`answered ${head.slice(0, 40)}`)
  return count
}

async function pour(socket: Socket, bytes: number): Promise<void> {
  for (let left = bytes; left > 0; left -= piece.length) {
    if (!socket.write(left < piece.length ? piece.subarray(0, left) : piece)) await once(socket, 'drain')
  }
}

/** Sends the upload; what arrived is what the upstream says. */
async function up({ port, bytes }: FlowJob): Promise<number> {
  const socket = connect(port, '127.0.0.1')
  let answer = ''
  socket.on('error', fail)
  const told = new Promise<number>((resolve, reject) => {
    socket.on('data', (data: Buffer) => {
      answer += data.toString('latin1')
      const count = /\{"bytes":(\d+)\}/.exec(answer)
      if (count !== null) resolve(Number(count[1]))
    })
    socket.on('close', () => {
      reject(new Error(`the connection ended; the answer is ${JSON.stringify(answer.slice(0, 80))}`))
    })
  })
  socket.write(`POST /passed/count HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Length: ${bytes}\r\n\r\n`)
  const [count] = await Promise.all([told, pour(socket, bytes)])
  return count
}

// The harness writes the argument; see FlowJob.
const job = JSON.parse(process.argv[2] ?? '') as FlowJob
const begin = performance.now()
const bytes = await (job.way === 'down' ? down(job) : up(job))
process.stdout.write(`${JSON.stringify({ bytes, seconds: (performance.now() - begin) / 1000 })}\n`)
process.exit(0)
