import { t } from '../../engine/formats/language.ts'
import type { Health } from '../../platform/database/database.ts'

/** Known without a running gateway. */
export interface PlatformFacts {
  readonly now: number
  readonly database: Health
  readonly isEmbedded: boolean
  /** Major version of PostgreSQL. */
  readonly version: number | null
  /** Settings of PostgreSQL that are not fit for production. */
  readonly flaws: readonly string[]
  /** Null for memory, false while it does not respond; `ahead`: milliseconds that its clock is ahead. */
  readonly redis: { readonly policy: string; readonly ahead: number } | false | null
  /** Free bytes of the data folder. */
  readonly free: number | null
  readonly openFiles: number | undefined
  /** End of validity of the certificate of `server.tls` that expires first; undefined without TLS. */
  readonly certificateUntil: Date | null | undefined
  /** Milliseconds that the database's clock is ahead. */
  readonly clockOff: number | null
}

export interface CheckFinding {
  readonly state: 'good' | 'warning' | 'bad'
  readonly says: string
  readonly wayOut: string | null
  /** Absent where the start is unknown. */
  readonly since?: number | null | undefined
}

const MiB = 1024 ** 2
/** Warning and error thresholds; the embedded database becomes read-only at 16 MiB. */
const DISK_LOW = 1024 * MiB
const DISK_FULL = 64 * MiB
/** Open files below which a warning is due: a request needs two connections. */
const FILES_FEW = 4096
const DAY = 86_400_000
/** Days of validity below which a certificate should have been renewed: certbot renews at 30. */
const CERTIFICATE_SOON = 14
const CERTIFICATE_LAST = 3
/** Tolerated clock skew of the database. */
const CLOCK_OFF = 2_000
const CLOCK_BAD = 30_000

export const good = (says: string): CheckFinding => ({ state: 'good', says, wayOut: null })
export const warning = (says: string, wayOut: string, since?: number | null): CheckFinding => ({
  state: 'warning',
  says,
  wayOut,
  since
})
export const bad = (says: string, wayOut: string, since?: number | null): CheckFinding => ({
  state: 'bad',
  says,
  wayOut,
  since
})

export const unknown = (): CheckFinding =>
  warning(t('This check failed.'), t('Check the database first, then reload the page.'))

export function expiry(until: Date, now: number): CheckFinding {
  const days = Math.floor((until.getTime() - now) / DAY)
  const date = until.toISOString().slice(0, 10)
  const words = days < 0 ? t`The TLS certificate expired on ${date}.` : t`The TLS certificate expires on ${date}.`
  if (days >= CERTIFICATE_SOON) return good(words)
  return (days < CERTIFICATE_LAST ? bad : warning)(
    words,
    t('Renew the files of `server.tls`. The gateway uses them within 30 seconds.')
  )
}

export const PLATFORM_RULES = {
  database({ database: { error, ms, status }, flaws, isEmbedded, version }) {
    const kind = isEmbedded ? t('The embedded database') : `PostgreSQL${version === null ? '' : ` ${version}`}`
    if (status === 'healthy' && flaws.length > 0)
      return warning(
        t`${kind} responds, but ${flaws.join('; ')}.`,
        t('Correct it in postgresql.conf and restart PostgreSQL; workers times database.connections must fit.')
      )
    if (status === 'healthy') return good(t`${kind} responds in ${Math.ceil(ms)} ms and accepts writes.`)
    if (status === 'degraded')
      return warning(
        t`${kind} responds slowly: ${Math.round(ms)} ms.`,
        t('Check its load and disk. Above 3 seconds the gateway responds 503 and sells nothing.')
      )
    return bad(
      `${t`${kind} is unavailable.`} ${error ?? ''}`.trim(),
      isEmbedded
        ? t('Free disk space for the data folder. If its process has exited, restart the gateway.')
        : t('Start PostgreSQL or correct database.url. No data is lost; the gateway reconnects automatically.')
    )
  },
  state({ redis }) {
    if (redis === null) return good(t('Counters and idempotency records are in the memory of this process.'))
    if (redis === false)
      return bad(
        t('Redis does not respond.'),
        t('Start Redis or correct state.url. The gateway reconnects automatically.')
      )
    return redis.policy === 'noeviction'
      ? good(t('Redis responds.'))
      : warning(
          t`maxmemory-policy is ${redis.policy}: a full Redis drops counters and idempotency records.`,
          t('Set maxmemory-policy to noeviction, and enough maxmemory.')
        )
  },
  disk({ free }) {
    if (free === null) return unknown()
    const words = t`${free >= DISK_LOW ? `${Math.floor(free / (1024 * MiB))} GiB` : `${Math.floor(free / MiB)} MiB`} free on the disk of the data folder.`
    if (free >= DISK_LOW) return good(words)
    return (free < DISK_FULL ? bad : warning)(
      words,
      t('Free disk space. Mail and the embedded database, if used, are written there.')
    )
  },
  certificate({ certificateUntil, now }) {
    if (certificateUntil === undefined) return null
    if (certificateUntil === null) return unknown()
    return expiry(certificateUntil, now)
  },
  files({ openFiles }) {
    if (openFiles === undefined) return null
    const words = t`This process may open ${openFiles} files.`
    return openFiles >= FILES_FEW
      ? good(words)
      : warning(words, t('Raise LimitNOFILE of the systemd unit, or the nofile limit of the container, to 65536.'))
  },
  clock({ clockOff, redis }) {
    if (clockOff === null) return unknown()
    const ofRedis = redis ? redis.ahead : 0
    const [off, whose] = Math.abs(ofRedis) > Math.abs(clockOff) ? [ofRedis, 'Redis'] : [clockOff, t('the database')]
    const ms = Math.abs(off)
    const words =
      off > 0
        ? t`This machine's clock is ${ms} ms behind ${whose}.`
        : t`This machine's clock is ${ms} ms ahead of ${whose}.`
    if (ms <= CLOCK_OFF) return good(words)
    return (ms > CLOCK_BAD ? bad : warning)(
      words,
      t('Sync the clocks with NTP. Tokens, invoices and leases expire by them.')
    )
  }
} satisfies Record<string, (facts: PlatformFacts) => CheckFinding | null>
