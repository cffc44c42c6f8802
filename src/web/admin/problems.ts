import { nullableText } from '../../engine/formats/text-patterns.ts'
import { Type, type Static } from 'typebox'
import type { TrafficProcess } from '../../accounts/traffic/store.ts'
import type { UpstreamTrouble } from '../../engine/upstream/breakers.ts'
import { t } from '../../engine/formats/language.ts'
import { isDown } from '../../lightning/providers/open.ts'
import { iso, isoTimeOrNull } from '../../engine/formats/iso-time.ts'
import type { QueueView } from '../../platform/jobs/jobs.ts'
import {
  bad,
  good,
  PLATFORM_RULES,
  unknown,
  warning,
  type CheckFinding,
  type PlatformFacts
} from './platform-checks.ts'
import type { ReloadNote } from './schema.ts'
import type { ProviderState } from './overview.ts'
import type { OpenWork, OpenWorkName } from './health.ts'
import type { Measured } from '../../accounts/traffic/measured.ts'

/** Effect of a check that is not good on sales and buyers. */
const EFFECTS = {
  database: t('Sales stop with 503. Clients whose token is known are still served.'),
  state: t('Each process counts limits separately, and requests with an Idempotency-Key may be rejected.'),
  upstreams: t('Buyers get 502, then 503 without a charge. Their payments stay valid.'),
  providers: t('Without an invoice a new sale is answered with 503. Paid credentials keep working.'),
  reload: t('None: the previous configuration stays active.'),
  errors: t('Buyers see these errors.'),
  refunds: t('Buyers wait for their money.'),
  sessions: t('Buyers wait for the rest of their deposit.'),
  orders: t('Buyers have paid and wait for their goods.'),
  subscriptions: t('Buyers of a plan wait for their account.'),
  webhooks: t('Merchants may not know about payments.'),
  jobs: t('Webhooks, refunds and mails may be late.'),
  disk: t('At 16 MiB the embedded database becomes read-only, and sales stop.'),
  certificate: t('Clients refuse to connect once it has expired.'),
  files: t('New connections fail when the limit is reached.'),
  clock: t('Tokens and invoices expire at the wrong time.'),
  processes: t('None on sales.')
} as const

const NAMES = Object.keys(EFFECTS) as ReadonlyArray<keyof typeof EFFECTS> /* its own keys */

export const Check = Type.Object({
  name: Type.Enum([...NAMES]),
  state: Type.Enum(['good', 'warning', 'bad'], {
    description: 'bad: something fails; warning: something may fail soon.'
  }),
  says: Type.String({ description: 'Result of the check.' }),
  since: isoTimeOrNull('When it began, or when this process first noticed; null if the state is good.'),
  effect: nullableText('Effect on sales; null if the state is good.'),
  wayOut: nullableText('How to fix it; null if the state is good.')
})
export type Check = Static<typeof Check>
type CheckName = Check['name']

/** A null part could not be read; its check is a warning. */
export interface HealthFacts extends PlatformFacts {
  readonly upstreams: readonly UpstreamTrouble[]
  readonly providers: readonly ProviderState[] | null
  readonly reload: ReloadNote | null
  /** Of the last five minutes. */
  readonly traffic: Measured | null
  readonly lastMinute: Measured | null
  readonly work: OpenWork | null
  readonly queues: readonly QueueView[] | null
  readonly processes: readonly TrafficProcess[] | null
}

/** Missed intervals after which a periodic job is late. */
const LATE = 5
const LATE_AT_LEAST = 300_000
/** Consecutive failures after which an upstream is down; one may be a restart. */
const DOWN_AFTER = 2
/** Shares of failed requests, of at least so many. */
const ERRORS_SOME = 0.05
const ERRORS_MANY = 0.25
const ERRORS_OF = 20

/**
 * Judges everything that can go wrong, worst first. `firstSeen` remembers when a check without a known start came
 * into its state.
 */
export function judge(
  facts: HealthFacts,
  firstSeen: Map<CheckName, Pick<Check, 'state'> & { readonly at: number }> = new Map(),
  names: readonly CheckName[] = NAMES
): Check[] {
  const isThere = facts.database.status !== 'unhealthy'
  const checks = names.flatMap((name): Check[] => {
    const finding = isThere || !NEED_DATABASE.has(name) ? RULES[name](facts) : null
    if (finding === null) return []
    const { says, state, wayOut } = finding
    if (state === 'good') {
      firstSeen.delete(name)
      return [{ name, state, says, since: null, effect: null, wayOut }]
    }
    const before = firstSeen.get(name)
    const seen = before?.state === state ? before : { state, at: facts.now }
    firstSeen.set(name, seen)
    const since = iso(Number.isFinite(finding.since) ? Number(finding.since) : seen.at)
    const effect = name === 'database' && state === 'warning' ? t('None on sales so far.') : t(EFFECTS[name])
    return [{ name, state, says, since, effect, wayOut }]
  })
  return checks.toSorted((one, other) => RANK[one.state] - RANK[other.state])
}

export function judgePlatform(facts: PlatformFacts): Check[] {
  const none = {
    upstreams: [],
    providers: null,
    reload: null,
    traffic: null,
    lastMinute: null,
    work: null,
    queues: null,
    processes: null
  }
  const names = Object.keys(PLATFORM_RULES) as ReadonlyArray<keyof typeof PLATFORM_RULES> /* its own keys */
  return judge({ ...facts, ...none }, new Map(), names)
}

const RANK = { bad: 0, warning: 1, good: 2 } as const
/** Left out while the database is unavailable, whose own check says so. */
const NEED_DATABASE: ReadonlySet<CheckName> = new Set<CheckName>([
  'errors',
  'refunds',
  'sessions',
  'orders',
  'subscriptions',
  'webhooks',
  'jobs',
  'clock',
  'processes'
])

/** Work that people must see to; null without any. */
const work =
  (name: OpenWorkName, state: 'bad' | 'warning', words: (count: number) => string, wayOut: string) =>
  ({ work: open }: HealthFacts): CheckFinding => {
    if (open === null) return unknown()
    const { count, since } = open[name]
    return count === 0 ? good(t('None needs attention.')) : { state, says: words(count), wayOut: t(wayOut), since }
  }

const RULES: Readonly<Record<CheckName, (facts: HealthFacts) => CheckFinding | null>> = {
  ...PLATFORM_RULES,
  upstreams({ upstreams }) {
    const own = upstreams.filter(({ tenant }) => tenant === '')
    const down = own.filter(({ client, failures }) => failures >= DOWN_AFTER && client === null)
    const shown = down.length > 0 ? down : own
    const [first] = shown.toSorted((one, other) => one.since - other.since)
    if (first !== undefined) {
      const says = t`Failing: ${shown.map(({ failures, origin, route }) => t`${route} at ${origin} (failed requests in a row: ${failures})`).join(', ')}.`
      const wayOut = t(
        'Start the upstream or correct its url; Routes shows the last errors. The next request checks it.'
      )
      return (down.length > 0 ? bad : warning)(says, wayOut, first.since)
    }
    const merchants = new Set(upstreams.map(({ tenant }) => tenant)).size
    return merchants === 0
      ? good(t('No upstream fails.'))
      : warning(t`APIs of merchants fail: ${merchants}.`, t('Their consoles say so too. Ask them if it lasts.'))
  },
  providers({ providers: all }) {
    if (all === null) return unknown()
    const failing = all.filter(isDown)
    if (failing.length > 0) {
      const hasOther = all.some(one => one.slot === 'primary' && (one.hasKey || one.kind === 'sandbox') && !isDown(one))
      return (hasOther ? warning : bad)(
        `${t`Failing: ${failing.map(({ failure, kind, slot }) => `${kind} (${slot}) ${t(failure?.reason ?? 'does not respond')}`).join(', ')}.`}${hasOther ? ` ${t('Another provider creates your invoices.')}` : ''}`,
        t("Check the provider's status page, your key and inbound capacity. Calls are retried automatically."),
        Math.min(...failing.map(({ failure }) => (failure === null ? Infinity : Date.parse(failure.since))))
      )
    }
    const hosts = all.flatMap(({ hosts: of }) => of.filter(({ isLeftAlone }) => isLeftAlone))
    if (hosts.length > 0)
      return warning(
        t`Not responding: ${hosts.map(({ host }) => host).join(', ')}.`,
        t('These hosts are named by keys. Only payments with those keys fail; their owners see it in their console.')
      )
    const empty = all.filter(({ budgets }) => budgets.some(({ exhausted }) => exhausted))
    if (empty.length > 0)
      return warning(
        t`Call limit reached: ${empty.map(({ kind }) => kind).join(', ')}.`,
        t('It resets within a minute. If it recurs, ask the provider for a higher limit and set callsPerMinute.')
      )
    const without = all.filter(({ hasKey, kind }) => !hasKey && kind !== 'sandbox')
    return without.length === all.length && all.length > 0
      ? warning(
          t('No provider has your key: only merchants can sell.'),
          t('Set lightning.primary.key to sell the configured routes.')
        )
      : good(t`${all.map(({ kind, slot }) => `${kind} (${slot})`).join(', ')}: no recent failures.`)
  },
  reload({ reload }) {
    if (reload === null || reload.problem === null) return good(t('The active configuration is the current file.'))
    return bad(
      t`The changed file was rejected: ${reload.problem.split('\n', 1)[0] ?? ''}`,
      t('Fix the file; Configuration shows every error. It is reloaded when it is saved.'),
      reload.at
    )
  },
  errors({ lastMinute, traffic }) {
    if (traffic === null || lastMinute === null) return unknown()
    const { requests, serverErrors } = traffic
    const says = t`Failed requests in the last 5 minutes: ${serverErrors} of ${requests}.`
    const isOver = lastMinute.requests > 0 && lastMinute.serverErrors < lastMinute.requests * ERRORS_SOME
    if (isOver || requests < ERRORS_OF || serverErrors < requests * ERRORS_SOME) return good(says)
    const judged = serverErrors < requests * ERRORS_MANY ? warning : bad
    return judged(says, t('Routes shows the last errors of each route, and their lines in the log.'))
  },
  refunds: work(
    'lostRefunds',
    'bad',
    count => t`Refunds with an unknown outcome: ${count}.`,
    t("Look it up in the provider's records, then settle it on Refunds.")
  ),
  sessions: work(
    'stuckSessions',
    'bad',
    count => t`Sessions whose refund failed or has an unknown outcome: ${count}.`,
    t('Retry or settle it on Sessions.')
  ),
  orders: work(
    'refusedOrders',
    'bad',
    count => t`Paid orders that the shop rejected: ${count}.`,
    t('Fix the cause in the shop, then retry on Orders.')
  ),
  subscriptions: work(
    'pendingSubscriptions',
    'warning',
    count => t`Subscriptions to review: ${count}.`,
    t('Approve or reject on Subscriptions.')
  ),
  webhooks: work(
    'failedWebhooks',
    'warning',
    count => t`Webhooks that failed for good in the last 24 hours: ${count}.`,
    t('Merchants resend them in their console. If many fail together, check outgoing connections.')
  ),
  jobs({ now, queues }) {
    if (queues === null) return unknown()
    const late = queues.filter(
      ({ every, lastDone }) =>
        every !== null && lastDone !== null && now - lastDone > Math.max(LATE * every, LATE_AT_LEAST)
    )
    if (late.length > 0)
      return bad(
        t`Overdue: ${late.map(({ title }) => t(title)).join('; ')}.`,
        t('See the Jobs page and the log for the reason. If no process runs jobs, restart the gateway.'),
        Math.min(...late.map(({ lastDone }) => lastDone ?? now))
      )
    // A later success of a periodic job makes up for its failure.
    const failed = queues.filter(
      ({ every, failed: count, lastDone, lastFailed }) =>
        count > 0 && (every === null || (lastDone ?? 0) < (lastFailed ?? Infinity))
    )
    if (failed.length === 0) return good(t`Queues: ${queues.length}. No failed jobs.`)
    return bad(
      t`Failed jobs, which are not retried: ${failed.map(({ failed: count, title }) => `${t(title)} (${count})`).join('; ')}.`,
      t('The Jobs page shows the reason. Fix it, then retry them there.'),
      Math.min(...failed.map(({ lastFailed }) => lastFailed ?? now))
    )
  },
  processes({ processes: all }) {
    if (all === null) return unknown()
    const lost = all.reduce((sum, one) => sum + one.lostMinutes, 0)
    const generations = new Set(all.filter(({ host }) => host === all[0]?.host).map(({ generation }) => generation))
    const list = all.map(({ host, pid }) => `${host} ${pid}`).join(', ')
    if (lost > 0)
      return warning(
        t`Minutes of metrics dropped since the start of ${list}: ${lost}.`,
        t('The database was unavailable for more than an hour. Sales are not affected.')
      )
    if (generations.size > 1)
      return warning(
        t`Processes have loaded the configuration a different number of times: ${list}.`,
        t('This is normal after one of them was restarted. If a change is not in effect everywhere, send SIGHUP.')
      )
    return good(
      all.length === 0
        ? t('No recent requests. Only processes with requests are listed.')
        : t`${all.length} with recent requests: ${list}.`
    )
  }
}
