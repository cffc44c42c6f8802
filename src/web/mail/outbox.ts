import type { Clock } from '../../platform/system/clock.ts'
import type { Database, Sql, TransactionSql } from '../../platform/database/database.ts'
import { queue, type JobDeclaration, type Jobs, type JsonObject } from '../../platform/jobs/jobs.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { withoutTurns } from '../kit/amounts.ts'
import { MailFailed, type Mail, type Mailer } from './mail.ts'
import type { SealedPlace, Sealer } from '../../platform/keys/secrets.ts'

export const MAIL_QUEUE = 'mail'

export interface OutboxDependencies {
  readonly jobs: Pick<Jobs, 'enqueue'>
  readonly database: Pick<Database, 'sql'>
  readonly mailer: Mailer
  readonly sealer: Sealer
  readonly clock: Clock
  readonly log: Log
}

/** A queued mail. Operators see the job at /jobs, so the mail, which may contain a secret link, is sealed. */
interface MailJob extends JsonObject {
  readonly id: string
  /** Description for operators, such as `receipt of payment 123`. */
  readonly about: string
  readonly attempt: number
  readonly sealed: string
  /** Last error; null at the first attempt. */
  readonly last: string | null
}

/** Milliseconds before each retry of a temporary failure. */
const PAUSES: readonly number[] = [1, 5, 30, 120].map(minutes => minutes * 60_000)
const CONCURRENCY = 4

/**
 * Transactional outbox of mail. A job makes up to five attempts; a permanent refusal ends it. Failures stay at /jobs. A
 * crash after sending may duplicate a mail, with the same Message-ID.
 */
export class Outbox {
  readonly #dependencies: OutboxDependencies

  constructor(dependencies: OutboxDependencies) {
    this.#dependencies = dependencies
  }

  get jobs(): readonly JobDeclaration[] {
    return [
      queue<MailJob>(MAIL_QUEUE, { title: 'Mail', concurrency: CONCURRENCY }, (job, signal) =>
        this.#send(job.data, signal)
      )
    ]
  }

  /** Sends a mail after the commit of `sql`. `about` contains no addresses or secrets. */
  async queue(sql: TransactionSql | Sql, mail: Mail, about: string): Promise<void> {
    const sealed = this.#dependencies.sealer.seal(JSON.stringify(mail), placeOf(mail.id))
    await this.#enqueue(sql, { id: mail.id, about, attempt: 1, sealed, last: null })
  }

  async #enqueue(sql: TransactionSql | Sql, job: MailJob, startAfter?: number): Promise<void> {
    await this.#dependencies.jobs.enqueue(sql, MAIL_QUEUE, job, {
      key: `${job.id} ${job.attempt}`,
      ...(startAfter === undefined ? {} : { startAfter })
    })
  }

  async #send(job: MailJob, signal: AbortSignal): Promise<void> {
    const { mailer, sealer, database, clock, log } = this.#dependencies
    // Written by `queue` and authenticated by its seal.
    const mail = JSON.parse(sealer.open(job.sealed, placeOf(job.id)).reveal()) as Mail
    try {
      await mailer.send(mail, signal)
    } catch (error) {
      const pause = PAUSES[job.attempt - 1]
      // On shutdown the job is released unchanged.
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

/** Removes line ends, which could forge lines, and bidirectional controls. */
export function oneLine(text: string): string {
  return withoutTurns(text)
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim()
}

const LONGEST_SUBJECT = 200

export function shortSubject(subject: string): string {
  const characters = [...subject]
  return characters.length > LONGEST_SUBJECT ? `${characters.slice(0, LONGEST_SUBJECT).join('')}…` : subject
}
