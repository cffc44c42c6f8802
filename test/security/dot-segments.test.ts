import t from 'tap'
import { openShop } from './shop.ts'

t.test(
  'a dot segment in any spelling reaches no upstream: 400 before any plugin runs, where our own operations may be asked with it',
  async t => {
    const { gateway, upstream, proxy, raw } = await openShop(t)
    const { path } = await proxy({ defaultPriceSats: 0 })
    const ask = (target: string, ...lines: string[]) => raw([`GET ${target} HTTP/1.1`, 'Host: a.example', ...lines])
    const segments = [
      '..',
      '.',
      '%2e%2e',
      '%2E%2e',
      '.%2e',
      '%2e.',
      '%2e',
      '..%2fetc',
      'a%2f..%2fb',
      '..%2F',
      'a%5c..%5cb',
      '..;x',
      '..%3bx',
      '..%00',
      '%2e%2e%2f'
    ]
    for (const prefix of ['/paid/', `${path}/`]) {
      for (const segment of segments) {
        for (const target of [
          `${prefix}${segment}`,
          `${prefix}${segment}/x`,
          `${prefix}a/${segment}?q=1`,
          `http://a.example${prefix}${segment}`
        ]) {
          const answer = await ask(target)
          t.same(
            [answer.status, answer.body, answer.header('connection')],
            [
              400,
              '{"error":"Bad Request","message":"The path contains a dot segment; resolve it before sending."}',
              'close'
            ],
            target
          )
        }
      }
      const upgrade = await ask(`${prefix}%2e%2e/ws`, 'Connection: upgrade', 'Upgrade: websocket')
      t.equal(upgrade.status, 400, 'an upgrade')
    }
    t.same(upstream.hits, [])
    for (const target of [
      '/api/payments/%2e%2e/admin/merchants',
      '/nothing/%2e%2e/metrics',
      '/%2e%2e/health',
      '/paid%2f..%2fhealth',
      '/demo/%2e%2e/health'
    ]) {
      t.equal((await ask(target)).status, 404, `${target} is not resolved`)
    }
    t.equal((await ask('/api/admin/%2e%2e/health')).status, 401, 'and has the plugins of the path as it is written')
    t.equal((await gateway.send('GET', `${path}/ok`)).status, 200)
  }
)
