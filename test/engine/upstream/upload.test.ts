import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { UpstreamUpload } from '../../../src/engine/upstream/upload.ts'

/** Both ends of a connection. */
async function pair(t: Test) {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (typeof address !== 'object' || address === null) throw new Error('the server has no port')
  const accepted = once(server, 'connection') as Promise<[Socket]>
  const near = connect(address.port, '127.0.0.1')
  const [far] = await accepted
  t.teardown(() => {
    near.destroy()
    far.destroy()
    server.close()
  })
  return { near, far }
}

const events = { sent: () => undefined, done: () => undefined, failed: () => undefined }
t.test(
  'a piece behind the first is written once the loop has looked at the sockets, as one that answered early',
  async t => {
    const { near } = await pair(t)
    const body = new PassThrough()
    const upload = new UpstreamUpload(near, body, { text: 'POST / HTTP/1.1\r\n\r\n', length: 6, last: false }, events)
    body.write('ab')
    upload.start()
    await setImmediate()
    const before = near.bytesWritten
    body.write('cd')
    body.emit('data', Buffer.from('ef'))
    t.equal(near.bytesWritten, before, 'not yet')
    upload.stop()
    await setImmediate()
    await setImmediate()
    t.equal(near.bytesWritten, before, 'and never where the response came first')
  }
)

t.test('small pieces that wait together are written as one', async t => {
  const { near } = await pair(t)
  const body = new PassThrough()
  const upload = new UpstreamUpload(near, body, { text: '\r\n\r\n', length: -1, last: false }, events)
  body.write('begin')
  upload.start()
  await setImmediate()
  const write = t.capture(near, 'write', near.write.bind(near))
  for (let at = 0; at < 1000; at++) body.emit('data', Buffer.from('x'))
  await setImmediate()
  await setImmediate()
  t.equal(write().length, 3, 'the size of the chunk, its bytes, and its end')
  upload.stop()
})
