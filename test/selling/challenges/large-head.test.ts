import t from 'tap'
import { spawnGateway } from '../../support/gateway-process.ts'

t.test('402: a head that is too large for usual proxies is logged once, a usual one never', async t => {
  const gateway = await spawnGateway(t, {
    yaml: `
server: { listen: "127.0.0.1:0" }
use: [ service, sandbox ]
routes:
  - { match: { path: /v1/* }, price: 7 sats, chain: paid, upstream: { url: "http://127.0.0.1:9" } }
`
  })
  const warnings = () => gateway.log.filter(({ msg }) => String(msg).includes('proxy_buffer_size'))
  t.equal((await gateway.send('GET', '/v1/forecasts')).status, 402)
  t.same(warnings(), [])
  for (const path of ['a', 'b']) t.equal((await gateway.send('GET', `/v1/${path.repeat(600)}`)).status, 402)
  await gateway.line(({ msg }) => String(msg).includes('proxy_buffer_size'))
  gateway.kill('SIGTERM')
  await gateway.ended
  t.equal(warnings().length, 1)
  t.ok(Number(warnings()[0]?.['bytes']) > 3584)
})
