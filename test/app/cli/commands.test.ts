import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { main } from '../../../src/app/main.ts'
import { startFakeNwc } from '../../fakes/nwc.ts'
import { temporaryFolder } from '../../support/database.ts'
import { buy, defaultYaml, startGateway } from '../../support/gateway.ts'
import { serve } from '../../support/serve.ts'

async function run(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const out: string[] = []
  const err: string[] = []
  const code = await main(args, {
    print: line => {
      out.push(line)
    },
    complain: line => {
      err.push(line)
    }
  })
  return { code, out: out.join('\n'), err: err.join('\n') }
}

t.test('pay walks through 402, payment and 200 for each scheme', async t => {
  const gateway = await startGateway(t)
  for (const scheme of ['l402', 'payment']) {
    const { code, out, err } = await run('pay', `${gateway.url}/demo/quote`, '--scheme', scheme)
    t.equal(code, 0, err)
    t.match(
      out,
      /^> GET [^]*< 402\n[^]*www-authenticate: L402 [^]*Paid; the preimage is [0-9a-f]{64}\n[^]*> Authorization: [^]*< 200\n/,
      scheme
    )
    t.match(out, scheme === 'l402' ? /Authorization: L402 / : /payment-receipt: /)
  }
  const posted = await run('pay', `${gateway.url}/demo/echo`, '-X', 'POST', '-d', '{"a":1}', '-H', 'X-A: b')
  t.match(posted.out, /^> POST /)
  t.equal((await run('pay', `${gateway.url}/health`)).code, 0, 'nothing to pay')
  t.equal((await run('pay', `${gateway.url}/nothing`)).code, 1)

  const minted = await run('mint', '--count', '2', '--url', gateway.url)
  t.equal(minted.code, 0, minted.err)
  const credentials = minted.out.split('\n')
  t.equal(new Set(credentials).size, 2, 'two different ones')
  for (const authorization of credentials)
    t.equal((await gateway.send('GET', '/demo/quote', { headers: { authorization } })).status, 200)
  const modern = await run(
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
  t.equal(new Set(modern.out.split('\n')).size, 3, 'three different ones, though two were asked for at once')
  for (const authorization of modern.out.split('\n')) {
    const send = (): ReturnType<typeof gateway.send> =>
      gateway.send('POST', '/demo/echo', { headers: { authorization }, body: { a: 1 } })
    const answers = [await send(), await send()]
    t.same(
      answers.map(({ status }) => status),
      [200, 402],
      'each is good once'
    )
  }
})

t.test('what is called wrongly ends with 2 and says why', async t => {
  for (const [args, message] of [
    [['nonsense'], /^There is no command "nonsense"\. \[BG_USAGE\]\n\nboltgate, /],
    [['strat'], /^There is no command "strat"\. Did you mean "start"\? \[BG_USAGE\]\n/],
    [['check', '--confg', 'x'], /^Unknown option '--confg'\. Did you mean "--config"\? \[BG_USAGE\]\n/],
    [['pay'], /^pay needs one URL, and there is none\. /],
    [['pay', 'a', 'b'], /^pay needs one URL, not "a b"\. /],
    [['pay', 'not a url'], /^URL is an address that begins with http/],
    [['revoke'], /^revoke needs a payment hash, a credential, --proxy or --merchant\. /],
    [['revoke', 'L402', 'a:b'], /^revoke takes one of .* at a time; a credential .* in quotes\. /],
    [['revoke', '--proxy', 'a', '--merchant', '1'], /^revoke takes one of .* at a time/],
    [['key'], /^key needs the kind of the node: lnd\. /],
    [['key', 'foo'], /^key knows the folders of lnd, not of "foo"\. /],
    [['key', 'ldn'], /^key knows the folders of lnd, not of "ldn"\. Did you mean "lnd"\? /],
    [['key', 'lnd', 'x'], /^key takes nothing behind lnd but options, not "x"\. /],
    [['keys', 'foo'], /^keys needs what to do, which is rotate or adopt, not "foo"\. /],
    [['pay', 'http://127.0.0.1:1/', '--scheme', 'cash'], /--scheme is l402 or payment/],
    [['pay', 'http://127.0.0.1:1/', '-H', 'nothing'], /-H takes/],
    [['check', '--nonsense'], /nonsense/],
    [['start', 'gateway.yaml'], /^Unexpected argument "gateway\.yaml"\. Did you mean --config gateway\.yaml\? /],
    [['test'], /^test needs what to test, which is provider\. /],
    [['merchant', 'create', '--name', 'A'], /^merchant create needs --email\. /],
    [['completion', 'csh'], /^completion needs a shell: bash, zsh, fish\. /],
    [
      ['pay', 'http://127.0.0.1:1/', '--wallet', 'nostr+walletconnect://x'],
      /^--wallet: The nwc key must have the form /
    ],
    [['check', '--config', 'no-such.yaml'], /There is no file no-such\.yaml/],
    [['mint', '--count', 'many'], /--count is a whole number/],
    [['mint', '--parallel', '0'], /--parallel is a whole number from 1 to 256/],
    [['mint', '--scheme', 'cash'], /--scheme is l402 or payment/],
    [['keys'], /^keys needs what to do, which is rotate or adopt, and there is nothing\. /]
  ] as const) {
    const { code, out, err } = await run(...args)
    t.equal(code, 2, args.join(' '))
    t.match(err, message)
    t.match(err.split('\n', 1)[0], / \[BG_USAGE\]$/)
    t.equal(out, '')
  }
  t.equal((await run()).code, 2)
  t.equal((await run('--help')).code, 0)
  for (const command of ['start', 'check', 'routes', 'pay', 'mint', 'revoke', 'keys', 'openapi', 'docs'])
    t.match((await run(command, '--help')).out, new RegExp(`^Usage: boltgate ${command}`))
  t.match((await run('help', 'start')).out, /^Usage: boltgate start[^]*\nExamples:\n/)
  t.match((await run()).out, /Commands:\n {2}init +Writes a gateway\.yaml/)
  t.match(await run('version'), { code: 0, out: /^\d+\.\d+\.\d+$/ })
  const away = await run('pay', 'http://127.0.0.1:1/')
  t.equal(away.code, 1)
  t.match(away.err, /ECONNREFUSED|could not|bad port/i)
  t.match(away.err, /\[BG_NOT_REACHED\]/)
  for (const command of ['pay', 'mint']) {
    const unknown = await run(command, ...(command === 'mint' ? ['--url'] : []), 'http://no.such.host.invalid/')
    t.equal(unknown.code, 1)
    t.match(unknown.err, /^http:\/\/no\.such\.host\.invalid cannot be reached: .* \[BG_NOT_REACHED\]$/, command)
  }
})

t.test('pay: a real wallet pays over Nostr Wallet Connect, up to --max', async t => {
  const [seller, buyer] = [await startFakeNwc(), await startFakeNwc()]
  t.teardown(() => Promise.all([seller.close(), buyer.close()]))
  // A payee reveals the preimage to whoever pays.
  buyer.preimages.get = hash => seller.wallet.invoices.get(hash)?.preimage
  const gateway = await startGateway(t, {
    yaml: defaultYaml({ replace: [['primary:   { kind: sandbox }', 'primary: { kind: nwc, key: "${NWC}" }']] }),
    env: { NWC: seller.key() }
  })
  const refused = await run('pay', `${gateway.url}/demo/quote`, '--wallet', buyer.key(), '--max', '9')
  t.match(refused, { code: 1, err: /asks for 10 sats, more than --max allows \(9 sats\)\. Nothing was paid/ })
  t.equal(buyer.wallet.sendings, 0)
  const paid = await run('pay', `${gateway.url}/demo/quote`, '--wallet', buyer.key())
  t.match(paid, { code: 0, out: /with your wallet\nPaid; the preimage is [0-9a-f]{64}\n[^]*< 200\n/ }, paid.err)
  t.notMatch(paid.out + paid.err, new URL(buyer.key()).searchParams.get('secret') ?? '')
})

t.test('test provider: says of each key whether it makes invoices', async t => {
  const wallet = await startFakeNwc()
  t.teardown(() => wallet.close())
  const file = join(temporaryFolder(t), 'gateway.yaml')
  writeFileSync(file, `lightning: { primary: { kind: nwc, key: "${wallet.key()}" } }\nroutes: []\n`)
  t.match(await run('test', 'provider', '-c', file), { code: 0, out: /^ok +primary nwc: .*\nok +alternate sandbox: / })
  writeFileSync(
    file,
    `lightning: { primary: { kind: phoenixd, key: "phoenixd://127.0.0.1:1?password=a" } }\nroutes: []\n`
  )
  t.match(await run('test', 'provider', '-c', file), { code: 1, out: /^FAILED +primary phoenixd: .*not tested/ })
})

t.test('merchant create: an account on a running gateway, with a key that works', async t => {
  const gateway = await startGateway(t)
  const file = join(gateway.data, 'gateway.yaml')
  writeFileSync(file, `data: ${gateway.data}\nroutes: []\n`)
  const made = await run(
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
    await run('merchant', 'create', '--name', 'Ada', '--email', 'a@example.com', '--url', gateway.url, '-c', file),
    { code: 1, err: /answered 409/ }
  )
})

t.test('completion: bash completes commands, their words and their flags', async t => {
  const { out } = await run('completion', 'bash')
  const complete = (...words: readonly string[]): string[] =>
    execFileSync('bash', [
      '-c',
      `${out}\nCOMP_WORDS=(boltgate "$@"); COMP_CWORD=$#; _boltgate; echo "\${COMPREPLY[@]}"`,
      'bash',
      ...words
    ])
      .toString()
      .trim()
      .split(' ')
  t.same(complete('ke'), ['key', 'keys'])
  t.same(complete('keys', 'r'), ['rotate'])
  t.ok(complete('init', '--').includes('--production'))
  t.match((await run('completion', 'zsh')).out, /^#compdef boltgate\n[^]*'init:Writes/)
  t.match((await run('completion', 'fish')).out, /-a merchant -d 'Creates a merchant\\'s account'/)
})

t.test('what is answered otherwise than a command needs is told with its code', async t => {
  let reply: { status: number; headers: Record<string, string>; text: string } = { status: 200, headers: {}, text: '' }
  const server = createServer((req, res) => {
    if (req.url === '/sandbox/pay') return res.end('<html>')
    res.writeHead(reply.status, reply.headers)
    res.end(reply.text)
  })
  const port = await serve(t, server)
  const url = `http://127.0.0.1:${port}`
  t.match(await run('mint', '--url', url), {
    code: 1,
    err: /answered 200, not 402: nothing more \[BG_OTHER_RESPONSE\]$/
  })
  t.match(await run('pay', `https://127.0.0.1:${port}/`), {
    code: 1,
    err: /speaks no TLS.* \(is it http:\/\/ and not https:\/\/\?\).* \[BG_NOT_REACHED\]$/
  })
  reply = { status: 429, headers: { 'retry-after': '500' }, text: '' }
  t.match(await run('mint', '--url', url), { code: 1, err: /asks to wait 500 seconds; .* \[BG_OTHER_RESPONSE\]$/ })
  reply = { status: 402, headers: {}, text: '' }
  t.match(await run('mint', '--url', url), {
    code: 1,
    err: /no l402 challenge; .*--scheme payment\. \[BG_OTHER_RESPONSE\]$/
  })
  t.match(await run('pay', url), { code: 1, err: /no l402 challenge; .*--scheme payment\. \[BG_OTHER_RESPONSE\]$/ })
  reply = { status: 402, headers: { 'www-authenticate': 'L402 macaroon="AA", invoice="lnbc1"' }, text: '' }
  for (const args of [
    ['pay', url],
    ['mint', '--url', url]
  ])
    t.match(await run(...args), {
      code: 1,
      err: /could not be paid: http:.*\/sandbox\/pay answered 200: <html> \[BG_OTHER_RESPONSE\]\nOnly the sandbox can be paid/
    })
})

t.test('what cannot be asked is told by its option before anything is asked, so that no invoice is left', async t => {
  const asked: string[] = []
  const server = createServer((req, res) => {
    asked.push(req.url ?? '')
    res.statusCode = 402
    res.end()
  })
  const url = `http://127.0.0.1:${await serve(t, server)}/`
  for (const [args, message] of [
    [['pay', 'ftp://x/'], /^URL is an address that begins with http:/],
    [['pay', url, '--wallet', 'x'], /^--wallet is an address that begins with http:/],
    [['pay', url, '--wallet', 'ftp://x/'], /^--wallet is an address that begins with http:/],
    [['pay', url, '-X', 'B AD'], /^-X is a method such as POST, not "B AD"/],
    [['pay', url, '-X', 'CONNECT'], /^-X cannot be CONNECT/],
    [['pay', url, '-H', 'X-Ä: ü'], /^-H takes 'Name: value', and no header can have the name "x-ä"/],
    [['pay', url, '-H', 'X-A: €'], /^-H takes values in Latin-1 .* x-a /],
    [['pay', url, '-H', 'Expect: 100-continue'], /^-H cannot be expect/],
    [['pay', url, '-H', 'Content-Length: 3'], /^-H cannot be content-length/],
    [['mint', '--url', url, '-X', 'B AD'], /^-X is a method/],
    [['mint', '--url', 'ftp://x/'], /^--url is an address/],
    [['revoke', '0'.repeat(64), '--url', 'ftp://x/'], /^--url is an address/]
  ] as const) {
    const { code, out, err } = await run(...args)
    t.equal(code, 2, args.join(' '))
    t.match(err, message)
    t.match(err.split('\n', 1)[0], / \[BG_USAGE\]$/)
    t.equal(out, '')
  }
  t.same(asked, [])
})

t.test('check, routes, docs and openapi describe a configuration', async t => {
  const folder = temporaryFolder(t)
  const good = join(folder, 'good.yaml')
  const bad = join(folder, 'bad.yaml')
  writeFileSync(good, defaultYaml())
  writeFileSync(bad, defaultYaml().replace('chain: paid', 'chain: payed').replace('mode: ', 'moed: '))
  const valid = await run('check', '--config', good)
  t.equal(valid.code, 0)
  t.match(valid.out, /good\.yaml is valid: \d+ routes/)
  const broken = await run('check', '-c', bad)
  t.equal(broken.code, 1)
  t.equal(broken.err.split('\n').filter(line => /bad\.yaml:\d+:\d+: /.test(line)).length, 2, broken.err)
  t.match(
    (await run('routes', '-c', good)).out,
    /^METHOD +HOST +PATH[^]*any +any +\/demo\/\* +10 sats +demo +line \d+ +paid: correlation → /
  )
  t.match((await run('docs')).out, /drainTimeout/)
  const described = await run('openapi', '-c', good)
  t.match(JSON.parse(described.out), { openapi: /^3\.1/ })
})

t.test('tokens from before a rotation of the master secret still verify after it', async t => {
  const data = temporaryFolder(t)
  const config = join(data, 'gateway.yaml')
  writeFileSync(config, defaultYaml({ replace: [['"${BOLTGATE_DATA:-./data}"', JSON.stringify(data)]] }))
  const before = await startGateway(t, { data })
  const authorization = await buy(before, '/demo/quote')
  t.equal((await before.send('GET', '/demo/quote', { headers: { authorization } })).status, 200)
  const master = readFileSync(join(data, 'master.key'), 'utf8')
  t.match(await run('keys', 'rotate', '-c', config), { code: 0, out: /new master secret/ })
  const rotated = readFileSync(join(data, 'master.key'), 'utf8')
  t.not(rotated.split('\n')[0], master.split('\n')[0])
  t.ok(rotated.includes(master.trim()), 'the old one stays below')
  t.match(await run('keys', 'rotate', '--admin', '-c', config), { code: 0, out: /new admin key/ })
  const after = await startGateway(t, { data, database: before.database })
  t.equal((await after.send('GET', '/demo/quote', { headers: { authorization } })).status, 200)
  t.not(after.adminKey, before.adminKey)
  t.equal(after.merchant.apiKey, before.merchant.apiKey)
  t.equal((await after.merchantSend('GET', '/api/proxy')).status, 200)
})
