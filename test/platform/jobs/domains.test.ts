import t from 'tap'
import type { JobDeclaration } from '../../../src/platform/jobs/jobs.ts'
import { SandboxProvider } from '../../../src/lightning/kinds/sandbox/sandbox.ts'
import { SandboxStore } from '../../../src/lightning/kinds/sandbox/store.ts'
import { fixture as challenges } from '../../selling/challenges/fixture.ts'
import { fixture as payments } from '../../payments/payments/fixture.ts'
import { fixtureOn as refunds } from '../../payments/refunds/fixture.ts'
import { openAnyDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'

/** Names of the methods that are asked of `store`, which reject where they are in `broken`. */
function watched<S extends object>(store: S) {
  const [asked, broken] = [new Set<string>(), new Set<string>()]
  const get =
    (target: S, name: string | symbol) =>
    (...args: unknown[]) => {
      asked.add(String(name))
      if (broken.has(String(name))) return Promise.reject(new Error('away'))
      // Only methods are asked for.
      return Reflect.apply(Reflect.get(target, name) as (...given: unknown[]) => unknown, target, args)
    }
  return { store: new Proxy(store, { get }), asked, broken }
}

const database = await openAnyDatabase(t)

const run = (jobs: readonly JobDeclaration[], name: string) => {
  const job = jobs.find(declared => declared.name === name)
  if (job === undefined) throw new Error(`no domain declares ${name}`)
  return job.run({ id: 'job', data: {} }, AbortSignal.abort())
}

/** Each job by the method of its domain's store that it must reach. */
const domains: Readonly<
  Record<
    string,
    () => Promise<readonly [readonly JobDeclaration[], ReturnType<typeof watched>, Record<string, string>]>
  >
> = {
  payments: async () => {
    const made = await payments(t, { database })
    const store = watched(made.store)
    return [
      made.another({ store: store.store }).jobs,
      store,
      { 'payments-expiry': 'unexpired', 'payments-purge': 'purgeReservations' }
    ]
  },
  challenges: async () => {
    const made = await challenges(t)
    const { watched: store } = made
    return [
      made.selling.upkeep.jobs,
      // The store's own watching, in the form of the others'.
      { store: store.store, asked: new Set(), broken: store.broken as Set<string> },
      { 'leases-ambiguous': 'spendLapsed', 'challenges-purge': 'purge' }
    ]
  },
  refunds: async () => {
    const made = await refunds(database)
    const store = watched(made.store)
    return [made.another(store.store).jobs, store, { 'refunds-follow-up': 'takeDue' }]
  },
  sandbox: async () => {
    const store = watched(new SandboxStore(database.sql))
    const sandbox = new SandboxProvider({ store: store.store, nodeKey: Buffer.alloc(32, 7), clock: new ManualClock() })
    return [sandbox.jobs, store, { 'sandbox-purge': 'purge' }]
  }
}

for (const [domain, open] of Object.entries(domains)) {
  await t.test(`periodic jobs of ${domain} do their work, and let failures be seen`, async t => {
    const [jobs, { broken }, reaches] = await open()
    t.same(jobs.map(({ name }) => name).toSorted(), Object.keys(reaches).toSorted())
    for (const { name, every, options } of jobs) {
      t.ok(every !== null && every >= 30_000 && options.title !== '')
      await run(jobs, name)
      broken.add(reaches[name] ?? '')
      await t.rejects(run(jobs, name), name)
      broken.clear()
    }
  })
}
