/** Clients of model APIs in Python, as published, with a base URL and a paid key alone. */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { addCaveat, decodeMacaroonBase64, encodeMacaroon } from '../../../src/lightning/l402/macaroon.ts'
import { decodePaidKey, encodePaidKey } from '../../../src/lightning/l402/root-key.ts'
import { startModelServer } from '../../fakes/model.ts'
import { defaultYaml, startGateway, paidFor } from '../../support/gateway.ts'

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url))
const python = here('python/bin/python')
const skip = existsSync(python) ? false : 'the clients are not installed: run test/interop/python-keys/install.sh'

interface Said {
  readonly text?: string
  readonly error?: string
  readonly status?: number | null
}

/** Narrows a key as its holder does, without the gateway. */
function narrowed(key: string, caveat: string) {
  const { proof, macaroon } = decodePaidKey(key) ?? { proof: '', macaroon: '' }
  return encodePaidKey(Buffer.from(proof, 'hex'), encodeMacaroon(addCaveat(decodeMacaroonBase64(macaroon), caveat)))
}

t.test('paid keys in Python: valid, capped, expired, used up, topped up and revoked', { skip }, async t => {
  const model = await startModelServer(t)
  const gateway = await startGateway(t, {
    yaml: defaultYaml({
      replace: [
        [
          'routes:\n',
          `routes:
  - match: { path: /v1/chat/completions, method: POST }
    chain: paid
    upstream: { url: "${model.url}" }
    meter: { unit: token, bundle: 40 sats, prices: { input: 20 msat, output: 20 msat }, usage: openai, estimate: { input: 10, else: 20 } }
    keys: true
`
        ]
      ]
    })
  })
  const child = spawn(python, [here('client.py')], {
    env: { HOME: here('.'), PATH: '' },
    stdio: ['pipe', 'pipe', 'inherit']
  })
  t.teardown(() => child.stdin.end())
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const ask = async (library: string, key: string) => {
    child.stdin.write(`${JSON.stringify({ library, base: `${gateway.url}/v1`, key })}\n`)
    const line = await lines.next()
    return JSON.parse(line.value ?? '{}') as Said // client.py's own format
  }
  const buy = async (amount: number) => {
    const authorization = await paidFor(gateway, await gateway.send('POST', '/l402/keys', { body: { amount } }))
    const bought = await gateway.send('POST', '/l402/keys', { headers: { authorization } })
    return bought.json() as { key: string; paymentHash: string }
  }
  const useUp = async (library: string, key: string) => {
    for (let call = 0; call < 20; call++) {
      const said = await ask(library, key)
      if (said.text === undefined) return said
    }
    throw new Error('the balance was not used up')
  }

  for (const library of ['openai', 'langchain', 'litellm']) {
    await t.test(library, async t => {
      const { key, paymentHash } = await buy(3)
      const good = await ask(library, key)
      t.ok(good.text, `a response: ${good.error ?? ''}`)
      t.match((await ask(library, narrowed(key, 'budget_msat=1'))).error, /budget/i, 'capped')
      t.match((await ask(library, narrowed(key, 'model=large'))).error, /model/i, 'of another model')
      t.match((await ask(library, narrowed(key, 'expires=1'))).error, /expired/i, 'expired')
      t.ok((await ask(library, `${key.slice(0, -4)}AAAA`)).error, 'changed')
      const empty = await useUp(library, key)
      t.match(empty.error, /used up[^]*\/l402\/keys/, 'used up, and where to top up')
      const topUp = await gateway.send('POST', '/l402/keys/self/top-ups', {
        headers: { 'x-api-key': key },
        body: { amount: 5 }
      })
      await gateway.pay(/ln[a-z]+[0-9][a-z0-9]{100,}/.exec(topUp.text)?.[0] ?? '')
      await gateway.send('GET', '/l402/keys/self', { headers: { 'x-api-key': key } })
      const again = await ask(library, key)
      t.ok(again.text, `topped up: ${again.error ?? ''}`)
      const revoked = await gateway.adminSend('DELETE', `/api/admin/tokens/${paymentHash}`)
      t.equal(revoked.status, 204)
      t.match((await ask(library, key)).error, /revoked/i, 'revoked')
    })
  }
})
