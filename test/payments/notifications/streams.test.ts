import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { Streams } from '../../../src/payments/notifications/streams.ts'
import { LndProvider } from '../../../src/lightning/kinds/lnd/lnd.ts'
import { AddressGuard } from '../../../src/engine/upstream/guard.ts'
import { startFakeLnd, type FakeLnd } from '../../fakes/lnd.ts'
import { openAnyDatabase } from '../../support/database.ts'
import { fixture } from './fixture.ts'

void t.test('streams: a payment at lnd is known at once, by one process, with the key that is saved', async t => {
  const started = Promise.withResolvers<FakeLnd>()
  const made = await fixture(t, {
    database: await openAnyDatabase(t),
    inPrimary: async clock => {
      const node = await startFakeLnd({ clock })
      started.resolve(node)
      const options = {
        guard: new AddressGuard({ production: false }),
        timeout: 10_000,
        clock,
        ownKey: null,
        url: null
      }
      const lnd = new LndProvider(options)
      t.teardown(async () => {
        await lnd.close()
        await node.close()
      })
      return lnd
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
      merchant: id => merchants.byId(id)
    })
    t.teardown(() => streams.close())
    return streams
  }
  const until = async (isThere: () => boolean | Promise<boolean>, step = 0): Promise<void> => {
    while (!(await isThere())) {
      if (step > 0) clock.advance(step)
      await setImmediate()
    }
  }
  const acme = await made.merchant({ primaryApiKey: new Secret(node.key()) })
  const account = [String(acme.id)]
  const [one, two, three] = [await made.pay(acme), await made.pay(acme), await made.pay(acme)]
  const isPaid = async ({ invoiceId }: { readonly invoiceId: string }) =>
    (await payments.get(acme, invoiceId)).status === 'paid'
  const settle = async (payment: typeof one) => {
    node.wallet.settle(payment.paymentHash)
    // The news is gathered for a tenth of a second.
    await until(() => isPaid(payment), 1)
  }

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
  await until(() => node.followers.size === 1, 10)
  await settle(two)
  t.ok(true, 'a changed key opens another stream')

  await first.close()
  await until(() => node.followers.size === 0)
  second.want(account)
  await until(() => node.followers.size === 1)
  await settle(three)
  t.ok(true, 'another process takes over at once')

  for (let renewals = 0; renewals < 7; renewals++) clock.advance(10_000)
  await until(() => node.followers.size === 0)
  await second.close()
  t.same(await database.sql`select * from provider_streams`, [], 'it ends when it is no longer wanted')
})
