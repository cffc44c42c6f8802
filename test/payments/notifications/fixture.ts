import { testSealer } from '../../support/merchants.ts'
import { createHmac, randomBytes } from 'node:crypto'
import tap, { type Test as T } from 'tap'
import { ChallengeCharges } from '../../../src/selling/minting/charges.ts'
import type { NewChallenge } from '../../../src/selling/holding/challenge.ts'
import { ChallengeStore } from '../../../src/selling/holding/store.ts'
import { harness } from '../../../src/engine/pipeline/harness.ts'
import type { ReadonlyHeaders } from '../../../src/engine/message/headers.ts'
import { InternalUpstream } from '../../../src/engine/pipeline/internal.ts'
import type { Merchant } from '../../../src/accounts/merchants/schema.ts'
import { Charges } from '../../../src/payments/notifications/charges.ts'
import { notificationOperations } from '../../../src/payments/notifications/operations.ts'
import { Registration, SubscriptionStore } from '../../../src/payments/notifications/registration.ts'
import { Notifications } from '../../../src/payments/notifications/service.ts'
import { PaymentCharges } from '../../../src/payments/payments/charges.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { systemRandom } from '../../../src/platform/system/ids.ts'
import type { EnqueueOptions, JobDeclaration, Jobs, JsonObject } from '../../../src/platform/jobs/jobs.ts'
import { silentLog, type Log } from '../../../src/platform/telemetry/log.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import type { ProviderSlot } from '../../../src/lightning/providers/slot-keys.ts'
import { ProviderNotificationError } from '../../../src/lightning/provider-calls/errors.ts'
import { Payees } from '../../../src/lightning/providers/payees.ts'
import type {
  ChargeState,
  Provider,
  ProviderNotification,
  SettledCharge,
  SettledList,
  SettledSince
} from '../../../src/lightning/provider-calls/provider.ts'
import { anInput, FakeProvider, fixture as paymentFixture } from '../payments/fixture.ts'
import { openAnyDatabase } from '../../support/database.ts'
import type { ManualClock } from '../../support/manual-clock.ts'

/** A provider whose webhook URL is set per charge, signs with the account's key, and lists what was settled. */
export class SigningProvider extends FakeProvider {
  override readonly capabilities = {
    onchain: true,
    hostedCheckout: true,
    notifies: true,
    payout: { lightning: false, chain: false }
  }
  /** By key: what the account's list holds, newest first. */
  readonly settled = new Map<string, SettledCharge[]>()
  /** What the lists reach. */
  reach: SettledList['reach'] = 'whole'
  readonly listings: Array<{ readonly key: string; readonly since: number; readonly at: number }> = []
  readonly #time: ManualClock

  constructor(kind: Provider['kind'], clock: ManualClock) {
    super(kind, clock)
    this.#time = clock
  }

  readNotification(headers: ReadonlyHeaders, body: Uint8Array): ProviderNotification | null {
    const [type, chargeId] = Buffer.from(body).toString('utf8').split(' ')
    if (type === 'payout') return null
    if (type !== 'charge' || chargeId === undefined)
      throw new ProviderNotificationError('The notification cannot be read.')
    return { chargeId, verify: secret => headers.get('x-test-signature') === signed(body, secret.reveal()) }
  }

  async listSettled(key: Secret<string>, { since }: SettledSince): Promise<SettledList> {
    this.listings.push({ key: key.reveal(), since, at: this.#time.now() })
    await this.gate
    if (this.fault !== null) throw this.fault
    const charges = (this.settled.get(key.reveal()) ?? []).filter(
      ({ state }) => (state?.settledAt ?? Infinity) >= since
    )
    return { charges, reach: this.reach, asOf: this.#time.now(), position: null }
  }
}

/** The same for a kind whose webhook is registered. */
export class SubscribingProvider extends SigningProvider {
  readonly subscriptions: Array<{ readonly key: string; readonly url: string; readonly secret: string }> = []
  refusal: Error | null = null

  async subscribe(
    key: Secret<string>,
    url: string,
    secret: Secret<string>
  ): Promise<{ readonly subscriptionId: string }> {
    this.subscriptions.push({ key: key.reveal(), url, secret: secret.reveal() })
    await this.gate
    if (this.refusal !== null) throw this.refusal
    return { subscriptionId: `subscription-${this.subscriptions.length}` }
  }
}

/** How the providers of these tests sign. */
export function signed(body: string | Uint8Array, secret: string): string {
  return createHmac('sha256', secret).update(body).digest('hex')
}

/** Jobs that a test runs by hand; those of one key that wait are one, as in the queue. */
export class HandJobs implements Pick<Jobs, 'declare' | 'enqueue'> {
  readonly waiting: Array<{ readonly name: string; readonly data: JsonObject; readonly options: EnqueueOptions }> = []
  /** Thrown by enqueue while it is set. */
  fault: Error | null = null
  readonly #queues = new Map<string, JobDeclaration['run']>()

  declare(jobs: readonly JobDeclaration[]): void {
    for (const { name, run } of jobs) this.#queues.set(name, run)
  }

  async enqueue(_sql: unknown, name: string, data: JsonObject, options: EnqueueOptions = {}): Promise<void> {
    if (this.fault !== null) throw this.fault
    if (!this.waiting.some(job => job.name === name && job.options.key === options.key))
      this.waiting.push({ name, data, options })
  }

  /** Runs what waits; answers what failed, which waits on. */
  async run(): Promise<unknown[]> {
    const failed: unknown[] = []
    for (const job of this.waiting.splice(0)) {
      try {
        await this.#queues.get(job.name)?.({ id: 'job', data: job.data }, new AbortController().signal)
      } catch (error) {
        failed.push(error)
        this.waiting.push(job)
      }
    }
    return failed
  }
}

/** A log that keeps every line as text, fields included. */
export function keptLog(): Log & { readonly lines: string[] } {
  const lines: string[] = []
  const keep = (first: unknown, second?: unknown) => {
    const { err, ...fields } = (typeof first === 'object' && first !== null ? first : {}) as { err?: Error }
    lines.push(`${String(second ?? first)} ${JSON.stringify(fields)} ${err?.stack ?? ''} ${String(err?.cause ?? '')}`)
  }
  return { ...silentLog, lines, debug: keep, info: keep, warn: keep, error: keep }
}

let shared: Promise<Database> | null = null

/** Everything of notifications as it is composed, with providers that notify (primary by registration, alternate with the
 * account's key), on a database that the tests of one file share unless said. */
export async function fixture(
  t: T,
  options: {
    readonly database?: Database
    /** Fills the primary slot instead of ours. */ readonly inPrimary?: (
      clock: ManualClock
    ) => Provider | Promise<Provider>
  } = {}
) {
  const database = options.database ?? (await (shared ??= openAnyDatabase(tap)))
  const base = await paymentFixture(t, { database })
  const { clock, merchants } = base
  const log = keptLog()
  const primary = new SubscribingProvider('strike', clock)
  const alternate = new SigningProvider('opennode', clock)
  const payees = new Payees(
    {
      primary: { provider: (await options.inPrimary?.(clock)) ?? primary, key: new Secret('the operator key') },
      alternate: { provider: alternate, key: null }
    },
    testSealer
  )
  const registration = new Registration({
    store: new SubscriptionStore(database),
    payees,
    sealer: testSealer,
    clock,
    random: systemRandom,
    log,
    publicUrl: () => 'https://pay.example.com'
  })
  t.teardown(() => registration.close())
  const payments = base.another({
    payees,
    created: (merchant, payment) => {
      registration.charged(merchant, payment.slot, payment.kind)
    }
  })
  const challenges = new ChallengeStore(database)
  const ofPayments = new PaymentCharges(database)
  const ofChallenges = new ChallengeCharges(database)
  const charges = new Charges({
    ofPayments,
    ofChallenges,
    payments,
    settlements: { settled: paymentHash => challenges.settled(paymentHash, clock.now()) }
  })
  const jobs = new HandJobs()
  const notifications = new Notifications({
    database,
    clock,
    random: systemRandom,
    log,
    jobs,
    payees,
    charges,
    registration,
    merchants
  })
  jobs.declare(notifications.jobs)
  const upstream = new InternalUpstream(notificationOperations(notifications))
  const chain = await harness([], { answer: ctx => upstream.handle(ctx) })
  return {
    database,
    clock,
    merchants,
    primary,
    alternate,
    payees,
    payments,
    charges,
    ofPayments,
    ofChallenges,
    jobs,
    registration,
    sealer: testSealer,
    log,
    merchant: base.merchant,
    changes: base.changes,
    another: base.another,
    pay: (merchant: Merchant, different?: Parameters<typeof anInput>[0]) =>
      payments.create(merchant, anInput(different)),
    /** Writes a challenge; of the operator's own route unless said. */
    challenge: async (different?: Partial<NewChallenge>) => {
      const row = aChallenge({
        createdAt: clock.now(),
        expiresAt: clock.now() + 600_000,
        tokenExpiresAt: clock.now() + 3_600_000,
        ...different
      })
      await challenges.insert(database.sql, row)
      return row
    },
    isSettled: async (paymentHash: string) =>
      (await database.sql`select settled_at from challenges where payment_hash = ${paymentHash}`)[0]?.[
        'settled_at'
      ] instanceof Date,
    /** Sends a notification to a receiver. */
    notify: async (
      slot: ProviderSlot,
      body: string | Uint8Array,
      headers: Readonly<Record<string, string>> = {},
      query = ''
    ) => {
      const { status, text } = await chain.run({
        method: 'POST',
        target: `/api/webhooks/${slot}${query}`,
        body,
        headers: { 'content-type': 'text/x-anything', ...headers }
      })
      return { status, text }
    }
  }
}

export type Fixture = Awaited<ReturnType<typeof fixture>>

/** How a charge reads that was paid. */
export function paid(settledAt: number, receivedSats = 10_000): ChargeState {
  return { status: 'paid', receivedSats, settledAt }
}

/** A challenge of the operator's own route. */
export function aChallenge(different: Partial<NewChallenge> = {}): NewChallenge {
  const paymentHash = randomBytes(32).toString('hex')
  return {
    paymentHash,
    source: 'route',
    service: 'boltgate:0',
    merchantId: null,
    proxyId: null,
    place: 'route 1',
    resource: '/v1',
    path: '/v1',
    method: 'GET',
    query: '',
    amountSats: 10,
    price: null,
    asked: null,
    digest: null,
    binding: 'b',
    payment: null,
    wording: { location: 'l402', caveatPath: null },
    tokenId: randomBytes(32).toString('hex'),
    invoice: 'lnbcrt1',
    network: 'regtest',
    chargeId: `charge-${paymentHash.slice(0, 12)}`,
    providerSlot: 'primary',
    providerKind: 'strike',
    clientKey: '203.0.113.1',
    idempotencyKey: null,
    description: '',
    createdAt: 0,
    expiresAt: 600_000,
    tokenExpiresAt: 3_600_000,
    ...different
  }
}
