import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { startFakeNwc } from '../../fakes/nwc.ts'
import { temporaryFolder } from '../../support/database.ts'
import { buy, defaultYaml, startGateway } from '../../support/gateway.ts'
import { serve } from '../../support/serve.ts'
import { boltgate } from '../../support/cli.ts'

t.test('pay keeps an Authorization of its own', async t => {
  const lines: string[][] = []
  const upstream = createServer((request, response) => {
    lines.push(request.headersDistinct['authorization'] ?? [])
    response.end('served')
  })
  const url = `http://127.0.0.1:${await serve(t, upstream)}`
  const route = `routes:\n  - { match: { path: /own }, price: 2 sats, chain: paid, keepAuthorization: true, upstream: { url: "${url}" } }\n`
  const gateway = await startGateway(t, { yaml: defaultYaml({ replace: [['routes:\n', route]] }) })
  for (const [scheme, field] of [
    ['payment', 'Payment-Authorization: Payment '],
    ['l402', 'Authorization: L402 ']
  ] as const) {
    const { code, out, err } = await boltgate(
      'pay',
      `${gateway.url}/own`,
      '--scheme',
      scheme,
      '-H',
      'Authorization: Bearer own'
    )
    t.equal(code, 0, `${out}${err}`)
    t.match(out, `\n> ${field}`)
  }
  t.same(lines, [['Bearer own'], ['Bearer own']], 'the upstream gets it, and no payment')

  const odd = createServer((_request, response) => {
    const challenge = 'Payment id="a", realm="r", method="lightning", intent="charge", request="e30", header="Cookie"'
    response.writeHead(402, { 'www-authenticate': challenge }).end()
  })
  const other = await boltgate('pay', `http://127.0.0.1:${await serve(t, odd)}/`, '--scheme', 'payment')
  t.match(other.err, 'The 402 offers no payment challenge', 'no other field is taken')
})

t.test('pay walks through 402, payment and 200 for each scheme', async t => {
  const gateway = await startGateway(t)
  for (const scheme of ['l402', 'payment']) {
    const { code, out, err } = await boltgate('pay', `${gateway.url}/demo/quote`, '--scheme', scheme)
    t.equal(code, 0, err)
    t.match(
      out,
      /^> GET [^]*< 402\n[^]*www-authenticate: L402 [^]*Paid; the preimage is [0-9a-f]{64}\n[^]*> Authorization: [^]*< 200\n/,
      scheme
    )
    t.match(out, scheme === 'l402' ? /Authorization: L402 / : /payment-receipt: /)
  }
  const own = join(t.testdir({ 'own.yaml': `secrets: { adminKey: ${gateway.adminKey} }\n` }), 'own.yaml')
  const test = await boltgate('pay', `${gateway.url}/demo/quote`, '--test', '--config', own)
  t.equal(test.code, 0, test.err)
  const operator = { headers: { 'x-api-key': gateway.adminKey } }
  t.match((await gateway.send('GET', '/api/admin/sales?source=test&sum=true', operator)).json(), {
    total: { count: 1 }
  })
  t.match((await gateway.send('GET', '/api/admin/earnings', operator)).json(), { sales: 2 })
  const posted = await boltgate('pay', `${gateway.url}/demo/echo`, '-X', 'POST', '-d', '{"a":1}', '-H', 'X-A: b')
  t.match(posted.out, /^> POST /)
  t.equal((await boltgate('pay', `${gateway.url}/health`)).code, 0, 'nothing to pay')
  t.equal((await boltgate('pay', `${gateway.url}/nothing`)).code, 1)

  const minted = await boltgate('mint', '--count', '2', '--url', gateway.url)
  t.equal(minted.code, 0, minted.err)
  const credentials = minted.out.split('\n')
  t.equal(new Set(credentials).size, 2, 'two different ones')
  for (const authorization of credentials)
    t.equal((await gateway.send('GET', '/demo/quote', { headers: { authorization } })).status, 200)
  const modern = await boltgate(
    'mint',
    '--count',
    '3',
    '--url',
    gateway.url,
    '--path',
    '/demo/echo',
    '--scheme',
    'payment',
    '-d',
    '{"a":1}',
    '--parallel',
    '2'
  )
  t.equal(modern.code, 0, modern.err)
  t.equal(new Set(modern.out.split('\n')).size, 3, 'three different ones, though two were requested concurrently')
  for (const authorization of modern.out.split('\n')) {
    const send = () => gateway.send('POST', '/demo/echo', { headers: { authorization }, body: { a: 1 } })
    const answers = [await send(), await send()]
    t.same(
      answers.map(({ status }) => status),
      [200, 402],
      'each is valid once'
    )
  }
})

t.test('a usage error exits with 2 and says why', async t => {
  for (const [args, message] of [
    [['nonsense'], /^Unknown command "nonsense"\. \[BG_USAGE\]\n\nboltgate, /],
    [['strat'], /^Unknown command "strat"\. Did you mean "start"\? \[BG_USAGE\]\n/],
    [['check', '--confg', 'x'], /^Unknown flag "--confg"\. Did you mean "--config"\? \[BG_USAGE\]\n/],
    [['pay'], /^Missing <url>\. /],
    [['pay', 'a', 'b'], /^Unexpected argument "b" after a\. /],
    [['pay', 'not a url'], /^URL must begin with http/],
    [['revoke'], /^Nothing to revoke: give a payment hash, a credential, --proxy or --merchant\. /],
    [['revoke', 'L402', 'a:b'], /^Give only one of .*; put a credential in quotes\. /],
    [['revoke', '--proxy', 'a', '--merchant', '1'], /^Give only one of /],
    [['key'], /^Missing kind: use lnd\. /],
    [['key', 'foo'], /^Unknown kind "foo": use lnd\. /],
    [['key', 'ldn'], /^Unknown kind "ldn": use lnd\. Did you mean "lnd"\? /],
    [['key', 'lnd', 'x'], /^Unexpected argument "x" after lnd\. /],
    [['keys', 'foo'], /^Unknown action "foo": use rotate or adopt\. /],
    [['pay', 'http://127.0.0.1:1/', '--scheme', 'cash'], /--scheme must be l402 or payment/],
    [['pay', 'http://127.0.0.1:1/', '-H', 'nothing'], /-H takes/],
    [['check', '--nonsense'], /nonsense/],
    [['start', 'gateway.yaml'], /^Unexpected argument "gateway\.yaml"\. Did you mean --config gateway\.yaml\? /],
    [['test'], /^Missing action: use provider\. /],
    [['merchant', 'create', '--name', 'A'], /^Missing --email\. /],
    [['completion', 'csh'], /^Unknown shell "csh": use bash or zsh or fish\. /],
    [
      ['pay', 'http://127.0.0.1:1/', '--wallet', 'nostr+walletconnect://x'],
      /^--wallet: The nwc key must have the form /
    ],
    [['check', '--config', 'no-such.yaml'], /There is no file no-such\.yaml/],
    [['mint', '--count', 'many'], /--count must be a whole number/],
    [['mint', '--parallel', '0'], /--parallel must be a whole number from 1 to 256/],
    [['mint', '--scheme', 'cash'], /--scheme must be l402 or payment/],
    [['keys'], /^Missing action: use rotate or adopt\. /]
  ] as const) {
    const { code, out, err } = await boltgate(...args)
    t.equal(code, 2, args.join(' '))
    t.match(err, message)
    t.match(err.split('\n', 1)[0], / \[BG_USAGE\]$/)
    t.equal(out, '')
  }
  t.equal((await boltgate()).code, 2)
  t.equal((await boltgate('--help')).code, 0)
  for (const command of ['start', 'check', 'routes', 'pay', 'mint', 'revoke', 'keys', 'docs'])
    t.match((await boltgate(command, '--help')).out, new RegExp(`^Usage: boltgate ${command}`))
  t.match((await boltgate('help', 'start')).out, /^Usage: boltgate start[^]*\nExamples:\n/)
  t.match((await boltgate()).out, /Commands:\n {2}init +Writes a gateway\.yaml/)
  t.match(await boltgate('version'), { code: 0, out: /^\d+\.\d+\.\d+ \(commit / })
  const away = await boltgate('pay', 'http://127.0.0.1:1/')
  t.equal(away.code, 1)
  t.match(away.err, /ECONNREFUSED|could not|bad port/i)
  t.match(away.err, /\[BG_NOT_REACHED\]/)
  for (const command of ['pay', 'mint']) {
    const unknown = await boltgate(command, ...(command === 'mint' ? ['--url'] : []), 'http://no.such.host.invalid/')
    t.equal(unknown.code, 1)
    t.match(unknown.err, /^http:\/\/no\.such\.host\.invalid cannot be reached: .* \[BG_NOT_REACHED\]$/, command)
  }
})

t.test('pay: a real wallet pays over Nostr Wallet Connect, up to --max', async t => {
  const [seller, buyer] = [await startFakeNwc(), await startFakeNwc()]
  t.teardown(() => Promise.all([seller.close(), buyer.close()]))
  // A payee reveals the preimage to its payer.
  buyer.preimages.get = hash => seller.wallet.invoices.get(hash)?.preimage
  const gateway = await startGateway(t, {
    yaml: defaultYaml({ replace: [['primary:   { kind: sandbox }', 'primary: { kind: nwc, key: "${NWC}" }']] }),
    env: { NWC: seller.key() }
  })
  const refused = await boltgate('pay', `${gateway.url}/demo/quote`, '--wallet', buyer.key(), '--max', '9')
  t.match(refused, { code: 1, err: /asks for 10 sats, more than --max allows \(9 sats\)\. Nothing was paid/ })
  t.equal(buyer.wallet.sendings, 0)
  const paid = await boltgate('pay', `${gateway.url}/demo/quote`, '--wallet', buyer.key())
  t.match(paid, { code: 0, out: /with your wallet\nPaid; the preimage is [0-9a-f]{64}\n[^]*< 200\n/ }, paid.err)
  t.notMatch(paid.out + paid.err, new URL(buyer.key()).searchParams.get('secret') ?? '')
})

t.test('test provider: says of each key whether it makes invoices', async t => {
  const wallet = await startFakeNwc()
  t.teardown(() => wallet.close())
  const file = join(temporaryFolder(t), 'gateway.yaml')
  writeFileSync(file, `lightning: { primary: { kind: nwc, key: "${wallet.key()}" } }\nroutes: []\n`)
  t.match(await boltgate('test', 'provider', '-c', file), {
    code: 0,
    out: /^ok +primary nwc: .*\nok +alternate sandbox: /
  })
  writeFileSync(
    file,
    `lightning: { primary: { kind: phoenixd, key: "phoenixd://127.0.0.1:1?password=a" } }\nroutes: []\n`
  )
  t.match(await boltgate('test', 'provider', '-c', file), { code: 1, out: /^FAILED +primary phoenixd: .*not tested/ })
})

t.test('merchant create: an account on a running gateway, with a key that works', async t => {
  const gateway = await startGateway(t)
  const file = join(gateway.data, 'gateway.yaml')
  writeFileSync(file, `data: ${gateway.data}\nroutes: []\n`)
  const made = await boltgate(
    'merchant',
    'create',
    '--name',
    'Ada',
    '--email',
    'a@example.com',
    '--url',
    gateway.url,
    '-c',
    file
  )
  t.match(made, { code: 0, err: /\/console; sign in with this key/ }, made.err)
  t.equal((await gateway.send('GET', '/api/merchant/settings', { headers: { 'x-api-key': made.out } })).status, 200)
  t.match(
    await boltgate('merchant', 'create', '--name', 'Ada', '--email', 'a@example.com', '--url', gateway.url, '-c', file),
    { code: 1, err: /answered 409/ }
  )
})

t.test('an unexpected response is reported with its code', async t => {
  let reply: { status: number; headers: Record<string, string>; text: string } = { status: 200, headers: {}, text: '' }
  const server = createServer((req, res) => {
    if (req.url === '/sandbox/pay') return res.end('<html>')
    res.writeHead(reply.status, reply.headers)
    res.end(reply.text)
  })
  const port = await serve(t, server)
  const url = `http://127.0.0.1:${port}`
  t.match(await boltgate('mint', '--url', url), {
    code: 1,
    err: /answered 200, not 402: nothing more \[BG_OTHER_RESPONSE\]$/
  })
  t.match(await boltgate('pay', `https://127.0.0.1:${port}/`), {
    code: 1,
    err: /speaks no TLS.* \(is it http:\/\/ and not https:\/\/\?\).* \[BG_NOT_REACHED\]$/
  })
  reply = { status: 429, headers: { 'retry-after': '500' }, text: '' }
  t.match(await boltgate('mint', '--url', url), { code: 1, err: /asks to wait 500 seconds; .* \[BG_OTHER_RESPONSE\]$/ })
  reply = { status: 402, headers: {}, text: '' }
  t.match(await boltgate('mint', '--url', url), {
    code: 1,
    err: /no l402 challenge; .*--scheme payment\. \[BG_OTHER_RESPONSE\]$/
  })
  t.match(await boltgate('pay', url), {
    code: 1,
    err: /no l402 challenge; .*--scheme payment\. \[BG_OTHER_RESPONSE\]$/
  })
  reply = { status: 402, headers: { 'www-authenticate': 'L402 macaroon="AA", invoice="lnbc1"' }, text: '' }
  for (const args of [
    ['pay', url],
    ['mint', '--url', url]
  ])
    t.match(await boltgate(...args), {
      code: 1,
      err: /could not be paid: http:.*\/sandbox\/pay answered 200: <html> \[BG_OTHER_RESPONSE\]\nOnly the sandbox can be paid/
    })
})

t.test(
  'a missing option that cannot be prompted for is reported before any request, so that no invoice is left',
  async t => {
    const requests: string[] = []
    const server = createServer((req, res) => {
      requests.push(req.url ?? '')
      res.statusCode = 402
      res.end()
    })
    const url = `http://127.0.0.1:${await serve(t, server)}/`
    for (const [args, message] of [
      [['pay', 'ftp://x/'], /^URL must begin with http:/],
      [['pay', url, '--wallet', 'x'], /^--wallet must begin with http:/],
      [['pay', url, '--wallet', 'ftp://x/'], /^--wallet must begin with http:/],
      [['pay', url, '-X', 'B AD'], /^-X must be a method such as POST, not "B AD"/],
      [['pay', url, '-X', 'CONNECT'], /^-X cannot be CONNECT/],
      [['pay', url, '-H', 'X-Ä: ü'], /^-H takes 'Name: value', and no header can have the name "x-ä"/],
      [['pay', url, '-H', 'X-A: €'], /^-H takes values in Latin-1 .* x-a /],
      [['pay', url, '-H', 'Expect: 100-continue'], /^-H cannot be expect/],
      [['pay', url, '-H', 'Content-Length: 3'], /^-H cannot be content-length/],
      [['mint', '--url', url, '-X', 'B AD'], /^-X must be a method/],
      [['mint', '--url', 'ftp://x/'], /^--url must begin with http/],
      [['revoke', '0'.repeat(64), '--url', 'ftp://x/'], /^--url must begin with http/]
    ] as const) {
      const { code, out, err } = await boltgate(...args)
      t.equal(code, 2, args.join(' '))
      t.match(err, message)
      t.match(err.split('\n', 1)[0], / \[BG_USAGE\]$/)
      t.equal(out, '')
    }
    t.same(requests, [])
  }
)

t.test('check, routes and docs describe a configuration', async t => {
  const folder = temporaryFolder(t)
  const good = join(folder, 'good.yaml')
  const bad = join(folder, 'bad.yaml')
  writeFileSync(good, defaultYaml())
  writeFileSync(bad, defaultYaml().replace('chain: paid', 'chain: payed').replace('mode: ', 'moed: '))
  const valid = await boltgate('check', '--config', good)
  t.equal(valid.code, 0)
  t.match(valid.out, /good\.yaml is valid: \d+ routes/)
  const broken = await boltgate('check', '-c', bad)
  t.equal(broken.code, 1)
  t.equal(broken.err.split('\n').filter(line => /bad\.yaml:\d+:\d+: /.test(line)).length, 2, broken.err)
  t.match(
    (await boltgate('routes', '-c', good)).out,
    /^METHOD +HOST +PATH[^]*any +any +\/demo\/\* +10 sats +demo +line \d+ +paid: correlation → /
  )
  t.match((await boltgate('docs')).out, /drainTimeout/)
})

t.test('tokens from before a rotation of the master secret still verify after it', async t => {
  const data = temporaryFolder(t)
  const config = join(data, 'gateway.yaml')
  writeFileSync(config, defaultYaml({ replace: [['"${BOLTGATE_DATA:-./data}"', JSON.stringify(data)]] }))
  const before = await startGateway(t, { data })
  const authorization = await buy(before, '/demo/quote')
  t.equal((await before.send('GET', '/demo/quote', { headers: { authorization } })).status, 200)
  const master = readFileSync(join(data, 'master.key'), 'utf8')
  t.match(await boltgate('keys', 'rotate', '-c', config), { code: 0, out: /new master secret/ })
  const rotated = readFileSync(join(data, 'master.key'), 'utf8')
  t.not(rotated.split('\n')[0], master.split('\n')[0])
  t.ok(rotated.includes(master.trim()), 'the old one stays below')
  t.match(await boltgate('keys', 'rotate', '--admin', '-c', config), { code: 0, out: /new admin key/ })
  const after = await startGateway(t, { data, database: before.database })
  t.equal((await after.send('GET', '/demo/quote', { headers: { authorization } })).status, 200)
  t.not(after.adminKey, before.adminKey)
  t.equal(after.merchant.apiKey, before.merchant.apiKey)
  t.equal((await after.merchantSend('GET', '/api/proxy')).status, 200)
})

/** What a shell offers for a line, as its own completion gives it. */
const OFFERS: Readonly<Record<string, (script: string, line: string) => readonly string[]>> = {
  bash: (script, line) => [
    '-c',
    'source "$1"; COMP_WORDS=($2); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _boltgate; printf "%s\\n" "${COMPREPLY[@]}"',
    'bash',
    script,
    line
  ],
  fish: (script, line) => ['-c', 'source $argv[1]; complete -C $argv[2]', script, line],
  // Without a terminal only the words given to zsh's own functions can be seen.
  zsh: (script, line) => [
    '-fc',
    '_describe() { print -rl -- ${(P)${@[-1]}} }; _files() { :; }; compdef() { :; }; source $1; words=(${=2}); CURRENT=$#words; PREFIX=$words[-1]; _boltgate',
    'zsh',
    script,
    line
  ]
}

for (const [shell, argsFor] of Object.entries(OFFERS)) {
  const isMissing = spawnSync(shell, ['-c', 'true']).error !== undefined
  t.test(
    `completion: ${shell} completes commands, words and flags`,
    { skip: isMissing && `install ${shell}` },
    async t => {
      const script = join(temporaryFolder(t), 'completion')
      writeFileSync(script, (await boltgate('completion', shell)).out)
      const offers = (line: string) => execFileSync(shell, argsFor(script, line), { encoding: 'utf8' })
      t.match(offers('boltgate p'), /^pay\b/m)
      t.match(offers('boltgate keys r'), /^rotate\b/m)
      t.match(offers('boltgate revoke --m'), /^--merchant\b/m)
      t.notMatch(offers('boltgate revoke --m'), /--admin/)
    }
  )
}
