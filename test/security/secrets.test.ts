import { randomBytes } from 'node:crypto'
import postgres from 'postgres'
import t from 'tap'
import { readKeys } from '../../src/platform/keys/keyfile.ts'
import { challengeOf, credentialOf, type Answer } from '../support/gateway.ts'
import { freshPostgres, spawnGateway } from '../support/gateway-process.ts'
import { countingUpstream, shopYaml } from './shop.ts'

/** Every value of every text-like column of every table, with its place. */
async function everyText(sql: postgres.ISql<{ bigint: bigint }>) {
  const tables = await sql<
    { name: string }[]
  >`select table_name::text as name from information_schema.tables where table_schema = 'public'`
  const found: Array<readonly [string, string]> = []
  for (const { name } of tables) {
    for (const row of await sql<
      { row: Record<string, unknown> }[]
    >`select to_jsonb(each) as row from ${sql(name)} as each`) {
      for (const [column, value] of Object.entries(row.row))
        if (value !== null) found.push([`${name}.${column}`, typeof value === 'string' ? value : JSON.stringify(value)])
    }
  }
  return found
}

t.test('no secret is in a log line, or in an answer that does not owe it', async t => {
  const database = await freshPostgres(t)
  const master = `canary-master-${randomBytes(16).toString('hex')}`
  const admin = `canary-admin-${randomBytes(12).toString('hex')}`
  const upstreamKey = `canary-upstream-${randomBytes(8).toString('hex')}`
  const routeKey = `canary-route-${randomBytes(8).toString('hex')}`
  const upstream = await countingUpstream(t, (req, res) => {
    if (req.url?.endsWith('/broken') === true) req.socket.destroy()
    else if (req.url?.endsWith('/500') === true) res.writeHead(500).end('no')
    else res.end('sold')
  })
  const yaml = shopYaml(upstream.origin, {
    replace: [['mode: development', 'log: { level: debug }\nmode: development']],
    route: `  - { match: { path: /keyed/* }, price: 7 sats, chain: paid, upstream: { url: "${upstream.origin}", headers: { x-upstream-key: "${routeKey}" } } }\n`
  })
  const gateway = await spawnGateway(t, {
    yaml,
    env: {
      BOLTGATE_SECRET: master,
      BOLTGATE_ADMIN_KEY: admin,
      ...(database === null ? {} : { DATABASE_URL: database })
    }
  })
  const apiKey = readKeys(gateway.data)?.merchant?.apiKey.reveal() ?? ''
  t.not(apiKey, '')
  const answers: Answer[] = []
  const ask = async (...args: Parameters<typeof gateway.send>) => {
    const answer = await gateway.send(...args)
    answers.push(answer)
    return answer
  }
  const key = { 'x-api-key': apiKey }
  const created = await ask('POST', '/api/proxy', {
    headers: key,
    body: {
      name: 'Shop',
      targetBaseUrl: upstream.origin,
      defaultPriceSats: 5,
      authHeader: 'x-upstream-key',
      authValue: upstreamKey
    }
  })
  t.equal(created.status, 201, created.text)
  const { proxyId } = created.json() as { proxyId: string }
  await ask('PUT', `/api/proxy/${proxyId}`, { headers: key, body: { defaultPriceSats: 6 } })
  await ask('GET', '/api/proxy', { headers: key })
  await ask('GET', `/api/proxy/${proxyId}`, { headers: key })
  await ask('POST', `/api/proxy/${proxyId}/test`, { headers: key })
  await ask('PUT', `/api/proxy/${proxyId}`, { headers: key, body: { authValue: `${upstreamKey}\n` } })
  await ask('PUT', `/api/proxy/${proxyId}`, {
    headers: key,
    body: { authValue: 5, targetBaseUrl: `https://user:${upstreamKey}@example.com` }
  })

  const secrets = new Map<string, string>([
    ['master', master],
    ['admin key', admin],
    ['API key', apiKey],
    ['upstream key', upstreamKey],
    ['route key', routeKey]
  ])
  let number = 0
  for (const path of [
    '/paid/item',
    '/paid/500',
    '/paid/broken',
    '/keyed/item',
    `/l402/proxy/${proxyId}/item`,
    `/l402/proxy/${proxyId}/broken`,
    '/demo/quote',
    '/l402/test/ping'
  ]) {
    for (const scheme of ['l402', 'payment'] as const) {
      // The 402 owes its macaroon; everything afterwards owes nothing.
      const offer = await gateway.send('GET', path)
      const challenge = challengeOf(offer, scheme)
      const preimage = await gateway.pay(challenge.parameters.get('invoice') ?? '')
      const authorization = credentialOf(challenge, preimage)
      secrets.set(`preimage ${++number}`, preimage)
      if (scheme === 'l402') secrets.set(`macaroon ${number}`, challenge.parameters.get('macaroon') ?? '')
      secrets.set(`credential ${number}`, authorization.slice(authorization.indexOf(' ') + 1))
      for (const value of [
        authorization,
        authorization,
        authorization.slice(0, -3),
        `${authorization}0`,
        authorization.replace(' ', '  ')
      ])
        await ask('GET', path, { headers: { authorization: value } })
      await ask('GET', `${path}?preimage=${preimage}&key=${apiKey}`)
      await ask('POST', path, { headers: { authorization }, body: 'x' })
      await ask('GET', '/api/l402/status', { headers: { authorization } })
      await ask('GET', '/nowhere', { headers: { authorization, ...key } })
      if (scheme === 'l402')
        await ask('POST', '/api/l402/challenges/verify', {
          headers: key,
          body: { macaroon: challenge.parameters.get('macaroon') ?? '', preimage }
        })
      else
        await ask('POST', '/api/l402/challenges/verify-credential', {
          headers: key,
          body: { credential: authorization, resource: 'x' }
        })
      await ask('POST', '/api/l402/challenges/verify', { headers: key, body: { macaroon: 5, preimage: [preimage] } })
    }
  }
  await ask('GET', `/api/proxy?apiKey=${apiKey}`, { headers: { 'x-api-key': `${apiKey}x` } })
  await ask('GET', '/metrics', { headers: { 'x-api-key': admin } })
  await ask('GET', '/ready', { headers: { 'x-api-key': `${admin}x` } })
  await ask('GET', '/openapi.json')
  await ask('GET', '/health')
  await ask('POST', '/api/l402/challenges', {
    headers: { ...key, 'content-type': 'application/json' },
    body: `{"resource":"${apiKey}`
  })
  await gateway.send('GET', '/health')
  gateway.kill('SIGTERM')
  await gateway.ended
  const log = gateway.log.map(line => JSON.stringify(line)).join('\n')
  t.ok(gateway.log.length > 100, `${gateway.log.length} lines were written`)
  for (const [name, secret] of secrets) {
    t.ok(secret.length >= 16, name)
    t.notOk(
      log.includes(secret),
      `${name} is in no log line: ${gateway.log.map(line => JSON.stringify(line)).find(line => line.includes(secret)) ?? ''}`
    )
    const telling = answers.find(
      answer => answer.text.includes(secret) || JSON.stringify(answer.headers).includes(secret)
    )
    t.equal(
      telling === undefined ? '' : `${telling.status} ${JSON.stringify(telling.headers)} ${telling.text}`,
      '',
      `${name} is in no answer`
    )
  }

  if (database === null) return
  const sql = postgres(database, { max: 1, onnotice: () => {} })
  t.teardown(() => sql.end())
  const texts = await everyText(sql as unknown as postgres.ISql<{ bigint: bigint }>) // Without the type of bigint columns.
  t.ok(texts.length > 50)
  // The challenge is handed out again as it was, and the sandbox is its own payer; neither is a credential on its own.
  const kept = new Set(['challenges.macaroon', 'sandbox_invoices.preimage'])
  for (const [name, secret] of secrets)
    t.same(
      texts.filter(([place, text]) => !kept.has(place) && text.includes(secret)).map(([place]) => place),
      [],
      `${name} is in no row`
    )
})
