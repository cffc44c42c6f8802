import { globSync, readFileSync } from 'node:fs'
import t from 'tap'
import { rootFolder, startGateway } from '../support/gateway.ts'
import { RawClient } from '../support/raw-client.ts'

/** Read by the front door before any header policy, or through a table of names. */
const FRONT_DOOR = ['authorization', 'connection', 'expect', 'payment', 'macaroon', 'x-payment', 'te', 'range']
/** Anything but one plain value of these is refused immediately. */
const REFUSED_EARLY = new Set(['host', 'content-length', 'upgrade', 'expect', 'connection'])
/** Where a reader's loops and expressions begin, so that the repeated part is reached. */
const STARTS: Readonly<Record<string, readonly string[]>> = {
  accept: ['text/html', 'text/html;q=', 'text/html;a="'],
  authorization: ['L402 ', 'LSAT ', 'Payment ', 'Bearer ', 'Payment a="', 'L402 a:'],
  cookie: ['a=', '__Host-a="'],
  forwarded: ['for=', 'for="'],
  'accept-payment': ['lightning/charge', 'a/b;q='],
  'content-type': ['text/a', 'text/a;b="'],
  'x-forwarded-for': ['1.2.3.4,']
}
const SPECIAL = ['=', ',', ';', ':', '"', '\\', ' ', '\t', '/', '.', '-', '%', '(', '*', 'a', '0', '\xa0', '\xff']
const PAIRED = ['=', ',', ';', ':', '"', '\\', ' ', '/', '.', 'a']
const PUMPS = [
  ...SPECIAL,
  ...PAIRED.flatMap(one => PAIRED.map(other => one + other)).filter(pair => pair[0] !== pair[1]),
  ';\t\t',
  '; ;',
  ',a/b;c=d',
  '=:',
  '\\"'
]
/** Most that a hostile head may cost, as a multiple of a plain one of the same size. */
const MOST = 20

/** Every header that something in the gateway reads by its name. */
function headersRead() {
  const names = new Set(FRONT_DOOR)
  for (const file of globSync('{src,plugins}/**/*.ts', { cwd: rootFolder }))
    for (const [, name = ''] of readFileSync(`${rootFolder}/${file}`, 'utf8').matchAll(
      /headers\.(?:get|all|has)\('([a-z0-9-]+)'/g
    ))
      names.add(name)
  return [...names].filter(name => !REFUSED_EARLY.has(name))
}

t.test('requests: no head costs more than another of its size, whatever is in it', async t => {
  const gateway = await startGateway(t)
  const port = Number(new URL(gateway.url).port)
  const headers = headersRead()
  t.ok(headers.length > 30, `${headers.length} headers are read`)

  /** CPU time of one request and its response, in microseconds. */
  const costOf = async (target: string, lines: readonly string[]) => {
    const client = await RawClient.connect(port)
    const before = process.cpuUsage()
    client.send(`GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${lines.join('\r\n')}\r\n\r\n`)
    await client.ending()
    const { user, system } = process.cpuUsage(before)
    client.close()
    return user + system
  }
  /** The least of at most 20 tries, the last of which is within the limit: this process may be collecting garbage. */
  const leastOf = async (target: string, lines: readonly string[], limit = 0) => {
    let least = Infinity
    for (let at = 0; at < 20 && least > limit; at++) least = Math.min(least, await costOf(target, lines))
    return least
  }
  const filled = (start: string, pump: string, size: number) =>
    (start + pump.repeat(size / pump.length)).slice(0, size - 1) + '!'
  const plain: Record<string, number> = {}
  const check = async (target: string, what: string, lines: readonly string[]) => {
    const size = String(lines.join().length >> 12)
    const limit = MOST * (plain[size] ??= await leastOf('/console', [`x-other: ${'a'.repeat(lines.join().length)}`]))
    const least = await leastOf(target, lines, limit)
    if (least > limit) t.fail(`${what} costs ${least} µs at ${target}, and ${limit} are allowed`)
  }

  for (const pump of PUMPS) {
    // Some readers look only at short values.
    for (const size of [1200, 40])
      for (const target of ['/console', '/demo/quote'])
        await check(
          target,
          `${JSON.stringify(pump)} in all`,
          headers.map(name => `${name}: ${filled(STARTS[name]?.[0] ?? '', pump, size)}`)
        )
    for (const [name, starts] of Object.entries(STARTS))
      for (const start of starts)
        for (const size of [70_000, 1800])
          await check('/demo/quote', `${name}: ${start}${JSON.stringify(pump)}`, [
            `${name}: ${filled(start, pump, size)}`
          ])
    await check('/console', `two lines of ${JSON.stringify(pump)}`, [
      `Authorization: LSAT ${filled('', pump, 70_000)}`,
      'Authorization: L402 x:y'
    ])
  }
  for (const pump of SPECIAL)
    for (const name of headers)
      // A page reads its session before its throttle.
      await check(name === 'cookie' ? '/console' : '/demo/quote', `${name}: ${JSON.stringify(pump)}`, [
        `${name}: ${filled('', pump, 70_000)}`
      ])
  t.pass('for all heads that were tried')
})
