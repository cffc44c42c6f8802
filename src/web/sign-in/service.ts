import { t } from '../../engine/formats/language.ts'
import type { ApprovedSubscription } from '../admin/schema.ts'
import { type Outbox, oneLine, shortSubject } from '../mail/outbox.ts'
import type { TransactionSql } from '../../platform/database/database.ts'
import { randomToken, rowId } from '../../platform/system/ids.ts'
import { periodic, queue, type JobDeclaration, type Jobs, type JsonObject } from '../../platform/jobs/jobs.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { SealedPlace, Sealer } from '../../platform/keys/secrets.ts'
import { NO_BROWSER, type Browser, type Sessions, type SessionsDependencies, type SignedIn } from './sessions.ts'
import type { Person, SqlSignInStore } from './store.ts'
import { INVITATION_LIFE, LINK_LIFE, MOST_LINKS, digestOf, isSignInToken } from './cookie.ts'
import type { Mail } from '../mail/mail.ts'

const SIGN_IN_QUEUE = 'sign-in'

export interface SignInDependencies extends Pick<
  SessionsDependencies,
  'clock' | 'database' | 'merchants' | 'operators' | 'publicUrl' | 'random'
> {
  readonly store: SqlSignInStore
  readonly sessions: Sessions
  readonly jobs: Pick<Jobs, 'enqueue'>
  readonly outbox: Pick<Outbox, 'queue'>
  readonly sealer: Sealer
  readonly log: Log
}

/** A requested link. Operators see the job at /jobs, so the address is sealed. */
interface LinkJob extends JsonObject {
  readonly id: string
  readonly sealed: string
}

const HOUR = 3_600_000

/** Sign-in by mail (decisions 155 and 170) with single-use links. */
export class SignIns {
  readonly #dependencies: SignInDependencies

  constructor(dependencies: SignInDependencies) {
    this.#dependencies = dependencies
  }

  get jobs(): readonly JobDeclaration[] {
    const { store, sessions, clock } = this.#dependencies
    return [
      queue<LinkJob>(SIGN_IN_QUEUE, { title: 'Sign-in links', concurrency: 2, retries: 3 }, job =>
        this.#send(job.data)
      ),
      periodic('sign-in-purge', HOUR, 'Deletes sign-in links and sessions that are over', async () => {
        await store.purge(clock.now() - LINK_LIFE)
        await sessions.purge()
      })
    ]
  }

  /**
   * Requests a link. A job looks the address up, so that timing and response do not reveal accounts.
   * @throws Unavailable 503 while the database is down
   */
  async request(email: string): Promise<void> {
    const { clock, database, jobs, random, sealer } = this.#dependencies
    const id = rowId(clock.now(), random)
    const job: LinkJob = { id, sealed: sealer.seal(email.trim().toLowerCase(), placeOf(id)) }
    await jobs.enqueue(database.sql, SIGN_IN_QUEUE, job)
  }

  /** Mails a link in the transaction of an approval (`OnApproved`, decision 155). */
  async invite(
    sql: TransactionSql,
    { merchant, subscription }: Pick<ApprovedSubscription, 'merchant' | 'subscription'>
  ): Promise<void> {
    // Linking a subscription does not reactivate an account.
    if (!merchant.isActive) return
    const { clock, store } = this.#dependencies
    const person = await store.person(sql, merchant.email, clock.now())
    await this.mail(sql, {
      person,
      merchantId: merchant.id,
      name: merchant.name,
      requestId: `approval-${subscription.id}`,
      reason: 'approval'
    })
  }

  /**
   * Whether a link is valid. Does not consume it: mail scanners open links.
   * @throws Unavailable
   */
  async isGood(token: string): Promise<boolean> {
    return (
      isSignInToken(token) &&
      (await this.#dependencies.store.link(digestOf(token), this.#dependencies.clock.now())) !== null
    )
  }

  /**
   * Consumes a link and opens a session; null for an invalid one. Of concurrent calls one succeeds.
   * @throws Unavailable
   */
  async signIn(token: string, browser: Browser = NO_BROWSER): Promise<SignedIn | null> {
    if (!isSignInToken(token)) return null
    const { clock, database, sessions, store } = this.#dependencies
    return await database.transaction(async sql => {
      const target = await store.useLink(sql, digestOf(token), clock.now())
      return target === null ? null : await sessions.open(sql, { kind: 'person', ...target, passkeyId: null }, browser)
    })
  }

  /**
   * Mails a link in the caller's transaction. Approvals and first invitations are always sent; others are limited to
   * `MOST_LINKS` in 15 minutes.
   * @returns whether it was mailed
   */
  async mail(sql: TransactionSql, facts: LinkFacts): Promise<boolean> {
    const { person, merchantId, requestId, reason } = facts
    const { clock, log, outbox, publicUrl, random, store } = this.#dependencies
    const now = clock.now()
    if (reason !== 'approval' && (await store.recentLinks(sql, person.id, now - LINK_LIFE)) >= MOST_LINKS) {
      log.warn({ merchantId }, 'sign-in link not mailed: too many links for this address')
      return false
    }
    const token = randomToken(32, random)
    const link = {
      digest: digestOf(token),
      requestId,
      personId: person.id,
      merchantId,
      createdAt: now,
      expiresAt: now + (reason === 'invitation' ? INVITATION_LIFE : LINK_LIFE)
    }
    if (!(await store.insertLink(sql, link))) return false
    await outbox.queue(
      sql,
      linkMail(facts, token, publicUrl()),
      merchantId === null ? 'sign-in link of an operator' : `sign-in link of merchant ${merchantId}`
    )
    return true
  }

  /** Idempotent. */
  async #send({ id, sealed }: LinkJob): Promise<void> {
    const { clock, database, log, merchants, operators, sealer, store } = this.#dependencies
    const email = sealer.open(sealed, placeOf(id)).reveal()
    const account = await store.accountOf(email)
    if (account === null && !operators().includes(email)) {
      log.debug({ request: id }, 'sign-in link requested for an address without a member')
      return
    }
    const merchantId = account?.merchantId ?? null
    const merchant = merchantId === null ? null : await merchants.byId(merchantId)
    await database.transaction(async sql => {
      const person = await store.person(sql, email, clock.now())
      const name = merchant?.name ?? 'operator'
      await this.mail(sql, { person, merchantId: merchant?.id ?? null, name, requestId: id, reason: 'asked' })
    })
  }
}

export interface LinkFacts {
  readonly person: Person
  /** Null for an operator without an account. */
  readonly merchantId: number | null
  /** Of the account. */
  readonly name: string
  readonly requestId: string
  readonly reason: LinkReason
}

function placeOf(id: string): SealedPlace {
  return { table: 'jobs', column: 'sign-in', row: id }
}

/** Cause of a link: a request, an approval (decision 155) or an invitation. */
type LinkReason = 'asked' | 'approval' | 'invitation'

/** Mail with a sign-in link (decision 170), which is a secret. */
function linkMail({ person, name, requestId, reason }: LinkFacts, token: string, publicUrl: string): Mail {
  const where = oneLine(new URL(publicUrl).host)
  const account = oneLine(name)
  const words = {
    asked: {
      subject: t`Sign in to ${where}`,
      greeting: t`Hello ${account},`,
      why: t('Sign in to your account with this link:'),
      end: t('If you did not request this link, you can ignore this email.')
    },
    approval: {
      subject: t`Your account at ${where} is ready`,
      greeting: t`Hello ${account},`,
      why: t('Your subscription is approved. Sign in to your account with this link:'),
      end: t('Your API key is shown there once. It is never sent by email.')
    },
    invitation: {
      subject: t`You are invited to an account at ${where}`,
      greeting: t('Hello,'),
      why: t`An owner of ${account} at ${where} invites you to join the account. Accept with this link:`,
      end: t('If you do not know this account, you can ignore this email.')
    }
  }[reason]
  const life = reason === 'invitation' ? t`${INVITATION_LIFE / 86_400_000} days` : t`${LINK_LIFE / 60_000} minutes`
  return {
    to: person.email,
    subject: shortSubject(words.subject),
    text: [
      words.greeting,
      '',
      words.why,
      '',
      `${publicUrl}/sign-in/${token}`,
      '',
      t`The link works once, for ${life}. Get a new one at ${`${publicUrl}/sign-in`}`,
      words.end,
      ''
    ].join('\n'),
    html: null,
    id: `sign-in.${requestId}`
  }
}
