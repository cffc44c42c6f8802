import type { Merchants } from '../../accounts/merchants/service.ts'
import { UNAUTHORIZED } from '../../engine/operations/error-kinds.ts'
import { LongError, notFound } from '../../engine/operations/errors.ts'
import type { ReadonlyHeaders } from '../../engine/message/headers.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Database } from '../../platform/database/database.ts'
import { randomToken, type Random } from '../../platform/system/ids.ts'
import { queue, type JobDeclaration, type JsonObject, type Jobs } from '../../platform/jobs/jobs.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { Secret, UnsealError } from '../../platform/keys/secrets.ts'
import type { ProviderSlot } from '../../lightning/providers/slot-keys.ts'
import { ProviderNotificationError, ProviderRefused } from '../../lightning/provider-calls/errors.ts'
import type { Payees } from '../../lightning/providers/payees.ts'
import type { SeatView } from '../../lightning/providers/payee.ts'
import type { KindName, ProviderNotification } from '../../lightning/provider-calls/provider.ts'
import type { Charged, Charges } from './charges.ts'
import { type Registration, accountName, ownerKey, ownerOfName, type Owner } from './registration.ts'

interface NotificationsDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly jobs: Pick<Jobs, 'enqueue'>
  readonly payees: Payees
  readonly charges: Charges
  readonly registration: Registration
  readonly merchants: Pick<Merchants, 'byId'>
}

interface CalledReceiver {
  readonly account?: string | null
  /** Token of a kind whose notifications are unsigned. */
  readonly token?: string | null
}

interface Reread extends JsonObject {
  readonly slot: ProviderSlot
  /** Absent in jobs of older versions: any provider of the slot. */
  readonly kind?: KindName
  readonly chargeId: string
}

interface ReadNotification {
  readonly seat: SeatView
  readonly notification: ProviderNotification
}

const QUEUE = 'notifications'
/** Together longer than the hour for which a provider may lock us out. */
const RETRIES = 10
/** Concurrent jobs of each process, and look-ups of one job. */
const CONCURRENCY = 4
const PER_ACCOUNT = 2

/**
 * Receives notifications from providers (contract, Inbound provider webhook receivers; decision 163). A valid signature
 * only starts a job that looks the charge up; the body itself is not trusted. The response is quick (Strike waits 5 s),
 * nothing is lost in a crash, and duplicates share a waiting job. The signature must match the charged account. Where
 * the account's key signs (OpenNode), notifications for a replaced key are refused; the poller finds those payments.
 * Unknown charge ids cannot be verified and are ignored. A provider may send each receiver all events of a shared
 * account (Strike). Such foreign events are genuine and ignored: a refusal would be retried for days.
 */
export class Notifications {
  readonly #dependencies: NotificationsDependencies
  readonly #unknownSender: Secret<string>

  constructor(dependencies: NotificationsDependencies) {
    this.#dependencies = dependencies
    this.#unknownSender = new Secret(randomToken(32, dependencies.random))
  }

  get jobs(): readonly JobDeclaration[] {
    return [
      queue<Reread>(
        QUEUE,
        {
          title: 'Looks up charges that a provider reported as changed',
          concurrency: CONCURRENCY,
          perGroup: PER_ACCOUNT,
          retries: RETRIES
        },
        ({ data }) => this.#reread(data)
      )
    ]
  }

  /** @throws LongError 404 when no provider in the slot sends notifications */
  requireReceiver(slot: ProviderSlot): void {
    if (this.#dependencies.payees.inOrder(slot).every(({ provider }) => provider.readNotification === undefined))
      throw notFound()
  }

  /**
   * Accepts a notification; resolves once its job is written.
   * @throws ProviderNotificationError 400 for an unreadable one, LongError 401 for an invalid signature, 404 as
   * `requireReceiver`; Unavailable 503 when it cannot be written, so that the provider retries
   */
  async receive(
    slot: ProviderSlot,
    { account = null, token = null }: CalledReceiver,
    headers: ReadonlyHeaders,
    body: Uint8Array
  ): Promise<void> {
    this.requireReceiver(slot)
    const read: ReadNotification[] = []
    const unreadable: ProviderNotificationError[] = []
    const seats = this.#dependencies.payees
      .inOrder(slot)
      .filter(({ provider }) => provider.readNotification !== undefined)
    for (const seat of seats) {
      try {
        const notification = seat.provider.readNotification?.(headers, body, token) ?? null
        if (notification !== null) read.push({ seat, notification })
      } catch (error) {
        if (!(error instanceof ProviderNotificationError)) throw error
        unreadable.push(error)
      }
    }
    const [fault] = unreadable
    if (fault !== undefined && unreadable.length === seats.length) throw fault
    await this.#take(slot, account, read)
  }

  /** Of several providers that can read it, the one that made the charge counts. */
  async #take(slot: ProviderSlot, account: string | null, read: readonly ReadNotification[]): Promise<void> {
    const { charges } = this.#dependencies
    for (const { seat, notification } of read) {
      const charged = await charges.find(slot, seat.name, [notification.chargeId])
      if (charged.length > 0) {
        await this.#takeFrom(seat, account, notification, charged)
        return
      }
    }
    for (const { notification } of read) notification.verify(this.#unknownSender)
  }

  async #takeFrom(
    seat: SeatView,
    account: string | null,
    notification: ProviderNotification,
    charged: readonly Charged[]
  ): Promise<void> {
    const { database, jobs, log } = this.#dependencies
    const { slot, name } = seat
    const { chargeId } = notification
    const owners = new Set(charged.map(({ owner }) => owner))
    let verified: Owner | undefined
    for (const owner of owners) if (await this.#isSigned(notification, owner, seat)) verified = owner
    if (verified === undefined) {
      const called = account === null ? undefined : ownerOfName(account)
      if (called !== undefined && !owners.has(called) && (await this.#isSigned(notification, called, seat))) return
      log.warn(
        { slot, provider: name, merchantId: charged[0]?.owner },
        'a notification was refused: it is not signed with the secret of the account that was charged'
      )
      throw new LongError(UNAUTHORIZED, 'Unauthorized', 'The signature of the notification is not valid.')
    }
    await jobs.enqueue(
      database.sql,
      QUEUE,
      { slot, kind: name, chargeId },
      { key: `${slot} ${name} ${chargeId}`, group: `${slot} ${accountName(verified)}` }
    )
  }

  async #isSigned(notification: ProviderNotification, owner: Owner, seat: SeatView): Promise<boolean> {
    const secret = await this.#secretOf(owner, seat)
    return notification.verify(secret ?? this.#unknownSender) && secret !== null
  }

  async #secretOf(owner: Owner, { slot, name, provider }: SeatView): Promise<Secret<string> | null> {
    try {
      return provider.subscribe === undefined
        ? await ownerKey(owner, { slot, kind: name }, this.#dependencies)
        : await this.#dependencies.registration.secretOf(owner, slot, name)
    } catch (error) {
      if (!(error instanceof UnsealError)) throw error
      this.#dependencies.log.error(
        { err: error, merchantId: owner, slot },
        'the secret of notifications cannot be opened'
      )
      return null
    }
  }

  /** Errors that it throws are retried by the queue; permanent ones are logged. */
  async #reread({ slot, kind, chargeId }: Reread): Promise<void> {
    for (const seat of this.#dependencies.payees.inOrder(slot))
      if (kind === undefined || kind === seat.name) await this.#rereadAt(seat, chargeId)
  }

  async #rereadAt(seat: SeatView, chargeId: string): Promise<void> {
    const { charges, log } = this.#dependencies
    const { slot, name } = seat
    for (const charged of await charges.find(slot, name, [chargeId])) {
      try {
        await this.#look(seat, charged)
      } catch (error) {
        if (!(error instanceof ProviderRefused || error instanceof UnsealError)) throw error
        log.warn(
          { err: error, slot, merchantId: charged.owner, chargeId },
          'the provider was not to be asked about a charge that it sent a notification of'
        )
      }
    }
  }

  async #look({ provider, slot, name }: SeatView, charged: Charged): Promise<void> {
    const { charges, log } = this.#dependencies
    const key = await ownerKey(charged.owner, { slot, kind: name }, this.#dependencies)
    const polledAt = this.#dependencies.clock.now()
    const seen = key === null ? null : await provider.lookUp(key, charged.chargeId)
    if (seen !== null) await charges.observe(charged, seen, polledAt)
    else
      log.warn(
        { slot, merchantId: charged.owner, chargeId: charged.chargeId },
        key === null
          ? 'a charge cannot be looked up: its account has no key any more'
          : 'the provider knows nothing of a charge that it sent a notification of'
      )
  }
}
