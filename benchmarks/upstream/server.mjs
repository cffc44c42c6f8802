// Replaces nginx as the upstream where that is not installed: one answer of 1 KiB to everything.
import { createServer } from 'node:http'

const body = Buffer.alloc(Number(process.argv[2]), 'x')
const head = ['Content-Type', 'text/plain', 'Content-Length', String(body.length)]
const server = createServer((_request, response) => {
  response.writeHead(200, head).end(body)
})
server.keepAliveTimeout = 300_000
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`{"port":${server.address().port}}\n`)
})
