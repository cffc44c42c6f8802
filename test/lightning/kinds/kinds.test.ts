import { createHash, hash } from 'node:crypto'
import { globSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import t from 'tap'
import { ConfigError } from '../../../src/engine/config/diagnose.ts'
import { jsonSchema } from '../../../src/engine/config/json-schema.ts'
import { referencePage } from '../../../src/engine/config/reference.ts'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import type { KindOptions, ProviderKind } from '../../../src/lightning/kinds/kind.ts'
import { lightningCharge } from '../../../src/lightning/provider-calls/lightning-charge.ts'
import { providerKinds } from '../../../src/lightning/kinds/kinds.ts'
import { walletProvider } from '../../../src/lightning/provider-calls/wallet-provider.ts'
import { loadText, startGateway } from '../../support/gateway.ts'
import { newInvoice } from '../../support/invoices.ts'

/** The least that a kind is: it receives, and every invoice of it was paid as soon as it was made. */
const openToy = ({ budget, clock }: KindOptions) =>
  walletProvider<readonly [key: string]>(
    'toy',
    {
      within: async (key, run) => {
        await budget?.spend(undefined, key?.reveal() ?? null, 'keyed')
        return await run(key?.reveal() ?? '')
      },
      close: async () => {}
    },
    {
      payout: null,
      createCharge: async ({ amountSats, description, expirySeconds }, key) => {
        const paymentHash = hash('sha256', hash('sha256', `toy ${key}`, 'buffer'))
        const { invoice } = newInvoice({ at: clock.now(), amountSats, paymentHash, description, expirySeconds })
        return { ...lightningCharge(invoice, paymentHash, amountSats), chargeId: `toy_${paymentHash}` }
      },
      isChargeId: () => true,
      lookUp: async () => ({ status: 'paid', receivedSats: null, settledAt: clock.now() }),
      checkKey: async () => ({ isValid: true, message: 'A toy takes any key.' })
    }
  )

const toy: ProviderKind = {
  name: 'toy',
  isSandbox: false,
  calls: {
    address: null,
    counted: 'address',
    limits: () => ({ ofAddress: {}, ofAccount: { burst: 100, perMinute: 100 } }),
    polling: () => ({ perMinute: 60, isShared: false, costs: { list: 1, lookUp: 1 } }),
    hostOf: key => key?.reveal() ?? ''
  },
  onlyReceives: true,
  about: 'a toy',
  keyHint: 'toy://name',
  keyFault: key => (key.startsWith('toy://') ? undefined : 'found no address of a toy; allowed: toy://name'),
  open: openToy
}
const kinds: readonly ProviderKind[] = [...providerKinds, toy]

const yaml = (slot: string) => `lightning:
  primary: { kind: ${slot} }
routes:
  - match: { path: /demo/quote }
    chain: paid
    price: 21 sats
    upstream: { internal: demo }
server: { listen: "127.0.0.1:\${PORT:-0}" }
data: "\${BOLTGATE_DATA:-./data}"
`

t.test('a kind that is in the list alone makes the invoices of a gateway', async t => {
  const gateway = await startGateway(t, { yaml: yaml('toy, key: "toy://mine"'), providerKinds: kinds })
  const answer = await gateway.send('GET', '/demo/quote')
  t.equal(answer.status, 402)
  const { invoice } =
    /invoice="(?<invoice>[^"]+)"/.exec([answer.headers['www-authenticate']].flat().join())?.groups ?? {}
  const preimage = createHash('sha256').update('toy toy://mine').digest()
  t.match(decodeInvoice(invoice ?? ''), {
    amountMsat: 21_000n,
    paymentHash: createHash('sha256').update(preimage).digest('hex')
  })
  const [row] = await gateway.database.sql<
    Array<{ provider_kind: string; charge_id: string }>
  >`select provider_kind, charge_id from challenges`
  t.match(row, { provider_kind: 'toy', charge_id: /^toy_/ })
})

t.test('its keys, its name and its place in the documents come from the list too', async t => {
  const problems = async (slot: string) => {
    try {
      await loadText(yaml(slot), {}, { providers: kinds })
      return ''
    } catch (error) {
      if (error instanceof ConfigError) return error.message
      throw error
    }
  }
  t.equal(await problems('toy, key: "toy://mine"'), '')
  t.equal(
    await problems('toy, key: mine'),
    'gateway.yaml:2:30: lightning.primary.key: found no address of a toy; allowed: toy://name [BG_CONFIG_PROVIDER_KEY]'
  )
  t.equal(
    await problems('tpy'),
    'gateway.yaml:2:20: lightning.primary.kind: found "tpy"; allowed: sandbox, strike, opennode, lnd, phoenixd, cln, lnbits, lnurl, btcpay, nwc, blink, toy. Did you mean "toy"? [BG_CONFIG_VALUE]'
  )
  t.match(
    referencePage([], kinds),
    '| `lightning.primary.kind` | `sandbox`, `strike`, `opennode`, `lnd`, `phoenixd`, `cln`, `lnbits`, `lnurl`, `btcpay`, `nwc`, `blink`, `toy` |'
  )
  t.match(referencePage([], kinds), 'for strike, toy all from this address, else of each key')
  t.match(
    JSON.stringify(jsonSchema([], kinds)),
    '"enum":["sandbox","strike","opennode","lnd","phoenixd","cln","lnbits","lnurl","btcpay","nwc","blink","toy"]'
  )
})

t.test('the check warns about a kind that only receives, at its place in the file', async t => {
  const { config } = await loadText(yaml('toy, key: "toy://mine"'), {}, { providers: kinds })
  t.match(config.warnings, [
    {
      code: 'BG_CONFIG_PROVIDER_RECEIVES',
      line: 2,
      message: 'found toy, which only receives; allowed, but nothing that is paid through it can be refunded'
    }
  ])
  t.same((await loadText(yaml('sandbox'), {}, { providers: kinds })).config.warnings, [])
})

t.test('x402: the check names a kind that cannot sell by it, a missing address, and x402 alone', async t => {
  const withX402 = (kind: string, schemes: string, server = '') =>
    `${yaml(kind).replace('server: {', `server: { ${server}`)}payment: { schemes: [ ${schemes} ] }\n`
  const publicUrl = 'publicUrl: "https://api.example.com",'
  const warned = async (text: string) =>
    (await loadText(text, {}, { providers: kinds })).config.warnings.map(({ message }) => message)
  t.same(await warned(withX402('sandbox', 'l402, x402', publicUrl)), [])
  t.match(await warned(withX402('sandbox', 'l402, x402')), [/no server.publicUrl/])
  t.match(await warned(withX402('toy, key: "toy://mine"', 'payment, x402', publicUrl)), [
    /only receives/,
    /found toy, whose invoices cannot be bound to a request/
  ])
  t.match(await warned(withX402('opennode, key: abc', 'payment, x402', publicUrl)), [/found opennode, whose invoices/])
  t.same(
    providerKinds.filter(({ hashesDescriptions }) => hashesDescriptions === undefined).map(({ name }) => name),
    ['opennode', 'lnurl', 'blink']
  )
  await t.rejects(warned(withX402('sandbox', 'x402', publicUrl)), { message: /found x402 alone/ })
})

t.test('a key in place of an address is refused, and its secret is not shown', async t => {
  for (const key of [
    'phoenixd://h:1?password=canary',
    'clnrest://h:1?rune=canary',
    'lnbits+https://h?key=canary',
    'nostr+walletconnect://ab?relay=wss://r&secret=canary'
  ]) {
    const error: unknown = await loadText(yaml(`toy, url: "${key}"`), {}, { providers: kinds }).catch(
      (caught: unknown) => caught
    )
    t.ok(error instanceof ConfigError)
    t.match(String(error), /lightning\.primary\.url/)
    t.notMatch(String(error), 'canary')
  }
})

t.test('no file names a kind that is called but those of its own folder and the list', async t => {
  const src = resolve(import.meta.dirname, '../../../src')
  const names = providerKinds.filter(({ isSandbox }) => !isSandbox).map(({ name }) => name)
  const naming = globSync('**/*.ts', { cwd: src })
    .filter(
      file => !names.some(name => file.startsWith(`lightning/kinds/${name}/`)) && file !== 'lightning/kinds/kinds.ts'
    )
    .filter(file => new RegExp(`['"\`](${names.join('|')})['"\`]`).test(readFileSync(resolve(src, file), 'utf8')))
  t.same(naming, [])
})
