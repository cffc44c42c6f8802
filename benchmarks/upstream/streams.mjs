// What stands behind the studies: GET /passed/events is a stream of server-sent events, one a second for each client;
// an upgrade to WebSocket gives an echo; everything else is one line.
import { createServer } from 'node:http'
import { WebSocketServer } from 'ws'

const clients = new Set()
const event = `event: tick\ndata: ${'x'.repeat(80)}\n\n`
const server = createServer((request, response) => {
  if (!request.url.endsWith('/events')) {
    response.end('here\n')
    return
  }
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' })
  response.write(event)
  clients.add(response)
  response.on('close', () => { clients.delete(response) })
})
setInterval(() => { for (const client of clients) client.write(event) }, 1000).unref()
const sockets = new WebSocketServer({ server, perMessageDeflate: false })
sockets.on('connection', socket => { socket.on('message', (data, isBinary) => { socket.send(data, { binary: isBinary }) }) })
server.listen(0, '127.0.0.1', () => { process.stdout.write(`{"port":${server.address().port}}\n`) })
