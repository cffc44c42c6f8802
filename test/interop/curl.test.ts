/** curl, and a person who copies values from one command to the next. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { readChallengeLine } from '../../src/app/commands/mint.ts'
import { credentialOf } from '../support/gateway.ts'
import { programPath } from '../support/program-path.ts'
import { eachDoor, openShop } from './setting.ts'

const run = promisify(execFile)
const program = programPath('curl')
const skip = program === null ? 'curl is not installed' : false

/** Runs curl without whatever the user's own configuration says, and answers all that it printed. */
async function curl(...parameters: readonly string[]) {
  const { stdout } = await run(
    program ?? 'curl',
    ['--disable', '--silent', '--show-error', '--noproxy', '*', '--max-time', '30', ...parameters],
    { maxBuffer: 16 * 1024 * 1024 }
  )
  return stdout
}

function challengeIn(printed: string, scheme: 'l402' | 'payment') {
  for (const [, line = ''] of printed.matchAll(/^www-authenticate: (.*)\r$/gim)) {
    const challenge = readChallengeLine(line)
    if (challenge?.scheme === scheme) return challenge
  }
  throw new Error(`no ${scheme} challenge: ${printed}`)
}

t.test('curl', { skip }, async t => {
  const shop = await openShop(t)
  const { gateway, upstream } = shop

  async function paidCredential(url: string, scheme: 'l402' | 'payment', ...parameters: string[]) {
    const printed = await curl('--include', ...parameters, url)
    // nginx says 100 automatically; the gateway answers a client that waits for it immediately.
    if (!/^(HTTP\/1\.1 100 Continue\r\n\r\n)?HTTP\/1\.1 402 /.test(printed)) throw new Error(printed)
    const challenge = challengeIn(printed, scheme)
    const invoice = challenge.parameters.get('invoice') ?? ''
    const payment = JSON.parse(
      await curl(
        '-X',
        'POST',
        `${new URL(url).origin}/sandbox/pay`,
        '-H',
        'content-type: application/json',
        '-d',
        JSON.stringify({ invoice })
      )
    ) as { preimage: string }
    return credentialOf(challenge, payment.preimage)
  }

  await t.test('asks, pays and gets', async t => {
    await eachDoor(t, gateway, async (t, door) => {
      for (const path of [shop.quote, shop.operated, shop.proxied]) {
        for (const scheme of ['l402', 'payment'] as const) {
          const credential = await paidCredential(door.url + path, scheme)
          const printed = await curl('--include', '-H', `Authorization: ${credential}`, door.url + path)
          t.match(printed, /^HTTP\/1\.1 200 /, `${scheme} ${path}`)
          t.equal(/^payment-receipt: /im.test(printed), scheme === 'payment')
        }
      }
    })
  })

  await t.test('sends a body, which the challenge is bound to', async t => {
    await eachDoor(t, gateway, async (t, door) => {
      for (const path of [shop.operated, shop.proxied]) {
        const url = door.url + path
        const json = ['-H', 'content-type: application/json']
        const credential = await paidCredential(url, 'payment', ...json, '-d', '{"a":1}')
        t.match(
          await curl('--include', ...json, '-H', `Authorization: ${credential}`, '-d', '{"a":2}', url),
          /^HTTP\/1\.1 402 /,
          'another body'
        )
        t.match(
          await curl(
            '--include',
            ...json,
            '-H',
            `Authorization: ${credential}`,
            '-H',
            'transfer-encoding: chunked',
            '-d',
            '{"a":1}',
            url
          ),
          /^HTTP\/1\.1 200 /,
          'the same body, in chunks'
        )
        t.equal(upstream.received.at(-1)?.body, '{"a":1}')
      }
    })
  })

  await t.test('waits for 100 Continue before it sends a body, and pays before it has sent any', async t => {
    await eachDoor(t, gateway, async (t, door) => {
      const url = door.url + shop.operated
      const body = 'x'.repeat(100_000)
      const waiting = ['-H', 'Expect: 100-continue', '--expect100-timeout', '20', '-d', body]
      const credential = await paidCredential(url, 'payment', ...waiting)
      const printed = await curl('--include', '-H', `Authorization: ${credential}`, ...waiting, url)
      t.match(printed, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /)
      t.equal(upstream.received.at(-1)?.body, body)
    })
  })

  await t.test('uses one connection for several requests, paid and unpaid, with and without a body', async t => {
    await eachDoor(t, gateway, async (t, door) => {
      const url = door.url + shop.operated
      const credential = await paidCredential(url, 'l402')
      const paid = ['-H', `Authorization: ${credential}`]
      const tail = ['--output', '/dev/null', '--write-out', '%{http_code} %{num_connects}\n']
      const printed = await curl(
        ...tail,
        url,
        '--next',
        ...tail,
        ...paid,
        url,
        '--next',
        ...tail,
        '-d',
        'body',
        url,
        '--next',
        ...tail,
        ...paid,
        '-d',
        'body',
        url,
        '--next',
        ...tail,
        '--head',
        url,
        '--next',
        ...tail,
        ...paid,
        url
      )
      t.same(printed.trim().split('\n'), ['402 1', '200 0', '402 0', '200 0', '402 0', '200 0'])
    })
  })

  await t.test('a failed attempt costs nothing', async t => {
    for (const path of [shop.operated, shop.proxied]) {
      const credential = await paidCredential(gateway.url + path, 'payment')
      upstream.dieNext(1)
      for (const status of [502, 200, 402]) {
        t.match(
          await curl('--include', '-H', `Authorization: ${credential}`, gateway.url + path),
          new RegExp(`^HTTP/1\\.1 ${status} `),
          path
        )
      }
    }
  })
})
