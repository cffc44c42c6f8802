/** The official MCP client and the reference server, through a running gateway, as the documentation shows it. */
import { writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { freePort } from '../support/free-port.ts'
import { temporaryFolder } from '../support/database.ts'
import { documented } from '../support/documents.ts'
import { startGateway } from '../support/gateway.ts'
import {
  hasMcpSdk,
  loadMcpSdk,
  startEverything,
  type CallParameters,
  type McpClient,
  type ToolResult
} from './mcp-sdk.ts'
import { lightningMethod, loadMppx, mppxProgram } from './mppx-client.ts'
import { sandboxWallet } from './setting.ts'

const skip = hasMcpSdk() ? false : 'the MCP client is not installed: run npm ci --prefix test/interop/mcp'
const RECEIPT = 'org.paymentauth/receipt'

type CallPaid = (
  client: McpClient,
  params: CallParameters,
  pay: (invoice: string) => Promise<string>
) => Promise<ToolResult>

t.test('MCP clients as published', { skip }, async t => {
  const origin = await startEverything(t)
  const yaml = documented('mcp-tools.yaml')
  t.ok(yaml.includes('http://127.0.0.1:3001'))
  const gateway = await startGateway(t, { yaml: yaml.replace('http://127.0.0.1:3001', origin) })
  const { Client, StreamableHTTPClientTransport } = await loadMcpSdk()
  const file = join(temporaryFolder(t), 'call-paid.mjs')
  writeFileSync(file, documented('call-paid.mjs'))
  const { callPaid } = (await import(pathToFileURL(file).href)) as { callPaid: CallPaid } // the page's own block
  const address = new URL(`${gateway.url}/mcp`)
  const sum: CallParameters = { name: 'get-sum', arguments: { a: 2, b: 3 } }

  async function connected(fetch?: (input: string | Request, init?: RequestInit) => Promise<Response>) {
    const transport = new StreamableHTTPClientTransport(address, fetch === undefined ? {} : { fetch })
    const client = new Client({ name: 'buyer', version: '1.0.0' })
    await client.connect(transport)
    return {
      client,
      async end() {
        await transport.terminateSession()
        await client.close()
      }
    }
  }

  t.test('the official client pays with the lines of the page, and calls what is free as ever', async t => {
    const wallet = sandboxWallet(gateway)
    const pay = async (invoice: string) => (await wallet.payInvoice({ invoice })).preimage
    const { client, end } = await connected()
    t.same(client.getServerCapabilities()?.experimental, {
      payment: { methods: { lightning: { intents: ['charge'] } } }
    })
    t.ok((await client.listTools()).tools.some(({ name }) => name === 'get-sum'))
    t.match(await client.callTool({ name: 'echo', arguments: { message: 'hi' } }), { content: [{ text: 'Echo: hi' }] })
    await t.rejects(client.callTool(sum), { code: -32042 })
    const result = await callPaid(client, sum, pay)
    t.match(result.content[0]?.text, '5')
    t.match(result._meta?.[RECEIPT], { status: 'success', method: 'lightning', reference: /^[0-9a-f]{64}$/ })
    t.equal(wallet.paid.length, 1)
    const image = await callPaid(client, { name: 'get-tiny-image', arguments: {} }, pay)
    t.ok(image.content.some(({ type }) => type === 'image'))
    t.match(await callPaid(client, { name: 'echo', arguments: { message: 'free' } }, pay), {
      content: [{ text: 'Echo: free' }]
    })
    t.equal(wallet.paid.length, 2, 'nothing is paid for what is free')
    await end()
  })

  t.test('wrong arguments are reported by the tool', async t => {
    const wallet = sandboxWallet(gateway)
    const pay = async (invoice: string) => (await wallet.payInvoice({ invoice })).preimage
    const { client, end } = await connected()
    const failed = await callPaid(client, { name: 'get-sum', arguments: { a: 'two' } }, pay)
    t.match(failed, { isError: true, _meta: { [RECEIPT]: { status: 'success' } } }, 'it has run')
    await end()
  })

  t.test('the official client pays by x402 in results and metadata', async t => {
    const port = await freePort()
    const url = `http://127.0.0.1:${port}`
    const shop = await startGateway(t, {
      yaml: `${yaml.replace('http://127.0.0.1:3001', origin)}\npayment: { schemes: [ x402, payment, l402 ] }\nserver: { listen: "127.0.0.1:${port}", publicUrl: "${url}" }\n`
    })
    const client = new Client({ name: 'buyer', version: '1.0.0' })
    await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)))
    const asked = await client.callTool(sum)
    t.equal(asked.isError, true)
    const { accepts } = JSON.parse(asked.content[0]?.text ?? '') as { accepts: [{ extra: { invoice: string } }] }
    const [accepted] = accepts
    const payment = {
      x402Version: 2,
      accepted,
      payload: { preimage: await shop.pay(accepted.extra.invoice) }
    }
    const result = await client.callTool({ ...sum, _meta: { 'x402/payment': payment } })
    t.match(result.content[0]?.text, '5')
    t.match(result._meta?.['x402/payment-response'], { success: true })
    await client.close()
  })

  const noMppx = mppxProgram() === null ? 'mppx is not installed: run npm ci --prefix test/interop/mppx' : false
  t.test('mppx pays for the official client', { skip: noMppx }, async t => {
    const mppx = await loadMppx()
    const entry = createRequire(new URL('mppx/package.json', import.meta.url)).resolve('mppx/mcp/client')
    // What it exports is unknown to the type checker here.
    const { McpClient: wrapper } = (await import(pathToFileURL(entry).href)) as {
      McpClient: { wrap(client: McpClient, config: { readonly methods: readonly object[] }): McpClient }
    }
    const wallet = sandboxWallet(gateway)
    const method = lightningMethod(mppx, async invoice => (await wallet.payInvoice({ invoice })).preimage)

    await t.test('around its callTool', async t => {
      const { client, end } = await connected()
      const result = await wrapper.wrap(client, { methods: [method] }).callTool(sum)
      t.match(result, { content: [{ text: /5/ }], receipt: { status: 'success', challengeId: /./ } })
      t.equal(wallet.paid.length, 1)
      await end()
    })

    await t.test('and as the fetch of its transport', async t => {
      const { fetch } = mppx.Mppx.create({ methods: [method], polyfill: false })
      const { client, end } = await connected((input, init) =>
        fetch(input instanceof URL ? String(input) : input, init)
      )
      const result = await client.callTool(sum)
      t.match(result.content[0]?.text, '5')
      t.match(result._meta?.[RECEIPT], { status: 'success' })
      t.equal(wallet.paid.length, 2)
      await end()
    })
  })
})
