import t from 'tap'
import { KeyRing, Sealer, Secret } from '../../../src/platform/keys/secrets.ts'
import type { ProviderAccount, ProviderSlot } from '../../../src/lightning/providers/slot-keys.ts'
import {
  ProviderKeyRequired,
  ProviderRefused,
  ProviderUnavailable
} from '../../../src/lightning/provider-calls/errors.ts'
import { byFirst } from '../../../src/lightning/providers/payee.ts'
import { Payees } from '../../../src/lightning/providers/payees.ts'
import type { Charge, ChargeRequest, Provider } from '../../../src/lightning/provider-calls/provider.ts'
import { errorReply } from '../../../src/engine/operations/errors.ts'
import { MemoryState } from '../../../src/platform/state/memory.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const sealer = new Sealer(new KeyRing(new Secret('a master secret of 32 bytes or more')))
const request: ChargeRequest = { amountSats: 10, description: 'a quote', expirySeconds: 600 }

/** A provider that remembers which key it was called with. */
class Recorder implements Provider {
  readonly kind = 'strike'
  readonly keyless: boolean
  readonly capabilities = {
    onchain: false,
    hostedCheckout: false,
    notifies: true,
    payout: { lightning: true, chain: true }
  }
  readonly keys: Array<string | null> = []

  constructor(keyless: boolean) {
    this.keyless = keyless
  }

  async createCharge(key: Secret<string> | null): Promise<Charge> {
    this.keys.push(key?.reveal() ?? null)
    return {
      chargeId: 'c',
      invoice: 'lnbcrt1',
      paymentHash: 'ab'.repeat(32),
      expiresAt: 0,
      network: 'regtest',
      onchainAddress: null,
      checkoutUrl: null
    }
  }

  async lookUp(): Promise<null> {
    return null
  }
  async createPayout(): Promise<never> {
    throw new Error('this test pays nothing out')
  }
  async lookUpPayout(): Promise<null> {
    return null
  }
  async validateKey() {
    return { isValid: true, message: '' }
  }
  async close(): Promise<void> {}
}

function sealed(slot: ProviderSlot, text: string) {
  const place = { table: 'merchants', column: `${slot}_key`, row: '7' }
  return { ciphertext: sealer.seal(text, place), place }
}

function setUp(keyless = false, platformKey: string | null = null) {
  const primary = new Recorder(keyless)
  const alternate = new Recorder(keyless)
  const payees = new Payees(
    {
      primary: { provider: primary, key: platformKey === null ? null : new Secret(platformKey) },
      alternate: { provider: alternate, key: null }
    },
    sealer
  )
  return { payees, primary, alternate }
}

const noKeys: ProviderAccount = { providerChoice: null, primaryKey: null, alternateKey: null }

t.test(
  'a merchant is paid through the provider that resolution gives, with its own key, opened at the call',
  async t => {
    const { payees, primary, alternate } = setUp()
    const payee = payees.forMerchant({ ...noKeys, alternateKey: sealed('alternate', 'their key') })
    t.match(payee, { slot: 'alternate', kind: 'strike' })
    t.same(alternate.keys, [])
    t.equal((await payee.createInvoice(request)).chargeId, 'c')
    t.same(alternate.keys, ['their key'])
    await payees
      .forMerchant({
        providerChoice: 'primary',
        primaryKey: sealed('primary', 'first'),
        alternateKey: sealed('alternate', 'second')
      })
      .createInvoice(request)
    t.same(primary.keys, ['first'])
  }
)

t.test(
  'no key for the resolved provider is 400 payment provider key required, also when the other slot has one',
  async t => {
    const { payees } = setUp(true)
    t.throws(() => payees.forMerchant(noKeys), ProviderKeyRequired)
    t.throws(
      () => payees.forMerchant({ ...noKeys, providerChoice: 'primary', alternateKey: sealed('alternate', 'k') }),
      ProviderKeyRequired
    )
    const reply = errorReply(new ProviderKeyRequired(), { correlationId: '', now: 0, mode: 'production' })
    t.equal(reply.status, 400)
    t.equal(reply.body, '{"error":"Payment provider key required"}')
  }
)

t.test('a key that was moved from another row never reaches a provider', async t => {
  const { payees, alternate } = setUp()
  const stolen = sealed('alternate', 'their key')
  const payee = payees.forMerchant({ ...noKeys, alternateKey: { ...stolen, place: { ...stolen.place, row: '8' } } })
  await t.rejects(payee.createInvoice(request), { name: 'UnsealError' })
  t.same(alternate.keys, [])
})

t.test('the platform is paid with lightning.primary.key; only the sandbox needs none', async t => {
  const withKey = setUp(false, 'operator key')
  await withKey.payees.platform().createInvoice(request)
  t.same(withKey.primary.keys, ['operator key'])
  const missing = setUp()
  t.throws(() => missing.payees.platform(), { status: 500 })
  const sandbox = setUp(true)
  await sandbox.payees.platform().createInvoice(request)
  t.same(sandbox.primary.keys, [null])
})

t.test('a kind that only receives pays nothing out and makes no call', async t => {
  const { kind, keyless, capabilities, createCharge, lookUp, validateKey, close } = new Recorder(true)
  const provider: Provider = { kind, keyless, capabilities, createCharge, lookUp, validateKey, close }
  const payee = new Payees({ primary: { provider, key: null }, alternate: { provider, key: null } }, sealer).platform()
  const payout = {
    reference: '1',
    chargeId: 'c',
    destination: { type: 'ln', invoice: 'lnbcrt1' },
    amountSats: 1,
    description: null
  } as const
  const expected = { name: 'ProviderRefused', reason: 'request', message: /only receives/ }
  await t.rejects(payee.payOut(payout), expected)
  await t.rejects(payee.lookUpPayout(payout, null), expected)
})

t.test(
  'invoices made ahead for an account are named by account and key, and a key that is saved again has none',
  async t => {
    const provider = new Recorder(false)
    const payees = new Payees(
      {
        primary: { provider, key: new Secret('operator'), invoicesAhead: 7 },
        alternate: { provider, key: null, invoicesAhead: 0 }
      },
      sealer
    )
    const account = { ...noKeys, primaryKey: sealed('primary', 'one') }
    const of = (held: ProviderAccount) => payees.forMerchant(held).ahead?.account
    t.equal(payees.platform().ahead?.account, 'primary strike operator')
    t.equal(payees.platform().ahead?.most, 7)
    t.equal(payees.platform().ahead?.isLeftAlone(), false, 'without a breaker no host is left alone')
    t.equal(of(account), of({ ...account }))
    t.not(of(account), of({ ...account, primaryKey: sealed('primary', 'one') }))
    t.equal(payees.inSlot({ ...noKeys, alternateKey: sealed('alternate', 'x') }, 'alternate').ahead, null)
  }
)

t.test('a provider that hangs counts as failing after 4 seconds, until it answers', async t => {
  const clock = new ManualClock()
  const provider = new Recorder(false)
  const { promise, resolve } = Promise.withResolvers<Charge>()
  const { kind, keyless, capabilities, lookUp, validateKey, close } = provider
  const hanging: Provider = { kind, keyless, capabilities, createCharge: () => promise, lookUp, validateKey, close }
  const seat = (name: string) => ({ name, provider: hanging, key: new Secret(name) })
  const payees = new Payees({ primary: [seat('a'), seat('b')], alternate: [] }, sealer, clock)
  const made = payees.platform().createInvoice(request)
  const failing = () => payees.report()[0]?.reason
  clock.advance(3_999)
  t.equal(failing(), null)
  clock.advance(1)
  t.equal(failing(), 'does not answer in time')
  resolve(await provider.createCharge(null))
  await made
  t.equal(failing(), null)
  clock.advance(10_000)
  t.equal(failing(), null, 'no timer outlives its call')
})

t.test('a provider of another network than is sold on is passed over, and the report says why', async t => {
  const [first, second] = [new Recorder(false), new Recorder(false)]
  const made = async (): Promise<Charge> => ({ ...(await first.createCharge(null)), network: 'testnet' })
  const ofTestnet: Provider = {
    kind: first.kind,
    keyless: false,
    capabilities: first.capabilities,
    createCharge: made,
    createFiatCharge: made,
    lookUp: first.lookUp,
    validateKey: async () => ({ isValid: true, message: 'Good.', network: 'testnet' }),
    close: first.close
  }
  const payees = new Payees(
    {
      primary: [
        { name: 'other', provider: ofTestnet, key: new Secret('a'), network: 'regtest' },
        { name: 'right', provider: second, key: new Secret('b'), network: 'regtest' }
      ],
      alternate: []
    },
    sealer
  )
  const charge = await byFirst(payees.platform(), payee => payee.createInvoice(request))
  t.equal(charge.network, 'regtest')
  t.match(payees.report(), [
    { provider: 'other', use: 'passed over', reason: 'makes invoices of another network' },
    { provider: 'right', use: 'used', reason: null }
  ])
  const convert = payees.platform().createFiatInvoice
  await t.rejects(
    async () => {
      await convert?.({ amount: '1', currency: 'USD', description: '', expirySeconds: 60 } as never)
    },
    { reason: 'key', message: /one of testnet, and this gateway sells on regtest/ }
  )
})

t.test(
  'an account is failing from the first failed call until one succeeds, made ahead or not, or its key is replaced',
  async t => {
    const clock = new ManualClock()
    const provider = new Recorder(false)
    const make = provider.createCharge.bind(provider)
    const state = new MemoryState(clock)
    const open = () =>
      new Payees({ primary: { provider, key: null }, alternate: { provider, key: null } }, sealer, clock, state)
    const [payees, other] = [open(), open()]
    const account = { ...noKeys, primaryKey: sealed('primary', 'theirs') }
    const invoice = (standing?: 'ahead') =>
      payees.forMerchant(account).createInvoice(standing === undefined ? request : { ...request, priority: standing })
    for (const recovered of [() => invoice(), () => invoice('ahead'), () => payees.validate(account, 'primary')]) {
      provider.createCharge = async () => {
        throw new ProviderUnavailable('busy', 5, undefined, 'rate')
      }
      await t.rejects(invoice('ahead'))
      t.equal(await payees.failure(account, 'primary'), null, 'what is made ahead leaves the budget to buyers')
      provider.createCharge = async () => {
        throw new ProviderRefused('key', 'no such key')
      }
      await t.rejects(invoice('ahead'))
      t.match(await payees.failure(account, 'primary'), { reason: 'refuses its key' }, 'before the stock is sold out')
      const at = clock.now()
      clock.advance(60_000)
      await t.rejects(invoice())
      t.same(await other.failure(account, 'primary'), { reason: 'refuses its key', since: at }, 'in every process')
      t.equal(await payees.failure({ ...noKeys, primaryKey: sealed('primary', 'new') }, 'primary'), null)
      provider.createCharge = make
      await recovered()
      t.equal(await payees.failure(account, 'primary'), null)
    }
    provider.createCharge = async () => {
      throw new ProviderRefused('request', 'too little')
    }
    await t.rejects(invoice())
    t.equal(await payees.failure(account, 'primary'), null, 'a refused request is not the key')
  }
)
