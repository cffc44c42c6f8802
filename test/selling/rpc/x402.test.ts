/** x402 in MCP: payment asked for in results, paid in `_meta`, beside the Payment transport. */
import t, { type Test as T } from 'tap'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { mcpBinding } from '../../../src/lightning/codecs/x402.ts'
import { freePort } from '../../support/free-port.ts'
import { challengeOf, CREDENTIAL, openRpcShop, paying, RECEIPT, toolCall, type Rpc, type RpcShop } from './setting.ts'

const PAYMENT = 'x402/payment'
const RESPONSE = 'x402/payment-response'

interface Required {
  readonly x402Version: number
  readonly error?: string
  readonly resource: { readonly url: string }
  readonly accepts: ReadonlyArray<{
    readonly amount: string
    readonly extra: {
      readonly invoice: string
      readonly requestHash: string
      readonly requestBindingProfile: string
      readonly requestBindingParams: object
    }
  }>
}

async function openShop(t: T, schemes: string) {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const shop = await openRpcShop(t, {
    payment: `payment: { schemes: [ ${schemes} ] }\n`,
    env: { PORT: String(port), PUBLIC_URL: url }
  })
  return Object.assign(shop, { url: `${url}/mcp` })
}

/** What a tool's failed result asks for. */
function requiredIn({ result }: Rpc) {
  if (result?.isError !== true) throw new Error('the result asks for no payment')
  t.same(JSON.parse(result.content?.[0]?.text ?? ''), result.structuredContent, 'both forms are one')
  return result.structuredContent as Required
}

async function paid(shop: RpcShop, { accepts }: Required) {
  const [accepted] = accepts
  if (accepted === undefined) throw new Error('there is nothing to accept')
  return { x402Version: 2, accepted, payload: { preimage: await shop.gateway.pay(accepted.extra.invoice) } }
}

const withMeta = (name: string, meta: object, id: string | number = 1, more: object = {}) =>
  toolCall(name, id, { ...more, _meta: meta })

t.test('x402 before Payment: tools ask for payment in their results', async t => {
  const shop = await openShop(t, 'l402, x402, payment')
  const answer = await shop.post(toolCall('cheap', 7))
  t.notOk('payment-required' in answer.headers, 'a call is never bound as an HTTP request')
  const response = answer.json() as Rpc
  t.match(response, { id: 7, result: { resultType: 'complete' } })
  const required = requiredIn(response)
  t.match(required, {
    x402Version: 2,
    error: 'Payment required',
    resource: { url: 'mcp://tool/cheap' },
    accepts: [
      {
        scheme: 'exact',
        amount: '2000',
        extra: {
          requestBindingProfile: 'mcp:1',
          requestBindingParams: { server: shop.url, metadata: [] },
          requestHash: mcpBinding({ server: shop.url, name: 'cheap', argumentsText: '{"text":"hi"}' }).requestHash
        }
      }
    ]
  })
  const [accepted] = required.accepts
  t.equal(decodeInvoice(accepted?.extra.invoice ?? '').descriptionHash, accepted?.extra.requestHash)
  const payment = await paid(shop, required)

  const other = await shop.call(withMeta('costly', { [PAYMENT]: payment }, 8))
  t.equal(requiredIn(other).error, 'invalid_exact_lnbtc_request_mismatch')
  t.match(other.result?._meta?.[RESPONSE], { success: false, transaction: '' })
  const changed = await shop.call(withMeta('cheap', { [PAYMENT]: payment }, 8, { arguments: { text: 'ho' } }))
  t.equal(requiredIn(changed).error, 'invalid_exact_lnbtc_request_mismatch')

  const bought = await shop.call(
    withMeta('cheap', { progressToken: 3, [PAYMENT]: payment }, 'other id', { arguments: { text: 'hi' } })
  )
  t.match(bought.result?._meta?.[RESPONSE], { success: true, transaction: /^[0-9a-f]{64}$/, network: /^lnbtc:/ })
  t.notOk(RECEIPT in (bought.result?._meta ?? {}))
  t.notMatch(shop.received.at(-1)?.body, /x402/, 'the server sees no payment')
  t.match(shop.received.at(-1)?.body, /progressToken/)
  const again = await shop.call(withMeta('cheap', { [PAYMENT]: payment }))
  t.equal(requiredIn(again).error, 'duplicate_settlement')
  t.match(requiredIn(await shop.call(withMeta('cheap', { [PAYMENT]: 7 }))).error, 'invalid_payload')
  t.equal(shop.received.length, 1)
})

t.test('x402 before Payment: clients of Payment get their own challenge', async t => {
  const shop = await openShop(t, 'x402, l402, payment')
  const challenge = challengeOf(await shop.call(toolCall('cheap'), { 'accept-payment': 'lightning/charge' }))
  const credential = await shop.pay(challenge)
  const bought = await shop.call(paying(toolCall('cheap'), credential))
  t.match(bought.result?._meta?.[RECEIPT], { status: 'success' })
  const wrong = await shop.call(paying(toolCall('cheap'), credential))
  t.equal(wrong.error?.code, -32043)
  const prompt = { jsonrpc: '2.0', id: 1, method: 'prompts/get', params: { name: 'any' } }
  t.equal(await shop.code(prompt), -32042, 'x402 binds tools alone')
})

t.test('x402 behind Payment: only clients that name x402 get it', async t => {
  const shop = await openShop(t, 'l402, payment, x402')
  t.equal(await shop.code(toolCall('cheap')), -32042)
  const extension = {
    'io.modelcontextprotocol/clientCapabilities': { extensions: { 'org.x402/payment': {} } }
  }
  const asked = await shop.call(withMeta('cheap', extension))
  t.equal(asked.result?.resultType, 'payment_required')
  const payment = await paid(shop, asked.result?.paymentRequired as Required)
  t.match((await shop.call(withMeta('cheap', { ...extension, [PAYMENT]: payment }))).result?._meta?.[RESPONSE], {
    success: true
  })
  const refused = await shop.call(withMeta('cheap', { ...extension, [PAYMENT]: payment }))
  t.match(refused.result, {
    resultType: 'payment_required',
    paymentRequired: { error: 'duplicate_settlement' },
    _meta: { [RESPONSE]: { success: false, errorReason: 'duplicate_settlement' } }
  })
  const credential = await shop.buy(toolCall('cheap'))
  t.equal(await shop.code(withMeta('cheap', { [PAYMENT]: payment, [CREDENTIAL]: credential })), -32602)
  const header = { 'payment-signature': Buffer.from(JSON.stringify(payment)).toString('base64') }
  t.equal(await shop.code(withMeta('cheap', { [PAYMENT]: payment }), header), -32602)
})

t.test('x402: what cannot be bound is sold by Payment', async t => {
  const shop = await openShop(t, 'l402, x402, payment')
  for (const [more, why] of [
    [{ arguments: null }, 'null for arguments'],
    [{ arguments: [] }, 'a list of arguments'],
    [{ arguments: { text: 'x'.repeat(70_000) } }, 'long arguments'],
    [{ _meta: null }, 'metadata of another type']
  ] as const)
    t.equal(await shop.code(toolCall('cheap', 1, more)), -32042, why)
  for (const value of ['9007199254740993', '1e999', `[${Array(9_000).fill(1).join()}]`]) {
    const raw = JSON.stringify(toolCall('cheap')).replace('"hi"', value)
    t.equal(((await shop.post(raw)).json() as Rpc).error?.code, -32042, value.slice(0, 20))
  }
  requiredIn(await shop.call({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'cheap' } }))
})

t.test('x402: servers announce the extension, and know nothing of it where it is off', async t => {
  const discover = { jsonrpc: '2.0', id: 1, method: 'server/discover' }
  const on = await openShop(t, 'l402, payment, x402')
  t.match((await on.call(discover)).result?.capabilities, { extensions: { 'org.x402/payment': {} } })
  t.match((await on.call({ ...discover, method: 'initialize' })).result?.capabilities, { experimental: {} })
  const off = await openShop(t, 'l402, payment')
  t.notOk((await off.call(discover)).result?.capabilities)
  for (const meta of [
    { [PAYMENT]: 1, [CREDENTIAL]: 2 },
    { kept: 0, [PAYMENT]: 1, [CREDENTIAL]: 2 },
    { [CREDENTIAL]: 2, [PAYMENT]: 1, kept: 0 }
  ]) {
    await on.call(withMeta('open', meta))
    const forwarded = JSON.parse(on.received.at(-1)?.body ?? '') as Rpc
    t.same(forwarded.params?._meta, 'kept' in meta ? { kept: 0 } : {}, 'two payments of a free call are kept here')
  }
  await off.call(withMeta('open', { [PAYMENT]: { of: 'the server' } }))
  t.match(off.received.at(-1)?.body, /of the server|the server/, "another service's payment passes")
})

t.test('x402: one payment buys one call over both transports', async t => {
  const shop = await openShop(t, 'l402, x402, payment')
  for (let round = 1; round < 4; round++) {
    const required = requiredIn(await shop.call(toolCall('cheap')))
    const payment = await paid(shop, required)
    const calls = await Promise.all(
      Array.from({ length: 5 }, () => shop.call(withMeta('cheap', { [PAYMENT]: payment })))
    )
    t.equal(calls.filter(({ result }) => result !== undefined && result.isError !== true).length, 1)
    t.equal(shop.received.length, round)
  }
})
