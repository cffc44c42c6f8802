import { readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import t from 'tap'
import { prices } from '../../../src/app/commands/prices.ts'
import { serve } from '../../support/serve.ts'
import { printed } from '../../support/cli.ts'

const model = (input: number, output: number) => ({
  input_cost_per_token: input,
  output_cost_per_token: output,
  mode: 'chat'
})
const first = { cheap: model(1e-6, 2e-6), costly: model(1e-5, 2e-5), unsold: model(1, 1) }

t.test('prices update: shows changes of what is sold, and refuses missing models and large changes', async t => {
  let answer: { readonly status?: number; readonly body: string } = { body: JSON.stringify(first) }
  const server = createServer((_request, response) => {
    response.writeHead(answer.status ?? 200).end(answer.body)
  })
  const from = `http://127.0.0.1:${await serve(t, server)}/list`
  const folder = t.testdir({
    'gateway.yaml': `use: [ service, sandbox ]
routes:
  - match: { path: /v1/* }
    chain: paid
    upstream: { url: "http://127.0.0.1:1" }
    meter:
      bundle: 1 sat
      usage: openai
      prices: { catalog: models.json, models: [ cheap, costly ] }
      estimate: { else: 0 }
`
  })
  const file = `${folder}/models.json`
  const update = async (list: unknown, ...flags: readonly string[]) => {
    answer = { body: typeof list === 'string' ? list : JSON.stringify(list) }
    const args = ['update', file, '--from', from, '-c', `${folder}/gateway.yaml`, ...flags]
    return await printed(output => prices.run(args, output))
  }
  t.match(await update(first), { code: 0, out: /^Wrote .*: prices of 3 models/ }, 'the first needs no file to compare')
  t.equal(readFileSync(file, 'utf8'), JSON.stringify(first))

  const changed = { ...first, cheap: model(1.5e-6, 2e-6) }
  const seen = await update(changed)
  t.match(seen, { code: 0, out: 'cheap: input $1 → $1.5\n' })
  t.match(seen.out, / 1 of them changed/)

  const large = { ...changed, costly: model(1e-5, 5e-5) }
  t.match(await update(large), { code: 1, out: 'costly: output $20 → $50', err: 'is unchanged: confirm' })
  t.equal(readFileSync(file, 'utf8'), JSON.stringify(changed), 'and nothing is written')
  t.match(await update({ cheap: model(1.5e-6, 2e-6) }), { code: 1, err: 'costly: no longer listed' })
  t.match(await update({ ...changed, costly: model(0, 2e-5) }), { code: 1, err: 'costly: input $10 → $0' })
  t.equal((await update({ cheap: changed.cheap, costly: changed.costly })).code, 0, 'what is not sold may go')
  t.equal((await update(large, '--confirm')).code, 0)
  t.equal(readFileSync(file, 'utf8'), JSON.stringify(large))

  for (const nonsense of ['', '<html>', '[]', '{"a":{}}'])
    await t.rejects(update(nonsense), { code: 'BG_OTHER_RESPONSE' }, nonsense)
  const gone = createServer((_request, response) => response.writeHead(404).end())
  const url = `http://127.0.0.1:${await serve(t, gone)}/`
  const quiet = { print: () => undefined, complain: () => undefined }
  await t.rejects(prices.run(['update', file, '--from', url], quiet), { code: 'BG_NOT_REACHED', message: /status 404/ })
  for (const args of [[], ['update'], ['renew', 'x'], ['update', 'x', 'y']])
    await t.rejects(prices.run(args, quiet), { code: 'BG_USAGE' })
  t.equal(readFileSync(file, 'utf8'), JSON.stringify(large))
  t.same(readdirSync(folder).toSorted(), ['gateway.yaml', 'models.json'], 'no unfinished file is left')
})
