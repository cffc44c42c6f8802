import { hash } from 'node:crypto'
import { inspect } from 'node:util'
import type { Test as T } from 'tap'
import { decodeInvoice } from '../../../../src/lightning/codecs/bolt11.ts'
import { guarded } from '../../../../src/lightning/provider-calls/breaker.ts'
import { Budgets } from '../../../../src/lightning/provider-calls/budgets.ts'
import { NothingSent, ProviderRefused, ProviderUnavailable } from '../../../../src/lightning/provider-calls/errors.ts'
import { providerKinds } from '../../../../src/lightning/kinds/kinds.ts'
import type {
  ChargeRequest,
  Payout,
  PayoutRequest,
  Provider
} from '../../../../src/lightning/provider-calls/provider.ts'
import { MemoryState } from '../../../../src/platform/state/memory.ts'
import { KeyRing, Sealer } from '../../../../src/platform/keys/secrets.ts'
import type { InvoiceNetwork } from '../../../../src/lightning/codecs/bolt11.ts'
import { Payees } from '../../../../src/lightning/providers/payees.ts'
import { Metrics } from '../../../../src/platform/telemetry/metrics.ts'
import { openTestDatabase, temporaryFolder } from '../../../support/database.ts'
import { TIMEOUT } from '../../open-kind.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import {
  refundOf,
  secret,
  type Paying,
  type Subject,
  type SubjectKind,
  type SubjectParts,
  type Wire
} from './subject.ts'

/** What every kind of provider keeps, stated once and checked against each of them over a fake of its service. */

const request = { amountSats: 2_100, description: 'a quote about money', expirySeconds: 600 }
/** Longer than an invoice's description may be, with what JSON escapes. */
const HASHED = JSON.stringify({ url: `https://api.example.com/${'é"\\'.repeat(300)}` })

type Called = Subject & { readonly wire: Wire }
type Pays = Called & { readonly pays: Paying; readonly provider: Paid }
type Paid = Provider & Required<Pick<Provider, 'createPayout' | 'lookUpPayout'>>
type Lister = Subject & { readonly provider: Provider & Required<Pick<Provider, 'listSettled'>> }

/** What all kinds are opened with. */
type Kept = Pick<SubjectParts, 'database' | 'dataDir'>

interface Row {
  readonly says: string
  run(t: T, subject: Subject): Promise<void>
}

/** A row for all kinds. */
const all = (says: string, run: (t: T, subject: Subject) => Promise<void>) => ({ says, run })

/** A row for kinds that can do something; others skip it and say why. */
const only =
  <S extends Subject>(has: (subject: Subject) => subject is S, without: string) =>
  (says: string, run: (t: T, subject: S) => Promise<void>): Row => ({
    says,
    run: async (t, subject) => {
      if (has(subject)) await run(t, subject)
      else t.pass(`skipped: ${subject.provider.kind} ${without}`)
    }
  })

const called = only((subject): subject is Called => subject.wire !== null, 'is not called over the network')
const lying = only(
  (subject): subject is Called & { readonly wire: { readonly lie: NonNullable<Wire['lie']> } } =>
    subject.wire?.lie !== null && subject.wire !== null,
  'has a fake that tells the truth'
)
const paying = only(
  (subject): subject is Pays => subject.wire !== null && subject.pays !== null,
  'pays in another way, which its own tests show'
)
const listing = only(
  (subject): subject is Lister => subject.provider.listSettled !== undefined && subject.listsFromStream === undefined,
  'has no list of what was settled, or one that its own tests show'
)

const create = ({ provider, key }: Pick<Subject, 'provider' | 'key'>, more: Partial<ChargeRequest> = {}) =>
  provider.createCharge(key, { ...request, ...more })

/** Everything that was settled, by as many calls as the kind wants. */
async function listAll({ provider, key }: Lister, since: number) {
  const found: string[] = []
  let position: string | null = null
  for (let calls = 0; calls < 200; calls++) {
    const list = await provider.listSettled(key, { since, oldest: since, position })
    found.push(...list.charges.map(({ chargeId }) => chargeId))
    position = list.position
    if (list.reach !== 'more') return found
  }
  throw new Error('the list has no end')
}

const sealer = new Sealer(new KeyRing(secret('a master secret of 32 bytes or more')))

/** What a gateway that sells on one network makes of a provider and its key. */
function onNetwork({ provider, key }: Pick<Subject, 'provider' | 'key'>, network: InvoiceNetwork) {
  const payees = new Payees({ primary: { provider, key, network }, alternate: [] }, sealer)
  const place = { table: 'merchants', column: 'primary_key', row: '7' }
  const saved = { ciphertext: sealer.seal(key.reveal(), place), place }
  return {
    create: () => payees.platform().createInvoice(request),
    check: () => payees.validate({ providerChoice: null, primaryKey: saved, alternateKey: null }, 'primary'),
    report: () => payees.report()
  }
}

const fails = async (work: Promise<unknown>) =>
  await work.then(
    () => {
      throw new Error('it was to fail')
    },
    (error: unknown) => error
  )

const rows: readonly Row[] = [
  all('an invoice is over the amount, with the hash and the end of the charge', async (t, subject) => {
    const charge = await create(subject)
    const invoice = decodeInvoice(charge.invoice)
    t.equal(invoice.amountMsat, 2_100_000n)
    t.equal(invoice.paymentHash, charge.paymentHash)
    t.equal(invoice.network, charge.network)
    t.equal(invoice.expiresAt * 1000, charge.expiresAt)
    t.equal(charge.expiresAt, subject.clock.now() + 600_000)
  }),
  all('a hash for the description is in the invoice of each kind that x402 sells by', async (t, subject) => {
    const hashed = { text: HASHED, hash: hash('sha256', HASHED) }
    const charge = await create(subject, { hashed })
    const { descriptionHash, description } = decodeInvoice(charge.invoice)
    const kind = providerKinds.find(({ name }) => name === subject.provider.kind)
    if (kind?.hashesDescriptions === undefined) t.not(descriptionHash, hashed.hash)
    else t.same([descriptionHash, description], [hashed.hash, null])
    await subject.settle(charge)
    t.match(await subject.provider.lookUp(subject.key, charge.chargeId), { status: 'paid' })
  }),
  all('no two invoices are one', async (t, subject) => {
    const charges = [await create(subject), await create(subject), await create(subject)]
    t.equal(new Set(charges.map(({ paymentHash }) => paymentHash)).size, 3)
    t.equal(new Set(charges.map(({ chargeId }) => chargeId)).size, 3)
  }),
  all('a description of any length and any characters makes an invoice', async (t, subject) => {
    for (const description of ['', '⚡'.repeat(400), 'two\nlines\u0001 and "quotes" \\ \ud800', 'a=b&c=d%20+é'])
      t.match(await create(subject, { description }), { chargeId: /./ }, JSON.stringify(description).slice(0, 40))
  }),
  all('an unpaid invoice is unpaid', async (t, subject) => {
    const { chargeId } = await create(subject)
    t.match(await subject.provider.lookUp(subject.key, chargeId), { status: 'unpaid', settledAt: null })
  }),
  all('a paid one is paid, with its amount and when', async (t, subject) => {
    const charge = await create(subject)
    subject.clock.advance(5_000)
    await subject.settle(charge)
    const state = await subject.provider.lookUp(subject.key, charge.chargeId)
    t.equal(state?.status, 'paid')
    t.ok(state?.receivedSats === null || state?.receivedSats === 2_100, String(state?.receivedSats))
    t.ok(Math.abs((state?.settledAt ?? 0) - subject.clock.now()) <= 1_000)
  }),
  all('paid stays paid once its time is over', async (t, subject) => {
    const charge = await create(subject)
    await subject.settle(charge)
    subject.clock.advance(700_000)
    t.match(await subject.provider.lookUp(subject.key, charge.chargeId), { status: /^paid$/ })
  }),
  all('an unknown id is null', async (t, subject) => {
    t.equal(await subject.provider.lookUp(subject.key, 'ab'.repeat(32)), null)
    t.equal(await subject.provider.lookUp(subject.key, '../../etc/passwd?x=1'), null)
  }),
  listing('what was settled is listed, and nothing else', async (t, subject) => {
    const since = subject.clock.now()
    const charges = [await create(subject), await create(subject), await create(subject)]
    subject.clock.advance(2_000)
    for (const charge of charges.slice(0, 2)) await subject.settle(charge)
    t.same((await listAll(subject, since)).toSorted(), [charges[0]?.chargeId, charges[1]?.chargeId].toSorted())
  }),
  listing('a caller that resumes where the list ended misses nothing', async (t, subject) => {
    const since = subject.clock.now()
    const found = new Set<string>()
    const expected = new Set<string>()
    let position: string | null = null
    for (let round = 0; round < 6; round++) {
      for (let count = 0; count <= round; count++) {
        const charge = await create(subject)
        subject.clock.advance(1_000)
        await subject.settle(charge)
        expected.add(charge.chargeId)
        await create(subject)
      }
      for (let calls = 0; calls < 50; calls++) {
        const list = await subject.provider.listSettled(subject.key, { since, oldest: since, position })
        for (const { chargeId } of list.charges) found.add(chargeId)
        position = list.position
        if (list.reach !== 'more') break
      }
      t.same([...found].toSorted(), [...expected].toSorted(), `round ${round}`)
    }
  }),
  all('a good key proves good', async (t, subject) => {
    t.match(await subject.provider.validateKey(subject.key), { isValid: true })
  }),
  all('an unknown key is reported as such, by the check and by every call', async (t, subject) => {
    const { foreign, provider } = subject
    if (foreign === null) return
    const { isValid, message } = await provider.validateKey(foreign)
    t.notOk(isValid)
    const expected = /offline, or the connection was deleted/
    const isSilence = subject.foreignIsSilence === true
    if (isSilence) t.match(message, expected)
    await t.rejects(
      provider.createCharge(foreign, request),
      isSilence ? { fault: 'timeout', message: expected } : ProviderRefused
    )
  }),
  called('a key of another form is refused without a call', async (t, { provider, wire }) => {
    const other = secret('another form of key')
    t.match(await provider.validateKey(other), { isValid: false })
    await t.rejects(provider.createCharge(other, request), { name: 'ProviderRefused', reason: 'key' })
    t.equal(wire.requests(), 0)
  }),
  called('where the connection is refused, certainly nothing was sent', async (t, subject) => {
    const { provider, key, wire } = subject
    const { chargeId } = await create(subject)
    await wire.stop()
    await t.rejects(provider.lookUp(key, chargeId), { status: 503 })
    const error = await fails(provider.createCharge(key, request))
    t.ok(error instanceof NothingSent, String(error))
    t.match(error, { fault: 'network', status: 503 })
    await t.rejects(provider.validateKey(key), { status: 503 }, 'that is no verdict on the key')
  }),
  called('a page of something in front of it and a 5xx are its fault', async (t, { provider, key, wire }) => {
    for (const fault of ['html', 'server error'] as const) {
      wire.fail(fault, wire.on.create)
      await t.rejects(provider.createCharge(key, request), { status: 503, fault: 'server' }, fault)
    }
    t.match(await provider.createCharge(key, request), { chargeId: /./ }, 'and it continues afterwards')
  }),
  called('an HTML page instead of a charge that was looked up is no status of it', async (t, subject) => {
    const { provider, key, wire } = subject
    const { chargeId } = await create(subject)
    wire.fail('html', wire.on.lookUp)
    await t.rejects(provider.lookUp(key, chargeId), { fault: 'server' })
  }),
  called('who hangs while an invoice is made is given up in time', async (t, { provider, key, clock, wire }) => {
    const began = clock.now()
    wire.fail('hang', wire.on.create)
    await t.rejects(provider.createCharge(key, request), { status: 503, fault: 'timeout' })
    t.equal(clock.now() - began, TIMEOUT)
  }),
  called('a provider that hangs while an invoice is looked up gives no status either', async (t, subject) => {
    const { chargeId } = await create(subject)
    subject.wire.fail('hang', subject.wire.on.lookUp)
    await t.rejects(subject.provider.lookUp(subject.key, chargeId), { status: 503, fault: 'timeout' })
  }),
  called('a lost response to an invoice leaves at worst an unknown one', async (t, { provider, key, wire }) => {
    for (const fault of ['lost before', 'lost after'] as const) {
      wire.fail(fault, wire.on.create)
      const charge = await provider.createCharge(key, request).catch((error: unknown) => {
        t.match(error, { status: 503, fault: 'network' }, fault)
        return null
      })
      // A kind that finds it again has not lost it.
      if (charge !== null) t.match(await provider.lookUp(key, charge.chargeId), { status: 'unpaid' })
    }
    t.match(await provider.createCharge(key, request), { chargeId: /./ })
  }),
  lying('an invoice over another amount is no charge', async (t, { provider, key, wire }) => {
    wire.lie('amount')
    await t.rejects(provider.createCharge(key, request), { fault: 'server' })
  }),
  lying('nor is one with another hash than the server says', async (t, { provider, key, wire }) => {
    if (wire.tellsNoHash === true) return
    wire.lie('hash')
    await t.rejects(provider.createCharge(key, request), { fault: 'server' })
  }),
  lying('of an invoice of another network the charge says so, whatever the server is', async (t, subject) => {
    subject.wire.lie('network')
    t.match(await create(subject), { network: 'signet' })
  }),
  lying('nor is it sold with where the gateway sells on the network of the server', async (t, subject) => {
    const { network } = await create(subject)
    const gateway = onNetwork(subject, network)
    t.match(await gateway.create(), { network })
    t.match(await gateway.check(), { isValid: true })
    subject.wire.lie('network')
    await t.rejects(gateway.create(), {
      status: 502,
      reason: 'key',
      message: new RegExp(`one of signet, .* sells on ${network}`)
    })
    t.match(await gateway.create(), { network }, 'and it continues afterwards')
    subject.wire.lie('network')
    const verdict = await gateway.check()
    t.notOk(verdict?.isValid)
    t.match(verdict?.message, 'signet')
    t.match(verdict?.message, network)
  }),
  called(
    'a key of another network than is sold on is refused by its check and makes no invoice',
    async (t, subject) => {
      const { network } = await create(subject)
      const wanted = network === 'mainnet' ? 'testnet' : 'mainnet'
      const gateway = onNetwork(subject, wanted)
      const message = `The provider key is one of ${network}, and this gateway sells on ${wanted}: save a key of ${wanted}.`
      t.same(await gateway.check(), { isValid: false, message })
      await t.rejects(gateway.create(), { status: 502, reason: 'key', message })
    }
  ),
  called("a merchant's bad requests open no breaker for others", async (t, { provider, key, clock, wire }) => {
    const { tooMuch } = wire
    if (tooMuch === null) return
    const behind = guarded(provider, { clock })
    for (let count = 0; count < 12; count++)
      await t.rejects(behind.createCharge(key, { ...request, amountSats: tooMuch }), {
        name: 'ProviderRefused',
        reason: 'request'
      })
    t.match(await behind.createCharge(key, request), { chargeId: /./ })
  }),
  paying('a refund pays its invoice, and is found again', async (t, { provider, key, clock, pays }) => {
    const refund = refundOf(clock, 40)
    const payout = await provider.createPayout(key, refund)
    t.match(payout, { status: 'confirmed', feeSats: 2, transactionHash: null, processedAt: clock.now() })
    t.same(await provider.lookUpPayout(key, refund, payout.payoutId), payout)
    t.same(await provider.lookUpPayout(key, refund, null), payout, 'without its id too')
    t.equal(pays.sendings(), 1)
  }),
  paying('asked twice it pays once', async (t, { provider, key, clock, pays }) => {
    const refund = refundOf(clock, 40)
    const [first, second] = [await provider.createPayout(key, refund), await provider.createPayout(key, refund)]
    t.equal(second.payoutId, first.payoutId)
    t.equal(pays.sendings(), 1)
  }),
  paying('two requests in one moment pay once, and neither reports a failure', async (t, subject) => {
    const { provider, key, clock, pays } = subject
    const refund = refundOf(clock, 40)
    const [first, second] = await Promise.all([provider.createPayout(key, refund), provider.createPayout(key, refund)])
    t.same([first?.status, second?.status], ['confirmed', 'confirmed'])
    t.equal(pays.sendings(), 1)
  }),
  paying('what could not be paid is refused, and can be paid to another invoice', async (t, subject) => {
    const { provider, key, clock, pays } = subject
    pays.outcome('failed')
    const refund = refundOf(clock, 40)
    if (pays.failsAtEnd === true) {
      t.match(await provider.createPayout(key, refund), { status: 'processing' })
      clock.advance(86_400_000)
    } else await t.rejects(provider.createPayout(key, refund), { name: 'ProviderRefused', reason: 'request' })
    const found = await provider.lookUpPayout(key, refund, null)
    t.ok(found === null || found.status === 'failed')
    pays.outcome('paid')
    t.match(await provider.createPayout(key, refundOf(clock, 40)), { status: 'confirmed' })
    t.equal(pays.sendings(), 1)
  }),
  paying(
    'a payment that is held on its way is in flight, and never sent again',
    async (t, { provider, key, clock, pays }) => {
      pays.outcome('pending')
      const refund = refundOf(clock, 40)
      const isUnderWay = (payout: Payout | null) => payout?.status === 'processing' || payout?.status === 'pending'
      const sent = await provider.createPayout(key, refund).catch((error: unknown) => {
        t.match(error, { name: 'PayoutUncertain' })
        return null
      })
      t.ok(sent === null || isUnderWay(sent))
      t.ok(isUnderWay(await provider.lookUpPayout(key, refund, null)))
      t.ok(isUnderWay(await provider.createPayout(key, refund)))
      t.equal(pays.sendings(), 1)
    }
  ),
  paying('an amount goes along with an invoice that has none, and with no other', async (t, subject) => {
    const { provider, key, clock, pays } = subject
    // What says zero leaves the amount to its payer too, and the wallets of sessions write both.
    for (const says of ['none', 'zero'] as const) {
      const refund = refundOf(clock, 40, says)
      if (pays.paysAmountless) t.match(await provider.createPayout(key, refund), { status: 'confirmed' }, says)
      else await t.rejects(provider.createPayout(key, refund), { name: 'ProviderRefused', reason: 'request' })
    }
    t.equal(pays.sendings(), pays.paysAmountless ? 2 : 0)
    // Each fake breaks off where an amount comes with an invoice that has one.
    t.match(await provider.createPayout(key, refundOf(clock, 41)), { status: 'confirmed' })
  }),
  paying('the answer to a payment is lost: it is uncertain, found, and not sent again', async (t, subject) => {
    const { provider, key, clock, pays, wire } = subject
    for (const fault of ['lost after', 'hang after', 'lost before', 'html', 'server error'] as const) {
      const before = pays.sendings()
      const refund = refundOf(clock, 40)
      wire.fail(fault, wire.on.pay)
      const isSent = fault.endsWith('after')
      const error = await fails(provider.createPayout(key, refund))
      // A node's own "no" is one, as long as nothing was sent.
      t.match(error, { name: isSent ? 'PayoutUncertain' : /^(PayoutUncertain|ProviderRefused)$/ }, fault)
      t.equal(pays.sendings() - before, isSent ? 1 : 0)
      const found = await provider.lookUpPayout(key, refund, null)
      t.equal(found?.status ?? null, isSent ? 'confirmed' : null)
      if (isSent) t.same(await provider.createPayout(key, refund), found)
      t.equal(pays.sendings() - before, isSent ? 1 : 0)
    }
  }),
  paying('where the look-up before a payment fails, nothing is sent', async (t, subject) => {
    const { provider, key, clock, pays, wire } = subject
    for (const fault of ['hang', 'lost before', 'html', 'server error'] as const) {
      wire.fail(fault, wire.on.find)
      if (fault === 'lost before') wire.fail(fault, wire.on.find)
      const error = await fails(provider.createPayout(key, refundOf(clock, 40)))
      t.ok(error instanceof ProviderUnavailable, `${fault}: ${String(error)}`)
    }
    t.equal(pays.sendings(), 0)
  }),
  paying('a key that may only receive names what refunds need, and sends nothing', async (t, subject) => {
    const { provider, clock, pays } = subject
    if (pays.receiveOnly === null) return
    const { key, scope, isToldByCheck } = pays.receiveOnly
    t.match(await provider.createCharge(key, request), { chargeId: /./ })
    const error = await fails(provider.createPayout(key, refundOf(clock, 40)))
    t.match(error, { name: 'ProviderRefused', reason: 'scope', scope })
    t.equal(pays.sendings(), 0)
    const verdict = await provider.validateKey(key)
    t.ok(verdict.isValid)
    if (isToldByCheck) t.ok(verdict.message.includes(scope), verdict.message)
  }),
  called('no error shows a key, a preimage or the host', async (t, subject) => {
    const { provider, key, clock, wire, secrets } = subject
    const errors: unknown[] = []
    const { chargeId } = await create(subject)
    for (const fault of ['html', 'server error', 'lost after', 'hang after'] as const) {
      for (const on of [wire.on.create, wire.on.lookUp]) {
        wire.fail(fault, on)
        if (fault === 'lost after') wire.fail(fault, on)
        const work: Promise<unknown> = on === wire.on.create ? create(subject) : provider.lookUp(key, chargeId)
        errors.push(await work.catch((error: unknown) => error))
      }
    }
    const refund: PayoutRequest = refundOf(clock, 40)
    wire.fail('lost after', wire.on.pay)
    if (provider.createPayout !== undefined)
      errors.push(await provider.createPayout(key, refund).catch((error: unknown) => error))
    await wire.stop()
    errors.push(await create(subject).catch((error: unknown) => error))
    const shown = errors.filter(error => error instanceof Error).map(error => inspect(error, { depth: 9 }))
    t.ok(shown.length >= 6)
    for (const text of shown) {
      t.notOk(secrets.some(one => text.includes(one)))
      t.notMatch(text, /127\.0\.0\.1:\d/)
      t.notMatch(text, /preimage/i)
    }
  })
]

/** A thousand invoices, 32 concurrent, as fast as the budget of the kind lets them. */
async function mintThousand(t: T, start: SubjectKind, kept: Kept) {
  const clock = new ManualClock()
  const budgets = new Budgets({ state: new MemoryState(clock), clock, metrics: new Metrics() })
  const { calls } = start.kind
  const subject = await start.start(t, {
    ...kept,
    clock,
    ...(calls && { budget: budgets.of(start.kind.name, '', calls.limits(calls.address, null)) })
  })
  const began = clock.now()
  const hashes = new Set<string>()
  let refused = 0
  while (hashes.size < 1000) {
    let wait = 0
    await Promise.all(
      Array.from({ length: Math.min(32, 1000 - hashes.size) }, async () => {
        try {
          hashes.add((await create(subject)).paymentHash)
        } catch (error) {
          if (!(error instanceof NothingSent) || error.fault !== 'rate') throw error
          refused++
          wait = Math.max(wait, error.retryAfter)
        }
      })
    )
    clock.advance(wait * 1000)
  }
  t.equal(hashes.size, 1000, 'each has a hash of its own')
  if (calls === null || subject.wire === null) return
  const { ofAddress, ofAccount } = calls.limits(calls.address, null)
  const bucket = Object.values(ofAddress)[0] ?? ofAccount
  const minutes = (clock.now() - began) / 60_000
  t.ok(
    subject.wire.requests() <= bucket.burst + bucket.perMinute * minutes + 1,
    `${subject.wire.requests()} calls in ${minutes.toFixed(1)} minutes`
  )
  t.equal(refused > 0, subject.wire.requests() > bucket.burst, `${refused} waited`)
}

/** Runs all rows over kinds. One file for each list of them: together they take longer than one file may. */
export async function keepContract(t: T, subjects: readonly SubjectKind[]): Promise<void> {
  const kept: Kept = { database: await openTestDatabase(t, {}), dataDir: temporaryFolder(t) }
  for (const subject of subjects) {
    await t.test(subject.kind.name, async t => {
      for (const { says, run } of rows) {
        await t.test(says, async t => {
          await run(t, await subject.start(t, { ...kept, clock: new ManualClock() }))
        })
      }
      await t.test('a thousand invoices at 32 concurrent are made within the budget', async t => {
        await mintThousand(t, subject, kept)
      })
    })
  }
}
