import { hash } from 'node:crypto'
import type { ApprovedSubscription } from '../admin/schema.ts'
import type { Outbox } from '../mail/outbox.ts'
import type { Merchant } from '../merchants/schema.ts'
import type { Merchants } from '../merchants/service.ts'
import type { Clock } from '../system/clock.ts'
import type { Database, TransactionSql } from '../database/database.ts'
import { randomToken, rowId, type Random } from '../system/ids.ts'
import { periodic, queue, type JobDeclaration, type Jobs, type JsonObject } from '../jobs/jobs.ts'
import type { Log } from '../telemetry/log.ts'
import { Secret, type SealedPlace, type Sealer } from '../keys/secrets.ts'
import { LINK_LIFE, SESSION_LIFE } from './lives.ts'
import { linkMail } from './mail.ts'
import type { SignInStore } from './store.ts'

/** The queue of links that were asked for, as it is called at /jobs. */
const SIGN_IN_QUEUE = 'sign-in'

/** What signing in works with. */
export interface SignInParts {
  readonly store: SignInStore
  readonly database: Database
  readonly merchants: Merchants
  readonly jobs: Pick<Jobs, 'enqueue'>
  readonly outbox: Pick<Outbox, 'queue'>
  readonly sealer: Sealer
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  publicUrl(): string
}

/** Somebody has just signed in. */
export interface SignedIn {
  /** What the browser keeps; only its digest is stored. */
  readonly token: Secret<string>
  /** Milliseconds since the epoch. */
  readonly expiresAt: number
}

/** Who is signed in. */
export interface CurrentSession {
  readonly merchant: Merchant
  /** Milliseconds since the epoch. */
  readonly expiresAt: number
}

/** A link that somebody asked for. Operators see this at /jobs, so the address is sealed. */
interface LinkJob extends JsonObject {
  readonly id: string
  readonly sealed: string
}

/** Links to one account in the life of a link; more requests send nothing, whatever addresses they come from. */
const MOST_LINKS = 5
/** 32 random bytes in base64url. */
const TOKEN = /^[A-Za-z0-9_-]{43}$/
const HOUR = 3_600_000

/** Signing in by mail (decisions 155 and 170): links that work once, and the sessions that they open. */
export class SignIns {
  readonly #parts: SignInParts

  constructor(parts: SignInParts) {
    this.#parts = parts
  }

  get jobs(): readonly JobDeclaration[] {
    const { store, clock } = this.#parts
    return [
      queue<LinkJob>(SIGN_IN_QUEUE, { title: 'Sign-in links', concurrency: 2, retries: 3 }, job =>
        this.#send(job.data)
      ),
      periodic('sign-in-purge', HOUR, 'Deletes sign-in links and sessions that are over', () =>
        store.purge(clock.now() - LINK_LIFE)
      )
    ]
  }

  /**
   * Somebody asks for a link. Whether an account has the address is looked up later, by a job: the request takes the
   * same time and says the same either way.
   * @throws Unavailable 503 while the database is away
   */
  async request(email: string): Promise<void> {
    const { clock, database, jobs, random, sealer } = this.#parts
    const id = rowId(clock.now(), random)
    const job: LinkJob = { id, sealed: sealer.seal(email.trim().toLowerCase(), placeOf(id)) }
    await jobs.enqueue(database.sql, SIGN_IN_QUEUE, job)
  }

  /** Mails a link to the merchant of an approval, in its transaction: the hook `OnApproved` (decision 155). */
  async invite(
    sql: TransactionSql,
    { merchant, subscription }: Pick<ApprovedSubscription, 'merchant' | 'subscription'>
  ): Promise<void> {
    // A deactivated account stays so when a subscription is linked to it, and nobody may sign in to it.
    if (merchant.isActive) await this.#mail(sql, merchant, `approval-${subscription.id}`, true)
  }

  /** Whether a link can be used. Looking does not use it up: mail is read by scanners too. @throws Unavailable */
  async isGood(token: string): Promise<boolean> {
    return TOKEN.test(token) && (await this.#parts.store.link(digestOf(token), this.#parts.clock.now())) !== null
  }

  /**
   * Uses a link up and opens a session; null for one that is unknown, used or over. Of many at once one succeeds.
   * @throws Unavailable
   */
  async signIn(token: string): Promise<SignedIn | null> {
    if (!TOKEN.test(token)) return null
    const { clock, database, random, store } = this.#parts
    const now = clock.now()
    const session = randomToken(32, random)
    const expiresAt = now + SESSION_LIFE
    return await database.transaction(async sql => {
      const merchantId = await store.useLink(sql, digestOf(token), now)
      if (merchantId === null) return null
      await store.insertSession(sql, { digest: digestOf(session), merchantId, createdAt: now, expiresAt })
      return { token: new Secret(session), expiresAt }
    })
  }

  /** Who is signed in with this token; null for nobody. @throws Unavailable */
  async session(token: string | null): Promise<CurrentSession | null> {
    if (token === null || !TOKEN.test(token)) return null
    const session = await this.#parts.store.session(digestOf(token), this.#parts.clock.now())
    const merchant = session === null ? null : await this.#parts.merchants.byId(session.merchantId)
    return session === null || merchant === null || !merchant.isActive
      ? null
      : { merchant, expiresAt: session.expiresAt }
  }

  /** Ends a session; nothing for one that is over. @throws Unavailable */
  async signOut(token: string): Promise<void> {
    if (TOKEN.test(token)) await this.#parts.store.endSession(digestOf(token))
  }

  /** It may run twice, and mails once. */
  async #send({ id, sealed }: LinkJob): Promise<void> {
    const { database, log, merchants, sealer } = this.#parts
    const merchant = await merchants.byEmail(sealer.open(sealed, placeOf(id)).reveal())
    if (merchant === null || !merchant.isActive) {
      log.debug({ request: id }, 'a sign-in link was asked for, and no account that may sign in has the address')
      return
    }
    await database.transaction(sql => this.#mail(sql, merchant, id, false))
  }

  async #mail(sql: TransactionSql, merchant: Merchant, requestId: string, approved: boolean): Promise<void> {
    const { clock, log, outbox, publicUrl, random, store } = this.#parts
    const now = clock.now()
    if (!approved && (await store.recentLinks(sql, merchant.id, now - LINK_LIFE)) >= MOST_LINKS) {
      log.warn({ merchantId: merchant.id }, 'no further sign-in link was mailed to an account that was given many')
      return
    }
    const token = randomToken(32, random)
    const link = {
      digest: digestOf(token),
      requestId,
      merchantId: merchant.id,
      createdAt: now,
      expiresAt: now + LINK_LIFE
    }
    if (!(await store.insertLink(sql, link))) return
    await outbox.queue(
      sql,
      linkMail({ to: merchant.email, name: merchant.name, token, requestId, publicUrl: publicUrl(), approved }),
      `sign-in link of merchant ${merchant.id}`
    )
  }
}

function digestOf(token: string): Buffer {
  return hash('sha256', token, 'buffer')
}

function placeOf(id: string): SealedPlace {
  return { table: 'jobs', column: 'sign-in', row: id }
}
