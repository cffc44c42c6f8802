import t from 'tap'
import type { Charge, ChargeRequest } from '../../src/lightning/provider-calls/provider.ts'
import { ProviderRefused, ProviderUnavailable } from '../../src/lightning/provider-calls/errors.ts'
import { SandboxProvider } from '../../src/lightning/kinds/sandbox/sandbox.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { buy, use } from '../support/gateway.ts'
import { openShop } from '../security/shop.ts'

type Create = (honest: () => Promise<Charge>, request: ChargeRequest) => Promise<Charge>

t.test('a provider that fails is 503 with Retry-After on every priced route, never a 402', async t => {
  const clock = new ManualClock()
  const shop = await openShop(t, { clock })
  const { gateway, upstream } = shop
  const proxy = await shop.proxy()
  const paid = await buy(gateway, '/paid/item')
  const honest = SandboxProvider.prototype.createCharge
  t.teardown(() => {
    SandboxProvider.prototype.createCharge = honest
  })
  let last: Charge | null = null
  let hangs = Promise.withResolvers<void>()
  const swap: Create = async (make, request) => {
    const charge = await make()
    const foreign = last ?? charge
    last = charge
    return {
      ...charge,
      invoice:
        foreign.invoice === charge.invoice ? (await honest.call(sandbox(), null, request)).invoice : foreign.invoice
    }
  }
  let seen: SandboxProvider | null = null
  const sandbox = () => {
    if (seen === null) throw new Error('it is called by the sandbox itself')
    return seen
  }
  const rows: ReadonlyArray<readonly [name: string, create: Create]> = [
    [
      'throws',
      async () => {
        throw new Error('secret-provider-detail')
      }
    ],
    [
      'throws what is no error',
      async () => {
        throw 'secret-provider-detail'
      }
    ], // oxlint-disable-line no-throw-literal -- a library may
    [
      'is unavailable',
      async () => {
        throw new ProviderUnavailable('The payment provider cannot be reached at the moment.', 9)
      }
    ],
    [
      'refuses its key',
      async () => {
        throw new ProviderRefused('key', 'The provider does not accept this key.')
      }
    ],
    [
      'hangs',
      async () => {
        hangs.resolve()
        return new Promise<Charge>(() => {})
      }
    ],
    [
      'asks for another amount',
      async (_make, request) => honest.call(sandbox(), null, { ...request, amountSats: request.amountSats + 1 })
    ],
    ['gives another invoice than it says', swap],
    ['says another network', async make => ({ ...(await make()), network: 'mainnet' })],
    [
      'gives an invoice that has expired',
      async (_make, request) => {
        const charge = await honest.call(sandbox(), null, { ...request, expirySeconds: 1 })
        clock.advance(2_000)
        return charge
      }
    ],
    ['gives what is no invoice', async make => ({ ...(await make()), invoice: 'lnbcrt1secret-provider-detail' })],
    ['gives nothing', async make => ({ ...(await make()), invoice: '' })]
  ]
  const asks = [
    ['a route', 'GET', '/paid/item', undefined],
    ['a proxy', 'GET', `${proxy.path}/a`, undefined],
    ['the ping', 'GET', '/l402/test/ping', undefined],
    ['the producer API', 'POST', '/api/l402/challenges', { resource: '/r', priceSats: 3 }]
  ] as const
  for (const [name, create] of rows) {
    await t.test(`a provider that ${name}`, async t => {
      SandboxProvider.prototype.createCharge = function (key, request) {
        seen = this // oxlint-disable-line typescript/no-this-alias -- the rows call it outside
        return create(() => honest.call(this, key, request), request)
      }
      t.teardown(() => {
        SandboxProvider.prototype.createCharge = honest
      })
      for (const [what, method, path, body] of asks) {
        hangs = Promise.withResolvers<void>()
        const before = upstream.hits.length
        const pending = gateway.send(
          method,
          path,
          body === undefined ? {} : { headers: { 'x-api-key': gateway.merchant.apiKey }, body }
        )
        if (name === 'hangs') {
          await hangs.promise
          clock.advance(20_000)
        }
        const answer = await pending
        t.equal(answer.status, 503, `${what}: ${answer.text}`)
        t.match(answer.headers['retry-after'], /^[1-9]\d*$/, `${what}: says when`)
        t.equal(answer.headers['www-authenticate'], undefined, `${what}: requires no payment`)
        t.notMatch(answer.text, /secret-provider-detail|does not accept/, `${what}: reveals nothing about the provider`)
        t.equal(upstream.hits.length, before)
      }
    })
  }
  const fresh = await buy(gateway, '/paid/item')
  t.equal((await use(gateway, '/paid/item', fresh)).status, 200, 'afterwards it sells again')
  t.equal((await use(gateway, '/paid/item', paid)).status, 200, 'earlier purchases were never touched')
})
