import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import type { Job } from '../load/generator.ts'
import { GeneratorProcess, LoadFailed } from '../load/generator-process.ts'
import { plainGet } from '../load/request.ts'

test('one generator serves job after job, says when its connections are open, and outlives a target that fails', async () => {
  let seen = 0
  const server = createServer((request, response) => {
    seen++
    // No Content-Length, which the generator cannot read.
    if (request.url === '/endless') response.write('x')
    else response.end('x')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // A server that listens on a port has an address of this form.
  const { port } = server.address() as AddressInfo
  const generator = new GeneratorProcess(null, false)
  const job: Job = {
    host: '127.0.0.1',
    port,
    request: plainGet('/'),
    from: 0,
    count: 50,
    connections: 4,
    seconds: 60,
    lead: 0,
    rate: null
  }
  try {
    const atBegin: number[] = []
    const note = (): void => {
      atBegin.push(seen)
    }
    // Requested concurrently, they arrive one after another.
    const [first, second] = await Promise.all([
      generator.run(job, note),
      generator.run({ ...job, count: null, seconds: 0.1, rate: 200 }, note)
    ])
    assert.equal(first.requests, 50)
    assert.equal(first.refused + first.broken, 0)
    assert.equal(second.requests, 20)
    assert.deepEqual(atBegin, [0, 50], 'nothing is sent before the counters have been read')
    await assert.rejects(generator.run({ ...job, request: plainGet('/endless') }), LoadFailed)
    await assert.rejects(generator.run({ ...job, port: 1 }), LoadFailed)
    assert.equal((await generator.run(job)).requests, 50)
    await generator.stop()
    assert.equal((await generator.run(job)).requests, 50, 'started again by the next job')
  } finally {
    await generator.stop()
    server.close()
    server.closeAllConnections()
  }
})
