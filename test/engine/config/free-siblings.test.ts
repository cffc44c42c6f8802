import t from 'tap'
import { loadConfigText } from '../../../src/engine/config/load.ts'
import { pluginFacts } from './plugin-facts.ts'

const yaml = (free: string, sold = 'path: /v1/premium') => `use: []
chains:
  paid: [throttle, challenge, forward]
  open: [forward]
routes:
  - match: { ${sold} }
    chain: paid
    price: 10 sats
    upstream: { url: "http://127.0.0.1:3000" }
  - match: { ${free} }
    chain: open
    upstream: { url: "http://127.0.0.1:3000" }
`

t.test('check: a free wildcard beside a priced literal path of the same upstream is a warning', async t => {
  const warnings = async (text: string) =>
    (await loadConfigText('gateway.yaml', text, {}, { plugins: pluginFacts })).warnings.filter(
      ({ code }) => code === 'BG_CONFIG_CONFLICT'
    )
  t.match(await warnings(yaml('path: /*')), [
    { line: 10, column: 12, path: 'routes[1].match', message: /"\/v1\/premium" \(line 6\).*listed one by one/ }
  ])
  t.equal((await warnings(yaml('path: [/a, /v1/*], method: GET'))).length, 1)
  for (const text of [
    yaml('path: /v2/*'),
    yaml('path: /v1/docs'),
    yaml('path: /*, method: POST', 'path: /v1/premium, method: GET'),
    yaml('path: /*, host: a.example', 'path: /v1/premium, host: b.example'),
    yaml('path: /*').replace('3000" }\n  - match', '4000" }\n  - match')
  ])
    t.same(await warnings(text), [], text)
})
