// node benchmarks/micro/hostile-requests.ts [KIND]: milliseconds that the main thread of a gateway is on the CPU for a
// request whose JSON body is built to be slow, from its first byte to its response: unpaid for a route priced by a field
// and for MCP, paid for a metered one. The body has the largest size that a route reads by default. `first` is the first
// of its kind, the others are the median and the most of nine.
import { createServer } from 'node:http'
import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { hostileBodies, meteredBodies } from '../../test/support/hostile-json.ts'
import { challengeOf, credentialOf, defaultYaml } from '../../test/support/gateway.ts'
import { spawnGateway } from '../../test/support/gateway-process.ts'

type T = Parameters<typeof spawnGateway>[0]

const ends: Array<() => unknown> = []
// Of a test, no more than this is used.
const owner = { teardown: (end: () => unknown) => ends.push(end) } as unknown as T

const upstream = createServer((request, response) => {
  request.resume().on('end', () => {
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end('{"usage":{"prompt_tokens":1,"completion_tokens":1}}')
  })
})
await new Promise<void>(resolve => upstream.listen(0, '127.0.0.1', resolve))
const url = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`
const yaml = defaultYaml({
  replace: [
    [
      'chains:\n',
      'chains:\n  mcp-tools: [ { throttle: { policy: global } }, body-limit, { mcp: { tools: { small: 5 sats } } } ]\n'
    ],
    [
      'routes:\n',
      `routes:
  - match: { path: /field }
    chain: paid
    upstream: { url: "${url}" }
    price: { by: { json: model }, of: { small: 5 sats }, else: refuse }
  - match: { path: /mcp }
    chain: mcp-tools
    upstream: { url: "${url}" }
  - match: { path: /metered }
    chain: paid
    upstream: { url: "${url}" }
    meter: { unit: token, bundle: 9000000 sats, prices: { by: { json: model }, of: { small: { input: 1 msat, output: 1 msat } }, else: refuse }, usage: openai, estimate: { else: 10 } }
`
    ]
  ]
})
const gateway = await spawnGateway(owner, { yaml })
const onCpu = (): number =>
  Number(readFileSync(`/proc/${gateway.pid}/task/${gateway.pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6

async function measured(path: string, body: string, headers: Readonly<Record<string, string>>) {
  const times: number[] = []
  let status = 0
  for (let time = 0; time < 10; time++) {
    const before = onCpu()
    const answer = await gateway.send('POST', path, {
      headers: { 'content-type': 'application/json', ...headers },
      body
    })
    times.push(onCpu() - before)
    status = answer.status
  }
  return { status, times }
}

try {
  const challenge = challengeOf(
    await gateway.send('POST', '/metered', {
      headers: { 'content-type': 'application/json' },
      body: '{"model":"small"}'
    }),
    'l402'
  )
  const authorization = credentialOf(challenge, await gateway.pay(challenge.parameters.get('invoice') ?? ''))
  const kinds = {
    field: { path: '/field', bodies: hostileBodies(1_048_576), headers: {} },
    mcp: { path: '/mcp', bodies: hostileBodies(1_048_576), headers: { accept: 'application/json, text/event-stream' } },
    metered: {
      path: '/metered',
      bodies: new Map([...hostileBodies(1_048_576), ...meteredBodies(1_048_576)]),
      headers: { authorization }
    }
  }
  for (const [kind, { path, bodies, headers }] of Object.entries(kinds)) {
    if (process.argv[2] !== undefined && process.argv[2] !== kind) continue
    process.stdout.write(`| ${kind} | status | first | median | most |\n|---|---|---|---|---|\n`)
    for (const [shape, body] of bodies) {
      const { status, times } = await measured(path, body, headers)
      const [first = NaN, ...others] = times
      others.sort((one, other) => one - other)
      const [median, most] = [others[4] ?? NaN, others.at(-1) ?? NaN]
      process.stdout.write(
        `| ${shape} | ${status} | ${first.toFixed(1)} | ${median.toFixed(1)} | ${most.toFixed(1)} |\n`
      )
    }
  }
} finally {
  for (const end of ends.toReversed()) await end()
  upstream.close()
}
