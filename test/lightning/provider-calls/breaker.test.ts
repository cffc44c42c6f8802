import t from 'tap'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { guarded } from '../../../src/lightning/provider-calls/breaker.ts'
import {
  NothingSent,
  PayoutUncertain,
  ProviderRefused,
  ProviderUnavailable,
  type ProviderFault
} from '../../../src/lightning/provider-calls/errors.ts'
import type { ChargeState, Provider } from '../../../src/lightning/provider-calls/provider.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const key = new Secret('key')
const unpaid: ChargeState = { status: 'unpaid', receivedSats: 0, settledAt: null }
const fault = (kind: ProviderFault) => new ProviderUnavailable('x', 5, undefined, kind)

interface Rig {
  readonly clock: ManualClock
  readonly provider: Provider
  calls: number
  /** What the next calls do. */
  next: () => Promise<ChargeState>
  look(key?: Secret<string>): Promise<ChargeState | null>
}

function rig(hostOf?: (key: Secret<string> | null) => string, recovered: (host: string) => void = () => {}): Rig {
  const clock = new ManualClock()
  const never = (): never => {
    throw new TypeError('not called here')
  }
  const inner: Provider = {
    kind: 'strike',
    keyless: false,
    capabilities: { onchain: false, hostedCheckout: false, notifies: true, payout: { lightning: true, chain: true } },
    createCharge: never,
    lookUp: async () => {
      made.calls++
      return await made.next()
    },
    createPayout: async () => {
      made.calls++
      await made.next()
      return never()
    },
    lookUpPayout: never,
    validateKey: async () => {
      made.calls++
      await made.next()
      return { isValid: true, message: 'ok' }
    },
    close: async () => {}
  }
  const provider = guarded(inner, { clock, recovered, ...(hostOf === undefined ? {} : { hostOf }) })
  const made: Rig = {
    clock,
    provider,
    calls: 0,
    next: async () => unpaid,
    look: (with_ = key) => provider.lookUp(with_, 'c')
  }
  return made
}

/** Lets so many calls fail. */
async function failing(made: Rig, times: number, error: () => Error, with_ = key) {
  made.next = () => Promise.reject(error())
  for (let count = 0; count < times; count++) await made.look(with_).catch(() => null)
}

for (const kind of ['timeout', 'server'] as const) {
  t.test(
    `five failures in a row (${kind}) open it: immediate errors, without a call, with the true Retry-After`,
    async t => {
      const made = rig()
      await failing(made, 5, () => fault(kind))
      t.equal(made.calls, 5)
      made.clock.advance(2_500)
      await t.rejects(made.look(), {
        name: 'ProviderUnavailable',
        fault: 'open',
        status: 503,
        retryAfter: 8,
        headers: ['Retry-After', '8']
      })
      await t.rejects(made.provider.validateKey(key), { fault: 'open' })
      t.equal(made.calls, 5)
    }
  )
}

t.test('a host that refuses connections is tried after a second, and then at most every five', async t => {
  const made = rig()
  await failing(made, 5, () => new NothingSent('x', 5, undefined, 'network'))
  for (const pause of [1_000, 2_000, 4_000, 5_000, 5_000]) {
    made.clock.advance(pause - 1)
    await t.rejects(made.look(), { fault: 'open', retryAfter: 1 })
    made.clock.advance(1)
    const before = made.calls
    await failing(made, 1, () => fault('network'))
    t.equal(made.calls, before + 1)
  }
})

t.test('a node that says that it is starting is tried soon', async t => {
  const made = rig()
  await failing(made, 5, () => new NothingSent('locked', 30, undefined, 'server'))
  await t.rejects(made.look(), { fault: 'open', retryAfter: 1 })
})

t.test('one that lets its callers wait is left alone for longer, as soon as it does', async t => {
  const made = rig()
  await failing(made, 5, () => fault('network'))
  made.clock.advance(1_000)
  made.next = async () => {
    made.clock.advance(1_000)
    throw fault('network')
  }
  await made.look().catch(() => null)
  await t.rejects(made.look(), { fault: 'open', retryAfter: 10 })
})

t.test('a listener is notified of each host that answers again, once', async t => {
  const hosts: string[] = []
  const made = rig(
    key => key?.reveal() ?? '',
    host => hosts.push(host)
  )
  const dead = new Secret('dead.example')
  await failing(made, 4, () => fault('network'), dead)
  made.next = async () => unpaid
  await made.look(dead)
  t.same(hosts, [], 'it was never left alone')
  await failing(made, 5, () => fault('network'), dead)
  await made.look(new Secret('alive.example')).catch(() => null)
  made.clock.advance(1_000)
  made.next = async () => unpaid
  await made.look(dead)
  await made.look(dead)
  t.same(hosts, ['dead.example'])
})

const innocent: ReadonlyArray<[name: string, error: () => Error]> = [
  ['a bad key', () => new ProviderRefused('key', 'x')],
  ['a missing scope', () => new ProviderRefused('scope', 'x', 's')],
  ['a refusal', () => new ProviderRefused('request', 'x')],
  ['a 429', () => fault('rate')],
  ['a limit that is kept to', () => new NothingSent('x', 5, undefined, 'rate')],
  ['another kind of trouble', () => fault('other')],
  ['a fault of our own', () => new TypeError('x')]
]

for (const [name, error] of innocent) {
  t.test(`${name} never opens it`, async t => {
    const made = rig()
    await failing(made, 50, error)
    t.equal(made.calls, 50)
  })
}

t.test('a host that answers a refusal is not failing; a limit that is kept to says nothing of it', async t => {
  const made = rig()
  await failing(made, 4, () => fault('network'))
  await failing(made, 1, () => new ProviderRefused('key', 'x'))
  await failing(made, 4, () => fault('network'))
  t.equal(made.calls, 9)
  await failing(made, 1, () => new NothingSent('x', 5, undefined, 'rate'))
  await failing(made, 1, () => fault('network'))
  await t.rejects(made.look(), { fault: 'open' })
})

t.test(
  'an uncertain payout counts by what made it uncertain, and an open breaker means that nothing was sent',
  async t => {
    const made = rig()
    made.next = () => Promise.reject(new PayoutUncertain(fault('timeout')))
    const request = {
      reference: '1',
      chargeId: 'c',
      destination: { type: 'ln', invoice: 'x' },
      amountSats: 1,
      description: null
    } as const
    for (let count = 0; count < 5; count++)
      await t.rejects(async () => made.provider.createPayout?.(key, request), { name: 'PayoutUncertain' })
    await t.rejects(async () => made.provider.createPayout?.(key, request), {
      name: 'ProviderUnavailable',
      fault: 'open'
    })
    t.equal(made.calls, 5)
  }
)

t.test('after the pause one call tries it: success closes it', async t => {
  const made = rig()
  await failing(made, 5, () => fault('server'))
  made.clock.advance(10_000)
  const { promise, resolve } = Promise.withResolvers<ChargeState>()
  made.next = () => promise
  const trial = made.look()
  await t.rejects(made.look(), { fault: 'open', retryAfter: 5 }, 'the others do not wait for it')
  t.equal(made.calls, 6)
  resolve(unpaid)
  t.same(await trial, unpaid)
  t.same(await made.look(), unpaid)
  await failing(made, 4, () => fault('server'))
  made.next = async () => unpaid
  t.same(await made.look(), unpaid, 'the count was reset')
})

t.test('each try that fails doubles the pause, up to 60 seconds', async t => {
  const made = rig()
  await failing(made, 5, () => fault('server'))
  for (const pause of [10_000, 20_000, 40_000, 60_000, 60_000]) {
    made.clock.advance(pause - 1)
    await t.rejects(made.look(), { fault: 'open', retryAfter: 1 })
    made.clock.advance(1)
    const before = made.calls
    await failing(made, 1, () => fault('server'))
    t.equal(made.calls, before + 1)
  }
})

t.test('a try that could not be made leaves the next one free', async t => {
  const made = rig()
  await failing(made, 5, () => fault('server'))
  made.clock.advance(10_000)
  await failing(made, 1, () => new NothingSent('x', 5, undefined, 'rate'))
  made.next = async () => unpaid
  t.same(await made.look(), unpaid)
})

t.test('calls that began before the pause neither lengthen nor end it', async t => {
  const made = rig()
  const open: Array<PromiseWithResolvers<ChargeState>> = []
  made.next = () => {
    const one = Promise.withResolvers<ChargeState>()
    open.push(one)
    return one.promise
  }
  const running = Array.from({ length: 12 }, () => made.look().catch(() => null))
  for (const one of open.slice(0, 10)) one.reject(fault('server'))
  await Promise.all(running.slice(0, 10))
  await t.rejects(made.look(), { retryAfter: 10 })
  open[10]?.resolve(unpaid)
  await running[10]
  await t.rejects(made.look(), { fault: 'open' }, 'an old success does not end it')
  made.clock.advance(10_000)
  made.next = async () => unpaid
  t.same(await made.look(), unpaid)
  open[11]?.reject(fault('server'))
  await running[11]
  t.same(await made.look(), unpaid)
})

t.test('missing methods of a kind stay missing, and its properties are kept', async t => {
  const { provider } = rig()
  t.match(provider, { kind: 'strike', keyless: false, capabilities: { notifies: true } })
  for (const name of ['createFiatCharge', 'listSettled', 'subscribe', 'readNotification']) t.notOk(name in provider)
})

t.test('a host is left alone from its fifth failure until a call was answered, each host separately', async t => {
  const r = rig(held => held?.reveal() ?? '')
  const other = new Secret('other')
  const isLeftAlone = (held = key) => r.provider.isLeftAlone?.(held)
  r.next = async () => {
    throw fault('server')
  }
  for (let failure = 1; failure <= 5; failure++) {
    t.equal(isLeftAlone(), false)
    await t.rejects(r.look())
  }
  t.equal(isLeftAlone(), true)
  t.equal(isLeftAlone(other), false)
  r.clock.advance(10_000)
  t.equal(isLeftAlone(), true, 'its state is still unknown')
  r.next = async () => unpaid
  await r.look()
  t.equal(isLeftAlone(), false)
})
