import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { loadConfigText } from '../../src/engine/config/load.ts'

t.test('npm run fakes says how to point gateway.yaml at them, pays manually, and ends on Ctrl-C', async t => {
  const child = spawn(process.execPath, [fileURLToPath(new URL('run.ts', import.meta.url)), '0'], {
    stdio: ['pipe', 'pipe', 'inherit']
  })
  t.teardown(() => {
    child.kill('SIGKILL')
  })
  const lines: string[] = []
  const reader = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const until = async (wanted: RegExp): Promise<string> => {
    for (;;) {
      const { value, done } = await reader.next()
      if (done === true) throw new Error(`it ended before it said ${wanted}:\n${lines.join('\n')}`)
      lines.push(value)
      if (wanted.test(value)) return value
    }
  }
  await until(/Ctrl-C/)
  const from = lines.indexOf('lightning:')
  const to = lines.findIndex((line, index) => index > from && line === '')
  const config = await loadConfigText('gateway.yaml', lines.slice(from, to).join('\n'), {})
  t.match(config, {
    lightning: { primary: [{ kind: 'strike' }], alternate: [{ kind: 'opennode' }] }
  })
  const [{ url = '', key = '' } = {}] = config.lightning.alternate
  const answer = await fetch(`${url}/v1/charges`, {
    method: 'POST',
    headers: { authorization: key, 'content-type': 'application/json' },
    body: JSON.stringify({ amount: 1000, description: 'Tea' })
  })
  const { data } = (await answer.json()) as { data: { lightning_invoice: { payreq: string } } }
  child.stdin.write(`pay ${data.lightning_invoice.payreq}\n`)
  t.match(await until(/preimage/), /^paid at opennode; preimage [0-9a-f]{64}$/)
  child.stdin.write('pay lnbc1nonsense\n')
  await until(/could not be paid/)
  const spot = await fetch(`${config.prices.urls.coinbase}/v2/prices/BTC-USD/spot`)
  t.equal(spot.status, 200)
  const ended = once(child, 'exit')
  child.kill('SIGINT')
  t.same(await ended, [0, null])
})
