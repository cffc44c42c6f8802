import { createServer, type RequestListener } from 'node:http'
import t, { type Test as T } from 'tap'
import { AddressGuard } from '../../../src/engine/upstream/guard.ts'
import { outboundCall } from '../../../src/engine/upstream/outbound.ts'
import { serve } from '../../support/serve.ts'

async function answering(t: T, answer: RequestListener) {
  return `http://127.0.0.1:${await serve(t, createServer(answer))}`
}

function caller(production = false, addresses: readonly string[] = []) {
  return outboundCall(new AddressGuard({ production, resolve: async () => addresses }))
}

const plain = { method: 'GET', headers: [], timeout: 5_000 } as const

t.test('the status and the first bytes of the body are answered', async t => {
  const url = await answering(t, (_req, res) => {
    res.writeHead(418).end('0123456789'.repeat(500))
  })
  const call = caller()
  const { status, body } = await call({ ...plain, url, keep: 1024 })
  t.equal(status, 418)
  t.equal(Buffer.from(body).toString(), '0123456789'.repeat(103).slice(0, 1024))
  t.same(await call({ ...plain, url }), { status: 418, body: Buffer.alloc(0) }, 'none by default')
})

t.test('a body without an end is dropped, and changes nothing about the answer', async t => {
  let dropped: () => void
  const gone = new Promise<void>(resolve => {
    dropped = resolve
  })
  const url = await answering(t, (_req, res) => {
    res.on('close', () => {
      dropped()
    })
    const more = () => {
      if (!res.destroyed)
        res.write('x'.repeat(16_384), () => {
          setImmediate(more)
        })
    }
    more()
  })
  const { status, body } = await caller()({ ...plain, url, keep: 1024 })
  t.equal(status, 200)
  t.equal(body.length, 1024)
  await gone
})

t.test('a body that comes too late or breaks off is answered as far as it came', async t => {
  const url = await answering(t, (req, res) => {
    res.write('begun')
    if (req.url === '/break')
      setImmediate(() => {
        res.destroy()
      })
  })
  for (const path of ['/late', '/break']) {
    const { status, body } = await caller()({
      ...plain,
      url: url + path,
      timeout: path === '/late' ? 2_000 : 30_000,
      keep: 1024
    })
    t.equal(status, 200)
    t.equal(Buffer.from(body).toString(), 'begun', path)
  }
})

t.test('the time counts from the resolving of the name, and is over for what never answers', async t => {
  const url = await answering(t, () => {})
  await t.rejects(caller()({ ...plain, url, timeout: 200 }), { name: 'TimeoutError' })
  const stuck = outboundCall(new AddressGuard({ production: true, resolve: () => new Promise(() => {}) }))
  await t.rejects(stuck({ ...plain, url: 'https://hooks.example.com/x', timeout: 200 }), { name: 'TimeoutError' })
})

t.test('a signal ends the call with its reason', async t => {
  const controller = new AbortController()
  const url = await answering(t, () => {
    controller.abort(new Error('the gateway stops'))
  })
  await t.rejects(caller()({ ...plain, url, signal: controller.signal }), { message: 'the gateway stops' })
})

t.test('redirects are answers, never followed', async t => {
  const seen: string[] = []
  const url = await answering(t, (req, res) => {
    seen.push(req.url ?? '')
    res.writeHead(302, { location: '/elsewhere' }).end()
  })
  t.equal((await caller()({ ...plain, url: `${url}/a?b=c` })).status, 302)
  t.same(seen, ['/a?b=c'])
})

t.test('addresses are checked at the call: private ones and plain HTTP in production are refused', async t => {
  for (const addresses of [['10.0.0.1'], ['93.184.216.34', '127.0.0.1'], ['169.254.169.254'], ['::1'], ['fd00::1']]) {
    await t.rejects(
      caller(true, addresses)({ ...plain, url: 'https://hooks.example.com/' }),
      { name: 'AddressRefused', reason: 'range' },
      addresses.join()
    )
  }
  await t.rejects(caller(true, ['93.184.216.34'])({ ...plain, url: 'http://hooks.example.com/' }), {
    name: 'AddressRefused',
    reason: 'scheme'
  })
  await t.rejects(caller(true)({ ...plain, url: 'https://127.0.0.1:8443/' }), {
    name: 'AddressRefused',
    reason: 'range'
  })
  await t.rejects(caller(true, [])({ ...plain, url: 'https://hooks.example.com/' }), { name: 'NameUnresolved' })
})
