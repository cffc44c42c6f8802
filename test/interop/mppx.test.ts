/** mppx as published, with a lightning method, against a running gateway. */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test as T } from 'tap'
import { temporaryFolder } from '../support/database.ts'
import { defaultYaml, startGateway } from '../support/gateway.ts'
import { RawUpstream } from '../support/raw-upstream.ts'
import { lightningClient, loadMppx, mppxProgram } from './mppx-client.ts'
import { eachDoor, openShop, sandboxWallet } from './setting.ts'

const program = mppxProgram()
const skip = program === null ? 'mppx is not installed: run npm ci --prefix test/interop/mppx' : false

const post = (body: string) => ({ method: 'POST', headers: { 'content-type': 'application/json' }, body })

interface Check {
  readonly label: string
  readonly severity: string
  readonly detail?: string
}
interface Validation {
  readonly discovery: { readonly valid: boolean; readonly checks: readonly Check[] }
  readonly endpoints: ReadonlyArray<{ readonly challenge: readonly Check[]; readonly errorHandling: readonly Check[] }>
}

/** Runs `mppx validate` and answers its verdicts and its exit code. */
async function validate(t: T, url: string, options: readonly string[] = []) {
  const folder = temporaryFolder(t)
  // Into a file: the program ends itself before a pipe has taken everything.
  const output = join(folder, 'output.json')
  const file = openSync(output, 'w')
  // Neither the home of the user who runs the tests nor their programs are its business.
  const child = spawn(process.execPath, [program ?? '', 'validate', url, '--output-json', ...options], {
    env: { HOME: folder, PATH: '' },
    stdio: ['ignore', file, 'ignore']
  })
  const [code]: unknown[] = await once(child, 'exit')
  closeSync(file)
  return { ...(JSON.parse(readFileSync(output, 'utf8')) as Validation) /* the program's own format */, code }
}

t.test('mppx', { skip }, async t => {
  const mppx = await loadMppx()
  const shop = await openShop(t)
  const { gateway, upstream } = shop

  function buyer() {
    const wallet = sandboxWallet(gateway)
    return { wallet, client: lightningClient(mppx, async invoice => (await wallet.payInvoice({ invoice })).preimage) }
  }

  await t.test("buys at an operator's routes and a merchant's proxy, and reads the receipt", async t => {
    await eachDoor(t, gateway, async (t, door) => {
      for (const [path, methods] of [
        [shop.quote, ['GET']],
        [shop.operated, ['GET', 'POST']],
        [shop.proxied, ['GET', 'POST']]
      ] as const) {
        for (const method of methods) {
          const { client, wallet } = buyer()
          const body = `{"through":"${door.name}"}`
          const response = await client.fetch(door.url + path, method === 'POST' ? post(body) : undefined)
          const what = `${method} ${path}`
          t.equal(response.status, 200, what)
          t.equal(wallet.paid.length, 1, `${what} is paid once`)
          t.match(
            mppx.Receipt.fromResponse(response),
            { method: 'lightning', status: 'success', reference: /./, timestamp: /Z$/ },
            `${what} has a receipt`
          )
          const answer = (await response.json()) as { body?: string }
          if (path === shop.quote) continue
          t.match(
            upstream.received.at(-1),
            { method, authorization: null, body: method === 'POST' ? body : '' },
            `${what} reaches the upstream without its credential`
          )
          t.equal(answer.body, method === 'POST' ? body : '')
        }
      }
      if (door.name !== 'direct') return
      const { opened, ended } = door.connections()
      t.ok(opened <= 2, `${opened} connections for all of them`)
      t.equal(ended, 0, 'the gateway ends none')
    })
  })

  await t.test('sees a challenge that is complete, with the digest of the body it sent', async t => {
    const { client } = buyer()
    const body = '{"hello": "world"}'
    const { payment, response } = await client.prepareRequest(gateway.url + shop.operated, post(body), {
      requirePayment: true
    })
    t.equal(response.status, 402)
    t.match(
      response.headers.get('www-authenticate'),
      /^Payment /,
      'mppx names lightning in Accept-Payment, so its line comes first'
    )
    t.match(payment.challenge, {
      method: 'lightning',
      digest: `sha-256=:${createHash('sha256').update(body).digest('base64')}:`,
      expires: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/,
      request: {
        amount: '7',
        currency: 'sat',
        methodDetails: { network: 'regtest', invoice: /^lnbcrt70n1/, paymentHash: /^[0-9a-f]{64}$/ }
      }
    })
    t.equal((await payment.pay()).status, 200)
  })

  await t.test(
    'an upstream that dies before its first byte costs nothing: the same credential works at the next attempt, and then no more',
    async t => {
      for (const path of [shop.operated, shop.proxied]) {
        for (const init of [undefined, post('{}')]) {
          const { client, wallet } = buyer()
          const { payment } = await client.prepareRequest(gateway.url + path, init, { requirePayment: true })
          upstream.dieNext(2)
          const what = `${init?.method ?? 'GET'} ${path}`
          t.equal((await payment.pay()).status, 502, what)
          t.equal((await payment.pay()).status, 502, what)
          t.equal((await payment.pay()).status, 200, what)
          const before = upstream.received.length
          const replayed = await payment.pay()
          t.equal(replayed.status, 402, `${what} once more`)
          t.match(await replayed.json(), { type: 'https://paymentauth.org/problems/verification-failed' })
          t.equal(upstream.received.length, before, 'not requested again')
          t.equal(wallet.paid.length, 1, 'one payment for all of it')
        }
      }
    }
  )

  await t.test('a fault of the upstream is no reason to pay again', async t => {
    const { client, wallet } = buyer()
    upstream.dieNext(1)
    const response = await client.fetch(gateway.url + shop.proxied)
    t.equal(response.status, 502, 'mppx pays again whenever it sees a 402')
    t.equal(wallet.paid.length, 1)
  })

  await t.test('ten concurrent calls pay ten invoices and all succeed', async t => {
    const { client, wallet } = buyer()
    // A query of its own: challenges that other tests left unpaid count towards the ten that one address may hold
    // (decision 122).
    const answers = await Promise.all(
      Array.from({ length: 10 }, async () => (await client.fetch(`${gateway.url}${shop.operated}&at=once`)).status)
    )
    t.same(
      answers,
      Array.from({ length: 10 }, () => 200)
    )
    t.equal(new Set(wallet.paid).size, 10)
  })

  await t.test("mppx's own validator works without settings on a fresh install, and no check fails", async t => {
    const fresh = await startGateway(t)
    const { code, discovery, endpoints } = await validate(t, fresh.url)
    t.equal(code, 0)
    const checks = [
      ...discovery.checks,
      ...endpoints.flatMap(endpoint => [...endpoint.challenge, ...endpoint.errorHandling])
    ]
    t.same(
      checks.filter(check => check.severity === 'fail'),
      []
    )
    t.ok(
      checks.some(check => check.label === 'Challenge parseable' && check.severity === 'pass'),
      'one endpoint puts the Payment line first'
    )
  })

  await t.test("mppx's own validator has nothing to say against a gateway that puts Payment first", async t => {
    const { gateway, operated, proxied } = await openShop(t, 'payment: { order: payment-first }\n')
    for (const options of [
      ['-e', `GET:${proxied}`],
      ['-e', `POST:${operated}`, '--body', '{"a":1}']
    ]) {
      const { discovery, endpoints } = await validate(t, gateway.url, options)
      t.equal(discovery.valid, true)
      const [endpoint] = endpoints
      t.ok(
        endpoint?.challenge.some(check => check.label === 'Challenge parseable'),
        'it got as far as reading the challenge'
      )
      t.ok(endpoint?.errorHandling.length, 'and as sending a broken credential')
      const against = [...discovery.checks, ...(endpoint?.challenge ?? []), ...(endpoint?.errorHandling ?? [])].filter(
        check => check.severity !== 'pass'
      )
      t.same(against, [], options.join(' '))
    }
  })
})

t.test(
  'mppx keeps the Authorization of its caller where the challenge selects Payment-Authorization',
  { skip },
  async t => {
    const upstream = await RawUpstream.serve('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok').listen()
    t.teardown(() => upstream.close())
    const gateway = await startGateway(t, {
      yaml: defaultYaml({
        replace: [
          [
            'routes:\n',
            `routes:\n  - { match: { path: /own/* }, price: 21 sats, chain: paid, keepAuthorization: true, upstream: { url: "${upstream.origin}" } }\n`
          ]
        ]
      })
    })
    const client = lightningClient(await loadMppx(), gateway.pay)
    const response = await client.fetch(`${gateway.url}/own/a`, { headers: { authorization: 'Bearer own' } })
    t.equal(response.status, 200)
    t.match(upstream.requests.at(-1)?.head, /\r\nauthorization: Bearer own\r\n/i)
    t.notMatch(upstream.requests.at(-1)?.head, /payment-authorization/i)
  }
)
