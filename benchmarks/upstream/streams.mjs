// The upstream of the studies: GET /passed/events is a stream of server-sent events, one a second for each client; GET
// /passed/endless?bytes=N is a body of N bytes, as fast as it is taken; a POST is read to its end and answered with {"bytes":N}; an upgrade to
// WebSocket gives an echo; everything else is one line.
import { createServer } from 'node:http'
import { WebSocketServer } from 'ws'

const clients = new Set()
const event = `event: tick\ndata: ${'x'.repeat(80)}\n\n`
const piece = Buffer.alloc(64 * 1024, 'x')

/** Writes `left` bytes; goes on whenever the last ones were taken. */
function pour(response, left) {
  while (left > 0) {
    const bytes = left < piece.length ? piece.subarray(0, left) : piece
    left -= bytes.length
    if (!response.write(bytes) && left > 0) {
      response.once('drain', () => {
        pour(response, left)
      })
      return
    }
  }
  response.end()
}

function count(request, response) {
  let bytes = 0
  request.on('data', data => {
    bytes += data.length
  })
  request.on('end', () => {
    response.end(JSON.stringify({ bytes }))
  })
}

// A large upload takes longer than Node's own limit.
const server = createServer({ requestTimeout: 0 }, (request, response) => {
  const endless = /\/endless\?bytes=(\d+)$/.exec(request.url)
  if (request.method === 'POST') {
    count(request, response)
    return
  }
  if (endless !== null) {
    const length = Number(endless[1])
    response.writeHead(200, { 'Content-Type': 'application/octet-stream', 'Content-Length': length })
    pour(response, length)
    return
  }
  if (!request.url.endsWith('/events')) {
    response.end('here\n')
    return
  }
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' })
  response.write(event)
  clients.add(response)
  response.on('close', () => {
    clients.delete(response)
  })
})
setInterval(() => {
  for (const client of clients) client.write(event)
}, 1000).unref()
const sockets = new WebSocketServer({ server, perMessageDeflate: false })
sockets.on('connection', socket => {
  socket.on('message', (data, isBinary) => {
    socket.send(data, { binary: isBinary })
  })
})
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`{"port":${server.address().port}}\n`)
})
