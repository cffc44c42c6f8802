import { connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { startGateway } from '../support/gateway.ts'
import { release, told, waitingNow } from './stage-plugin.ts'
import { until } from '../support/until.ts'

function yaml(generation: string) {
  return `chains:
  c: [ { ./test/contract/stage-plugin.ts: { generation: ${generation} } } ]
routes:
  - match: { path: /* }
    chain: c
    upstream: { internal: api }
`
}

t.test(
  'an answer that cannot be written is a 500 with its correlation id, not a broken connection (contract, Errors: Unhandled)',
  async t => {
    const gateway = await startGateway(t, { yaml: yaml('first') })
    for (const path of ['/bad-value', '/bad-name']) {
      const answer = await gateway.send('GET', path, { headers: { 'x-correlation-id': 'c-1' } })
      t.equal(answer.status, 500, path)
      t.match(answer.json(), {
        error: 'An unexpected error occurred',
        correlationId: 'c-1',
        timestamp: /Z$/,
        exceptionType: String
      })
      t.equal(answer.headers['x-correlation-id'], 'c-1')
      t.equal(answer.headers['x-api-version'], '1.0.0')
    }
  }
)

t.test('a request that waits in a plugin keeps its generation over a reload, which closes after it', async t => {
  const gateway = await startGateway(t, { yaml: yaml('first') })
  told.length = 0
  const waiting = gateway.send('GET', '/wait')
  const leaving = connect(Number(new URL(gateway.url).port), '127.0.0.1')
  leaving.write('GET /wait HTTP/1.1\r\nHost: a\r\n\r\n')
  await until(() => waitingNow() === 2)
  await gateway.reload(yaml('second'))
  await t.rejects(gateway.reload(yaml('[')), 'a broken file changes nothing')
  t.equal((await gateway.send('GET', '/now')).headers['x-generation'], 'second')
  t.notOk(told.includes('close first'), 'not while one of its requests is in flight')
  // A client that only ends its side still waits for its answer.
  leaving.resetAndDestroy()
  await pause(50)
  t.notOk(told.includes('done first 499'), 'nor is the end reported while the plugin still works on it')
  t.equal(release(), 2)
  const answer = await waiting
  t.equal(answer.headers['x-generation'], 'first')
  t.equal(answer.headers['x-seen'], 'first')
  await until(() => told.includes('close first'))
  t.same(told.filter(text => text.includes('first')).sort(), ['close first', 'done first 200', 'done first 499'])
  t.equal(told.filter(text => text.startsWith('close first')).length, 1, 'closed once')
  t.equal(
    told.indexOf('close first'),
    Math.max(...told.map((text, at) => (text.includes('first') ? at : -1))),
    'and last'
  )
})
