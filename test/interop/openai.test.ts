/**
 * The client of OpenAI as published, with Alby's `fetchWithL402` as its `fetch`, through two gateways on one database.
 * What it is charged is compared with what the upstream counted independently, to the token.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { fetchWithL402, type PaidResponse } from '@getalby/lightning-tools/402'
import t from 'tap'
import { EACH_ENTRY } from '../../src/selling/balances/statements.ts'
import { startModelServer } from '../fakes/model.ts'
import { openAnyDatabase, temporaryFolder } from '../support/database.ts'
import { documented } from '../support/documents.ts'
import { defaultYaml, startGateway } from '../support/gateway.ts'
import { eventually } from '../support/gateway-process.ts'
import { sandboxWallet, type SandboxWallet } from './setting.ts'

/** As much of the package as is used; it is installed in a folder of its own, unknown to the type checker. */
interface OpenAiClient {
  readonly chat: {
    readonly completions: {
      create(input: object): Promise<{ readonly usage?: Usage } & AsyncIterable<{ readonly usage?: Usage | null }>>
    }
  }
}
interface Usage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
}
type Fetch = (url: string | URL | Request, init?: RequestInit) => Promise<Response>
interface OpenAiModule {
  readonly default: new (options: {
    readonly baseURL: string
    readonly apiKey: string
    readonly maxRetries: number
    readonly fetch: Fetch
    readonly defaultHeaders: Record<string, string | null>
  }) => OpenAiClient
}

const CALLS = Number(process.env['CALLS'] ?? 1_000)
const AT_ONCE = 50
const own = createRequire(new URL('openai/package.json', import.meta.url))

function openAiPath() {
  try {
    return own.resolve('openai')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'MODULE_NOT_FOUND') return null
    throw error
  }
}

const path = openAiPath()
const skip = path === null ? 'openai is not installed: run npm ci --prefix test/interop/openai' : false

t.test(
  `${CALLS} calls, ${AT_ONCE} concurrent over two gateways, are charged to the token`,
  { skip, timeout: 600_000 },
  async t => {
    // A path that is computed gives an unknown module; the interface above says what is in it.
    const { default: OpenAi } = (await import(pathToFileURL(path ?? '').href)) as OpenAiModule
    const model = await startModelServer(t)
    const yaml = defaultYaml({
      replace: [
        [
          'routes:\n',
          `routes:
  - match: { path: /v1/chat/completions, method: POST }
    chain: paid
    upstream: { url: "${model.url}" }
    meter:
      unit: token
      bundle: 40 sats
      prices: { by: { json: model }, of: { small: { input: 2 msat, output: 8 msat } }, else: refuse }
      usage: openai
      estimate: { json: max_tokens, else: 100 }
`
        ]
      ]
    })
    const database = await openAnyDatabase(t)
    const data = temporaryFolder(t)
    const env = { BOLTGATE_SECRET: 'a master secret that both gateways have, of 32 bytes' }
    const gateways = [
      await startGateway(t, { yaml, database, data, env }),
      await startGateway(t, { yaml, database, data: temporaryFolder(t), env })
    ]
    const clients = gateways.map(gateway => {
      const wallet = sandboxWallet(gateway)
      let credentials: NonNullable<PaidResponse['payment']>['credentials'] | undefined
      let buying: Promise<void> | null = null
      // What the docs show, with one purchase at a time: all that wait use what the first has bought.
      const buy = async (url: string, init: RequestInit) => {
        const response = await fetchWithL402(url, { ...init }, { wallet })
        if (response.payment !== undefined) credentials = response.payment.credentials
        return response
      }
      const fetch: Fetch = async (url, init = {}) => {
        for (;;) {
          await buying
          const shown = credentials
          let response: Response
          if (shown !== undefined) {
            const headers = new Headers(init.headers)
            headers.set(shown.header, shown.value)
            response = await globalThis.fetch(String(url), { ...init, headers })
            if (response.status === 402 && credentials === shown) credentials = undefined
          } else if (buying === null) {
            const bought = buy(String(url), init)
            buying = bought.then(
              () => undefined,
              () => undefined
            )
            void buying.finally(() => {
              buying = null
            })
            response = await bought
          } else continue
          if (response.status !== 402) return response
          await response.body?.cancel()
        }
      }
      return {
        wallet,
        openai: new OpenAi({
          baseURL: `${gateway.url}/v1`,
          apiKey: 'none',
          maxRetries: 0,
          fetch,
          // The credential is there.
          defaultHeaders: { Authorization: null }
        })
      }
    })
    const said = { prompt: 0, completion: 0 }
    const add = (usage: Usage | null | undefined) => {
      said.prompt += usage?.prompt_tokens ?? 0
      said.completion += usage?.completion_tokens ?? 0
    }
    let next = 0
    const work = async () => {
      for (let call = next++; call < CALLS; call = next++) {
        const { openai } = clients[call % 2] ?? {}
        if (openai === undefined) throw new Error('there are two')
        const input = {
          model: 'small',
          messages: [{ role: 'user', content: 'x'.repeat(1 + (call % 40)) }],
          max_tokens: 20
        }
        if (call % 3 === 0) add((await openai.chat.completions.create(input)).usage)
        else {
          const stream = await openai.chat.completions.create({
            ...input,
            stream: true,
            stream_options: { include_usage: true }
          })
          for await (const chunk of stream) add(chunk.usage)
        }
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
    const bought = clients.reduce((sum, { wallet }) => sum + wallet.paid.length, 0)
    t.ok(bought >= 2, `${bought} bundles were bought`)
    t.equal(model.calls.length, CALLS, 'each call reached the upstream once')
    const counted = {
      prompt: model.calls.reduce((sum, { prompt }) => sum + prompt, 0),
      completion: model.calls.reduce((sum, { completion }) => sum + completion, 0)
    }
    t.same(said, counted, 'the clients got what the upstream counted')
    const sums = await eventually('all is written', async () => {
      const [row] = await database.sql<{ n: number; input: number; output: number; msat: number; others: number }[]>`
      select count(*)::int as n, sum(input)::int as input, sum(output)::int as output, sum(msat)::int as msat,
        (count(*) filter (where basis <> 'usage' or unpaid_msat <> 0))::int as others
      from ${database.sql.unsafe(EACH_ENTRY)}`
      return (row?.n ?? 0) >= CALLS ? row : null
    })
    t.same(sums, {
      n: CALLS,
      input: counted.prompt,
      output: counted.completion,
      msat: 2 * counted.prompt + 8 * counted.completion,
      others: 0
    })
    const [money] = await database.sql<{ spent: number; deposited: number; least: number }[]>`
    select sum(spent_msat)::int as spent, sum(deposited_msat)::int as deposited,
      min(deposited_msat - spent_msat - held_msat)::int as least from balances`
    t.equal(money?.spent, sums?.msat, 'the balances have spent what the entries say')
    t.equal((money?.deposited ?? 0) % 40_000, 0)
    t.ok((money?.deposited ?? 0) <= bought * 40_000, 'and hold no more than was paid')
    t.ok((money?.least ?? -1) >= 0, 'no balance is below zero')
  }
)

t.test(
  'the documentation says what works: a client keeps its bundle, and buys another when it is used up',
  { skip },
  async t => {
    const model = await startModelServer(t)
    const yaml = documented('metered-inference.yaml')
    t.match(yaml, /127\.0\.0\.1:8000/)
    const gateway = await startGateway(t, {
      yaml: `server: { listen: "127.0.0.1:0" }\n${yaml.replace('http://127.0.0.1:8000', model.url)}`
    })
    // Beside the packages that it imports.
    const folder = mkdtempSync(join(dirname(path ?? ''), '..', '.shown-'))
    t.teardown(() => {
      rmSync(folder, { recursive: true })
    })
    writeFileSync(join(folder, 'paid-openai.mjs'), documented('paid-openai.mjs'))
    const { paidOpenAI } = (await import(pathToFileURL(join(folder, 'paid-openai.mjs')).href)) as {
      paidOpenAI(baseURL: string, wallet: SandboxWallet): OpenAiClient
    } // the page's own block
    const wallet = sandboxWallet(gateway)
    const openai = paidOpenAI(`${gateway.url}/v1`, wallet)
    const ask = (max_tokens: number) =>
      openai.chat.completions.create({ model: 'small', messages: [{ role: 'user', content: 'hello' }], max_tokens })
    for (let time = 0; time < 3; time++) t.equal((await ask(20)).usage?.prompt_tokens, 5)
    t.equal(wallet.paid.length, 1, 'one bundle for three calls')
    // More than is left by now, and less than a new one has.
    await ask(249_980)
    t.equal(wallet.paid.length, 2, 'and another when it is used up')
    await t.rejects(openai.chat.completions.create({ model: 'other', messages: [], max_tokens: 5 }), {
      message: /Price unknown/
    })
  }
)
