import t from 'tap'
import { cleanTarget, createLog } from '../../../src/platform/telemetry/log.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'

function capture() {
  const lines: string[] = []
  const log = createLog({
    level: 'info',
    destination: {
      write: line => {
        lines.push(line)
      }
    }
  })
  return {
    log,
    // The log writes JSON objects only, which is what these tests are about.
    last: () => JSON.parse(lines.at(-1) ?? '{}') as Record<string, unknown>
  }
}

await t.test('a line is JSON with level, time and message', async t => {
  const { log, last } = capture()
  log.info({ status: 402 }, 'answered')
  t.match(last(), { level: 'info', status: 402, msg: 'answered', time: /^\d{4}-\d\d-\d\dT.*Z$/ })
  log.debug('too fine')
  t.match(last(), { msg: 'answered' })
})

await t.test('secrets do not reach the log, by type or by name', async t => {
  const { log, last } = capture()
  const names = [
    'authorization',
    'cookie',
    'set-cookie',
    'x-api-key',
    'preimage',
    'macaroon',
    'apiKey',
    'adminKey',
    'webhookSecret',
    'password'
  ]
  for (const name of names) {
    log.info({ [name]: 'hidden-value', headers: { [name]: 'hidden-value', deep: { [name]: 'hidden-value' } } }, 'x')
    t.notMatch(JSON.stringify(last()), /hidden-value/, name)
  }
  log.info({ AUTHORIZATION: 'hidden-value', list: [{ apiKey: 'hidden-value' }], kept: 1 }, 'x')
  t.match(last(), { AUTHORIZATION: '[redacted]', list: [{ apiKey: '[redacted]' }], kept: 1 })
  log.child({ bound: new Secret('hidden-value') }).info({ adminKey: 'hidden-value' }, 'from a child')
  t.match(last(), { adminKey: '[redacted]', bound: '[redacted]' })
  const fields = { preimage: 'hidden-value' }
  log.info(fields, 'x')
  t.equal(fields.preimage, 'hidden-value', 'the logged object itself is not changed')
  log.info({ err: new Error('broken') }, 'x')
  t.match(last(), { err: { message: 'broken', stack: /log\.test/ } })
  log.info({ anything: { at: { any: { depth: new Secret('hidden-value') } } } }, `and ${new Secret('hidden-value')}`)
  t.notMatch(JSON.stringify(last()), /hidden-value/)
})

await t.test('keys in the query of a target are replaced, the rest stays byte for byte', async t => {
  t.equal(cleanTarget('/jobs?adminKey=hidden&x=%2F'), '/jobs?adminKey=[redacted]&x=%2F')
  t.equal(cleanTarget('/claim?a=1&claimToken=hidden#f'), '/claim?a=1&claimToken=[redacted]#f')
  for (const name of [
    'api_key',
    'api-key',
    'X-API-Key',
    'client_secret',
    'refresh_token',
    'id_token',
    'sig',
    'signature'
  ])
    t.equal(cleanTarget(`/v1?${name}=hidden&a=1`), `/v1?${name}=[redacted]&a=1`)
  t.equal(cleanTarget('/plain/path=token=1'), '/plain/path=token=1')
  t.equal(cleanTarget('/a?monkey=1'), '/a?monkey=1')
})

await t.test('the quick way writes the same line, at the same levels', async t => {
  const { log, last } = capture()
  const fields = {
    path: '/a"\\\n\u2028\ud800',
    status: 200,
    payment: { scheme: 'l402' },
    left: undefined,
    bound: new Secret('hidden-value')
  }
  log.info(fields, 'say "request"')
  const { time: _time, ...slow } = last()
  log.known('info', fields, 'say "request"')
  const { time, ...quick } = last()
  t.strictSame(quick, slow)
  t.strictSame(Object.keys(last()), ['level', 'time', 'path', 'status', 'payment', 'bound', 'msg'])
  t.match(time, /^\d{4}-\d\d-\d\dT.*Z$/)
  t.equal(quick['bound'], '[redacted]')
  log.known('debug', { status: 500 }, 'too fine')
  t.match(last(), { msg: 'say "request"' })
  log.known('error', {}, 'bare')
  t.match(last(), { level: 'error', msg: 'bare' })
})
