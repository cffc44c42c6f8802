import { UNAUTHORIZED } from '../../engine/operations/error-kinds.ts'
import { LongError, notFound } from '../../engine/operations/errors.ts'
import type { ReadonlyHeaders } from '../../engine/message/headers.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Database } from '../../platform/database/database.ts'
import { randomToken, type Random } from '../../platform/system/ids.ts'
import { queue, type JobDeclaration, type JsonObject, type Jobs } from '../../platform/jobs/jobs.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { Secret, UnsealError } from '../../platform/keys/secrets.ts'
import type { ProviderAccount, ProviderSlot } from '../../lightning/providers/account.ts'
import { ProviderNotificationError, ProviderRefused } from '../../lightning/provider-calls/errors.ts'
import type { Payees, SeatView } from '../../lightning/providers/payees.ts'
import type { KindName, ProviderNotification } from '../../lightning/providers/provider.ts'
import type { Charged, Charges } from './charges.ts'
import type { Registration } from './registration.ts'
import { accountName, ownerOfName, type Owner } from './subscriptions.ts'

/** What the receivers are made of. */
export interface NotificationsParts {
  readonly database: Database
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly jobs: Pick<Jobs, 'enqueue'>
  readonly payees: Pick<Payees, 'inOrder' | 'key'>
  readonly charges: Pick<Charges, 'find' | 'observe'>
  readonly registration: Pick<Registration, 'secretOf'>
  /** Null when the account is gone. */
  merchant(id: number): Promise<ProviderAccount | null>
}

/** What the address of a receiver holds that was called. */
export interface CalledReceiver {
  /** Whose receiver it is. */
  readonly account?: string | null
  /** What a kind wrote into the address that signs nothing. */
  readonly token?: string | null
}

/** What a job of ours is about. */
interface Reread extends JsonObject {
  readonly slot: ProviderSlot
  /** The provider in it; any of the slot where an earlier version wrote the job. */
  readonly kind?: KindName
  readonly chargeId: string
}

/** A notification, with the provider of the slot that can read it. */
interface ReadNotification {
  readonly seat: SeatView
  readonly notification: ProviderNotification
}

const QUEUE = 'notifications'
/** The pauses between them add up to more than the hour for which a provider may lock us out. */
const RETRIES = 10
/** Accounts that are asked at once in each process, and look-ups of one of them. */
const CONCURRENCY = 4
const PER_ACCOUNT = 2

/**
 * Notifications from providers (contract, Inbound provider webhook receivers; decision 163). One says whom it is about
 * and nothing else that is believed: once its signature holds, a job is written that asks the provider how the charge
 * stands, and only then it is answered. So the response is quick (Strike waits 5 s), nothing is lost when the process
 * dies, and duplicates that come while the job waits are one.
 *
 * A signature must hold for the account that was charged. Where the account's own key signs (OpenNode), notifications
 * of charges that were made with a key that has been replaced are refused, because the old key is not kept; the poller
 * finds those payments with the new one. An id that nobody here was charged under cannot be checked and is ignored;
 * that it is unknown is all that can be learnt here without a secret (decision 163), and ids of charges are not to be
 * guessed.
 *
 * A provider may tell every receiver that was registered with one account about all of its charges (Strike), so where
 * two of our accounts share one there, each receiver also hears of the other's charges. What a receiver's own secret
 * signed is genuine and no business of its account: ignored, and not refused, or it would be sent for days.
 */
export class Notifications {
  readonly #parts: NotificationsParts
  readonly #nobody: Secret<string>

  constructor(parts: NotificationsParts) {
    this.#parts = parts
    this.#nobody = new Secret(randomToken(32, parts.random))
  }

  get jobs(): readonly JobDeclaration[] {
    return [
      queue<Reread>(
        QUEUE,
        {
          title: 'Providers said that a charge has changed: ask how it stands',
          concurrency: CONCURRENCY,
          perGroup: PER_ACCOUNT,
          retries: RETRIES
        },
        ({ data }) => this.#reread(data)
      )
    ]
  }

  /** @throws LongError 404 where nobody in the slot sends notifications */
  requireReceiver(slot: ProviderSlot): void {
    if (this.#parts.payees.inOrder(slot).every(({ provider }) => provider.readNotification === undefined))
      throw notFound()
  }

  /**
   * Takes a notification in; resolves once what follows from it is written. `called` is what the called address says:
   * whose receiver it is, and a token of ours, if anything.
   * @throws ProviderNotificationError 400 for one that cannot be read, LongError 401 for one that is not signed by whom
   *   it should be, 404 as `requireReceiver`; Unavailable 503 when it cannot be written, so that it is sent again
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
    const seats = this.#parts.payees.inOrder(slot).filter(({ provider }) => provider.readNotification !== undefined)
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

  /** Of several that can read it, it is of the one that made the charge. */
  async #take(slot: ProviderSlot, account: string | null, read: readonly ReadNotification[]): Promise<void> {
    const { charges } = this.#parts
    for (const { seat, notification } of read) {
      const charged = await charges.find(slot, seat.name, [notification.chargeId])
      if (charged.length > 0) {
        await this.#takeFrom(seat, account, notification, charged)
        return
      }
    }
    for (const { notification } of read) notification.verify(this.#nobody)
  }

  async #takeFrom(
    seat: SeatView,
    account: string | null,
    notification: ProviderNotification,
    charged: readonly Charged[]
  ): Promise<void> {
    const { database, jobs, log } = this.#parts
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
    return notification.verify(secret ?? this.#nobody) && secret !== null
  }

  /** What signs notifications about the account: its registration's secret, or its key where none is registered. */
  async #secretOf(owner: Owner, { slot, name, provider }: SeatView): Promise<Secret<string> | null> {
    try {
      return provider.subscribe === undefined
        ? await this.#keyOf(owner, slot, name)
        : await this.#parts.registration.secretOf(owner, slot, name)
    } catch (error) {
      if (!(error instanceof UnsealError)) throw error
      this.#parts.log.error({ err: error, merchantId: owner, slot }, 'the secret of notifications cannot be opened')
      return null
    }
  }

  async #keyOf(owner: Owner, slot: ProviderSlot, kind: KindName): Promise<Secret<string> | null> {
    const account = owner === null ? null : await this.#parts.merchant(owner)
    return owner !== null && account === null ? null : this.#parts.payees.key(account, slot, kind)
  }

  /** What throws is tried again by the queue; what no later look could change is logged and done with. */
  async #reread({ slot, kind, chargeId }: Reread): Promise<void> {
    for (const seat of this.#parts.payees.inOrder(slot))
      if (kind === undefined || kind === seat.name) await this.#rereadAt(seat, chargeId)
  }

  async #rereadAt(seat: SeatView, chargeId: string): Promise<void> {
    const { charges, log } = this.#parts
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
    const { charges, log } = this.#parts
    const key = await this.#keyOf(charged.owner, slot, name)
    const askedAt = this.#parts.clock.now()
    const seen = key === null ? null : await provider.lookUp(key, charged.chargeId)
    if (seen !== null) await charges.observe(charged, seen, askedAt)
    else
      log.warn(
        { slot, merchantId: charged.owner, chargeId: charged.chargeId },
        key === null
          ? 'a charge cannot be looked up: its account has no key any more'
          : 'the provider knows nothing of a charge that it sent a notification of'
      )
  }
}
