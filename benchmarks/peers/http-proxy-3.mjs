import { Agent, createServer } from 'node:http'
import { createProxyServer } from 'http-proxy-3'

const agent = new Agent({ keepAlive: true, maxSockets: 256 })
const proxy = createProxyServer({ target: process.argv[2], agent })
// The third is a response, or the client's socket where it was upgraded.
proxy.on('error', (_error, _request, response) => {
  if ('writeHead' in response) response.writeHead(502).end()
  else response.destroy()
})
const server = createServer((request, response) => {
  proxy.web(request, response)
})
server.on('upgrade', (request, socket, head) => {
  // Clients that go without a word must not end it.
  socket.on('error', () => {})
  proxy.ws(request, socket, head)
})
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`{"port":${server.address().port}}\n`)
})
