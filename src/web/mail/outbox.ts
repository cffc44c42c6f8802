import type { Clock } from '../../platform/system/clock.ts'
import type { Database, Sql, TransactionSql } from '../../platform/database/database.ts'
import { queue, type JobDeclaration, type Jobs, type JsonObject } from '../../platform/jobs/jobs.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { MailFailed, type Mail, type Mailer } from './mail.ts'
import type { SealedPlace, Sealer } from '../../platform/keys/secrets.ts'

/** The queue of mail, as it is called at /jobs. */
export const MAIL_QUEUE = 'mail'

/** What the outbox works with. */
export interface OutboxParts {
  readonly jobs: Pick<Jobs, 'enqueue'>
  readonly database: Pick<Database, 'sql'>
  readonly mailer: Mailer
  readonly sealer: Sealer
  readonly clock: Clock
  readonly log: Log
}

/** A mail that waits. Operators see this at /jobs, so the mail itself, which may hold a secret link, is sealed. */
interface MailJob extends JsonObject {
  readonly id: string
  /** What it is, for operators, such as `receipt of payment 123`. */
  readonly about: string
  /** From 1. */
  readonly attempt: number
  readonly sealed: string
  /** Why the attempt before went wrong; null at the first. */
  readonly last: string | null
}

/** Milliseconds before each further attempt, after failures that may pass. */
const PAUSES: readonly number[] = [1, 5, 30, 120].map(minutes => minutes * 60_000)
const CONCURRENCY = 4

/**
 * Mail on its way. It is kept with what it is about, in one transaction, and sent afterwards by a job: five attempts in
 * all where the mail server is away or busy, one where it refuses the mail itself. What failed stays at /jobs with its
 * reason. A mail may arrive twice when a process is killed between sending it and saying so; both have the same
 * Message-ID.
 */
export class Outbox {
  readonly #parts: OutboxParts

  constructor(parts: OutboxParts) {
    this.#parts = parts
  }

  get jobs(): readonly JobDeclaration[] {
    return [
      queue<MailJob>(MAIL_QUEUE, { title: 'Mail', concurrency: CONCURRENCY }, (job, signal) =>
        this.#send(job.data, signal)
      )
    ]
  }

  /** Sends a mail once the transaction of `sql` is committed. `about` says what it is, without addresses and secrets. */
  async queue(sql: TransactionSql | Sql, mail: Mail, about: string): Promise<void> {
    const sealed = this.#parts.sealer.seal(JSON.stringify(mail), placeOf(mail.id))
    await this.#enqueue(sql, { id: mail.id, about, attempt: 1, sealed, last: null })
  }

  async #enqueue(sql: TransactionSql | Sql, job: MailJob, startAfter?: number): Promise<void> {
    await this.#parts.jobs.enqueue(sql, MAIL_QUEUE, job, {
      key: `${job.id} ${job.attempt}`,
      ...(startAfter === undefined ? {} : { startAfter })
    })
  }

  async #send(job: MailJob, signal: AbortSignal): Promise<void> {
    const { mailer, sealer, database, clock, log } = this.#parts
    // Written by `queue` and authenticated by its seal.
    const mail = JSON.parse(sealer.open(job.sealed, placeOf(job.id)).reveal()) as Mail
    try {
      await mailer.send(mail, signal)
    } catch (error) {
      const pause = PAUSES[job.attempt - 1]
      // When the gateway stops, the job is given back as it is.
      if (!(error instanceof MailFailed) || !error.temporary || pause === undefined || signal.aborted) throw error
      log.warn(
        { mail: job.id, about: job.about, attempt: job.attempt, reason: error.message, again: pause / 1000 },
        'a mail could not be sent; it is tried again'
      )
      await this.#enqueue(database.sql, { ...job, attempt: job.attempt + 1, last: error.message }, clock.now() + pause)
      return
    }
    log.debug({ mail: job.id, about: job.about }, 'a mail was sent')
  }
}

function placeOf(id: string): SealedPlace {
  return { table: 'jobs', column: 'mail', row: id }
}
