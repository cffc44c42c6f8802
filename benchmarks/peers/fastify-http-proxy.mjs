import proxy from '@fastify/http-proxy'
import fastify from 'fastify'

const app = fastify()
await app.register(proxy, { upstream: process.argv[2], undici: { connections: 256, pipelining: 1 } })
await app.listen({ host: '127.0.0.1', port: 0 })
process.stdout.write(`{"port":${app.server.address().port}}\n`)
