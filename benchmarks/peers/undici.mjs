// The barest proxy that can be made of node:http and undici: no checks, no header policy, no time limits, no log.
import { createServer } from 'node:http'
import { Pool } from 'undici'

// As many as a study opens streams, and more than any loop has requests in flight.
const pool = new Pool(process.argv[2], { connections: 2000, pipelining: 1 })

class Handler {
  constructor(response) {
    this.response = response
  }

  onRequestStart() {}

  onResponseStart(controller, status) {
    // A flat list of names and values, which Node takes as it is.
    this.response.writeHead(status, controller.rawHeaders.map(String))
  }

  onResponseData(controller, piece) {
    if (!this.response.write(piece)) {
      controller.pause()
      this.response.once('drain', () => controller.resume())
    }
  }

  onResponseEnd() {
    this.response.end()
  }

  onResponseError(_controller, error) {
    if (this.response.headersSent) this.response.destroy(error)
    else this.response.writeHead(502).end()
  }
}

const server = createServer((request, response) => {
  const bodiless = request.method === 'GET' || request.method === 'HEAD'
  // undici refuses hop-by-hop fields, so a list of what may pass is needed even here.
  const { connection: _connection, ...headers } = request.headers
  pool.dispatch(
    { path: request.url, method: request.method, headers, body: bodiless ? null : request },
    new Handler(response)
  )
})
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`{"port":${server.address().port}}\n`)
})
