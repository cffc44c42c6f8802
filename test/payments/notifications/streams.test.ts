import t, { type Test as T } from 'tap'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { Streams } from '../../../src/payments/notifications/streams.ts'
import { cln } from '../../../src/lightning/kinds/cln/cln.ts'
import { lnd } from '../../../src/lightning/kinds/lnd/lnd.ts'
import { phoenixd } from '../../../src/lightning/kinds/phoenixd/phoenixd.ts'
import type { ProviderKind } from '../../../src/lightning/kinds/kind.ts'
import { openKind } from '../../lightning/open-kind.ts'
import { startFakeCln } from '../../fakes/cln.ts'
import { startFakeLnd } from '../../fakes/lnd.ts'
import { startFakePhoenixd } from '../../fakes/phoenixd.ts'
import { openAnyDatabase } from '../../support/database.ts'
import type { ManualClock } from '../../support/manual-clock.ts'
import { fixture } from './fixture.ts'
import { until } from '../../support/until.ts'

/** A node whose payments are followed. */
interface Node {
  readonly wallet: { settle(paymentHash: string): unknown }
  readonly followers: ReadonlySet<unknown>
  key(): string
  close(): Promise<void>
}

interface Kind {
  readonly start: (options: { readonly clock: ManualClock }) => Promise<Node>
  readonly kind: ProviderKind
}

const KINDS: Readonly<Record<string, Kind>> = {
  lnd: { start: startFakeLnd, kind: lnd },
  cln: { start: startFakeCln, kind: cln },
  phoenixd: {
    async start(options) {
      const node = await startFakePhoenixd(options)
      const keys = [node.key('full'), node.key('limited')]
      return { ...node, key: () => keys.shift() ?? '' }
    },
    kind: phoenixd
  }
}

async function setUp(t: T, { start, kind }: Kind) {
  const started = Promise.withResolvers<Node>()
  const made = await fixture(t, {
    database: await openAnyDatabase(t),
    inPrimary: async clock => {
      const node = await start({ clock })
      started.resolve(node)
      t.teardown(() => node.close())
      return openKind(t, kind, { clock })
    }
  })
  const node = await started.promise
  const { payees, charges, payments, clock, log, merchants, database } = made
  const [seat] = payees.inOrder('primary')
  if (seat === undefined) throw new Error('there is no provider')
  const open = () => {
    const streams = new Streams({
      slot: 'primary',
      kind: seat.name,
      provider: seat.provider,
      database,
      clock,
      log,
      payees,
      charges,
      merchants
    })
    t.teardown(() => streams.close())
    return streams
  }
  const acme = await made.merchant({ primaryApiKey: new Secret(node.key()) })
  const account = [String(acme.id)]
  const [one, two, three] = [await made.pay(acme), await made.pay(acme), await made.pay(acme)]
  const isPaid = async ({ invoiceId }: { readonly invoiceId: string }) =>
    (await payments.get(acme, invoiceId)).status === 'paid'
  const settle = async (payment: typeof one) => {
    node.wallet.settle(payment.paymentHash)
    // The news is gathered for a tenth of a second.
    await until(() => {
      clock.advance(1)
      return isPaid(payment)
    })
    // A call that waited for it is made again.
    await until(() => node.followers.size > 0)
  }

  return { ...made, node, account, acme, open, settle, payments: [one, two, three] as const }
}

for (const [name, kind] of Object.entries(KINDS)) {
  void t.test(
    `streams: a payment at ${name} is known immediately, by one process, with the key that is saved`,
    async t => {
      const { node, account, acme, open, settle, clock, merchants, database, payments } = await setUp(t, kind)
      const [one, two, three] = payments
      const [first, second] = [open(), open()]
      first.want(account)
      await until(() => node.followers.size === 1)
      second.want(account)
      await settle(one)
      t.equal(node.followers.size, 1, 'one stream over all processes')

      await merchants.setProviderKey(acme.id, 'primary', new Secret(`${node.key()}`))
      first.want(account)
      clock.advance(10_000)
      await until(() => node.followers.size === 0)
      await until(() => {
        clock.advance(10)
        return node.followers.size === 1
      })
      await settle(two)
      t.ok(true, 'a changed key opens another stream')

      await first.close()
      await until(() => node.followers.size === 0)
      second.want(account)
      await until(() => node.followers.size === 1)
      await settle(three)
      t.ok(true, 'another process takes over immediately')

      for (let renewals = 0; renewals < 7; renewals++) clock.advance(10_000)
      await until(() => node.followers.size === 0)
      await second.close()
      t.same(await database.sql`select * from provider_streams`, [], 'it ends when it is no longer wanted')
    }
  )
}
