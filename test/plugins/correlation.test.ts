import t from 'tap'
import correlation from '../../plugins/correlation.ts'
import { harness } from '../../src/engine/pipeline/harness.ts'

t.test('the upstream gets the correlation id instead of what the client sent', async t => {
  const chain = await harness(correlation)
  const { upstream, headers } = await chain.run({
    correlationId: 'abc-1',
    headers: ['x-correlation-id', 'forged', 'X-Correlation-Id', 'twice']
  })
  t.same(upstream?.headers.all('x-correlation-id'), ['abc-1'])
  t.equal(headers.get('x-correlation-id'), 'abc-1')
})

t.test('the header towards the upstream has the name that the settings give', async t => {
  const chain = await harness([{ plugin: correlation, config: { header: 'X-Request-Id' } }])
  const { upstream } = await chain.run({ correlationId: 'abc-2' })
  t.equal(upstream?.headers.get('x-request-id'), 'abc-2')
  t.notOk(upstream?.headers.has('x-correlation-id'))
})
