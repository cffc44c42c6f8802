import t from 'tap'
import accessLog from '../../plugins/access-log.ts'
import { createLog } from '../../src/platform/telemetry/log.ts'
import { LongError, type Context } from '../../src/index.ts'
import { harness, type HarnessOptions } from '../../src/engine/pipeline/harness.ts'
import { merchant, testServices } from '../support/plugin-harness.ts'

async function build(config: object = {}, options: HarnessOptions = {}) {
  const services = testServices()
  return { services, chain: await harness([{ plugin: accessLog, config }], { services, ...options }) }
}

t.test('one line says all about a request that went well', async t => {
  const { chain, services } = await build(
    {},
    { route: { name: 'GET /v1/*' }, answer: { status: 201, body: 'hello', readsBody: true } }
  )
  const request = chain.begin({
    method: 'POST',
    target: '/v1/things?key=s3cret',
    body: 'abc',
    correlationId: 'c-1',
    peerAddress: '10.0.0.1',
    clientAddress: '198.51.100.7',
    principal: merchant('42'),
    prepare(ctx) {
      ctx.payment = { scheme: 'l402', paymentHash: 'f'.repeat(64), amountSats: 21 }
    }
  })
  services.clock.advance(12)
  await request.result
  t.strictSame(services.lines, [
    {
      level: 'info',
      message: 'request',
      fields: {
        correlationId: 'c-1',
        method: 'POST',
        route: 'GET /v1/*',
        status: 201,
        source: 'upstream',
        delivered: true,
        bytesIn: 3,
        bytesOut: 5,
        durationMs: 12,
        client: '198.51.100.7',
        path: '/v1/things',
        principal: 'merchant:42',
        payment: { scheme: 'l402', amountSats: 21 }
      }
    }
  ])
})

t.test('nothing that pays or signs in is in the line', async t => {
  const secret = 'a1b2c3d4'.repeat(8)
  const { chain, services } = await build(
    { path: 'query' },
    { answer: { headers: { 'Payment-Receipt': secret, 'Set-Cookie': secret } } }
  )
  await chain.run({
    target: `/things?page=2&adminKey=${secret}&token=${secret}&preimage=${secret}`,
    headers: {
      Authorization: `L402 ${secret}:${secret}`,
      'X-API-Key': secret,
      Cookie: secret,
      'Payment-Credential': secret
    },
    prepare(ctx) {
      ctx.payment = { scheme: 'payment', paymentHash: secret, amountSats: 1 }
    }
  })
  t.equal(services.lines.length, 1)
  t.notMatch(JSON.stringify(services.lines), secret)
  t.equal(services.lines[0]?.fields['path'], '/things?page=2&adminKey=[redacted]&token=[redacted]&preimage=[redacted]')
})

t.test('paths that are secrets themselves can be left out', async t => {
  const { chain, services } = await build({ path: 'none' }, { route: { name: 'GET /pay/:token' } })
  await chain.run({ target: '/pay/tok-123?x=1' })
  t.equal(services.lines[0]?.fields['route'], 'GET /pay/:token')
  t.notMatch(JSON.stringify(services.lines), 'tok-123')
})

t.test('refusals are logged at the ordinary level with their message', async t => {
  const { chain, services } = await build(
    { level: 'debug' },
    {
      answer: () => {
        throw new LongError(404, 'Proxy not found', 'There is no such proxy.')
      }
    }
  )
  await chain.run()
  t.match(services.lines, [
    { level: 'debug', fields: { status: 404, source: 'error', delivered: true, error: 'There is no such proxy.' } }
  ])
})

t.test('a fault is an error, with the text that the client does not get', async t => {
  const { chain, services } = await build(
    {},
    {
      mode: 'production',
      answer: () => {
        throw new RangeError('index 7 of 3')
      }
    }
  )
  const result = await chain.run()
  t.notMatch(result.text, 'index 7')
  t.match(services.lines, [
    { level: 'error', fields: { status: 500, error: 'An unexpected error occurred: index 7 of 3' } }
  ])
})

t.test('a client that left is a warning, with 499 when it got no head', async t => {
  const { chain, services } = await build({}, { answer: () => undefined })
  const request = chain.begin()
  request.leave()
  await request.result
  t.match(services.lines, [
    { level: 'warn', fields: { status: 499, delivered: false, error: 'The client closed the connection.' } }
  ])
})

t.test('skipped paths are silent while all goes well', async t => {
  const { chain, services } = await build(
    { skip: ['/health', '/probe/*'] },
    {
      answer: ctx =>
        ctx.query === 'bad' ? { status: 503, headers: [], body: null } : { status: 200, headers: [], body: null }
    }
  )
  for (const target of ['/health', '/probe/a', '/health?x=1']) await chain.run({ target })
  t.equal(services.lines.length, 0)
  await chain.run({ target: '/health/deep' })
  await chain.run({ target: '/probe' })
  await chain.run({ target: '/health?bad' })
  t.same(
    services.lines.map(line => [line.level, line.fields['path'], line.fields['status']]),
    [
      ['info', '/health/deep', 200],
      ['info', '/probe', 200],
      ['error', '/health', 503]
    ]
  )
})

t.test('the hand-built line is the serialized one, byte for byte', async t => {
  const written: string[] = []
  const members: unknown[] = []
  const log = createLog({
    level: 'debug',
    destination: {
      write: line => {
        written.push(line)
      }
    }
  })
  const quick = {
    ...log,
    known(level: 'debug' | 'info' | 'warn' | 'error', fields: object | string, message: string) {
      members.push(fields)
      log.known(level, fields, message)
    }
  }
  for (const name of ['/v1/*', 'quo"te', 'préfix'])
    for (const path of ['path', 'query', 'none']) {
      const services = testServices()
      const options = { route: { name }, answer: { status: 201, body: 'hello', readsBody: true } }
      const slow = await harness([{ plugin: accessLog, config: { path } }], { services, ...options })
      const fast = await harness([{ plugin: accessLog, config: { path } }], {
        services: { ...services, log: quick },
        ...options
      })
      const durations = [0, 0.0004, 0.001, 0.1, 0.1234, 0.9996, 1.5, 12, 1234.567, 99_999_999.9, 3e12]
      const requests = [
        ...durations.map(duration => ({ duration, request: {} })),
        {
          duration: 1,
          request: { target: '/a?key=s3cret', method: 'POST', body: 'abc', clientAddress: '2001:db8::1' }
        },
        { duration: 1, request: { target: '/"\\\u00e9', correlationId: 'c"1' } },
        { duration: 1, request: { principal: merchant('42') } },
        {
          duration: 1,
          request: {
            prepare: (ctx: Context) => {
              ctx.payment = { scheme: 'l402' as const, paymentHash: 'f'.repeat(64), amountSats: 21 }
            }
          }
        },
        {
          duration: 1,
          request: {
            prepare: (ctx: Context) => {
              ctx.payment = { scheme: 'payment' as const, paymentHash: 'f'.repeat(64), amountSats: 21 }
            }
          }
        },
        {
          duration: 1,
          request: {
            prepare: (ctx: Context) => {
              ctx.payment = { scheme: 'payment' as const, paymentHash: 'f'.repeat(64), amountSats: 22 }
            }
          }
        }
      ]
      for (const { duration, request } of requests) {
        const given = { correlationId: 'c-1', ...request }
        const running = [slow.begin(given), fast.begin(given)]
        services.clock.advance(duration)
        for (const { result } of running) await result
        const { level, fields, message } = services.lines.at(-1) ?? { level: '', fields: {}, message: '' }
        t.equal(
          written.at(-1)?.replace(/"time":"[^"]*"/, '"time":"T"'),
          `${JSON.stringify({ level, time: 'T', ...fields, msg: message })}\n`
        )
      }
    }
  t.equal(members.filter(fields => typeof fields === 'string').length, 45, 'all that are plain')
})
