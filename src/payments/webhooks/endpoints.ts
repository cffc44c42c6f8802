import type { Database, Sql, TransactionSql } from '../../platform/database/database.ts'
import { column, flag, integer, moment, records, text, type RecordOf } from '../../platform/database/rows.ts'
import { RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import type { Secret, SealedPlace, Sealer } from '../../platform/keys/secrets.ts'
import { webhookEndpointsUsedUp } from '../../accounts/merchants/plans.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import { newWebhookSecret, type Merchants } from '../../accounts/merchants/service.ts'
import { webhookAddress } from '../../accounts/merchants/webhook-address.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { rowId, type Random } from '../../platform/system/ids.ts'
import type { WebhookEvent } from './schema.ts'
import { isWebhookId, type WebhookStore } from './store.ts'

const endpointColumns = {
  id: text(),
  merchantId: integer(),
  url: text(),
  /** Sealed signing secret. */
  secret: text(),
  events: column(
    null,
    (stored: readonly WebhookEvent[] | null) => stored,
    chosen => (chosen === null ? null : [...chosen])
  ),
  isActive: flag(),
  createdAt: moment()
}
export type WebhookEndpoint = RecordOf<typeof endpointColumns>
const endpointRows = records(endpointColumns)

export interface IssuedEndpoint {
  readonly endpoint: WebhookEndpoint
  readonly secret: Secret<string>
}

export type EndpointChoice = Pick<WebhookEndpoint, 'url' | 'events' | 'isActive'>

export interface WebhookEndpointsDependencies {
  readonly database: Database
  readonly store: WebhookStore
  readonly merchants: Pick<Merchants, 'byId' | 'caps' | 'webhookSecret'>
  readonly sealer: Sealer
  readonly clock: Clock
  readonly random: Random
  /** Whether private addresses are refused. */
  readonly production: boolean
}

/** Address and signing secret of an endpoint. */
export interface WebhookTarget {
  readonly url: string
  readonly isActive: boolean
  /**
   * Null without one.
   * @throws UnsealError
   */
  secret(): Secret<string> | null
}

export const REMOVED = 'The webhook endpoint was removed.'
export const PAUSED = 'The webhook endpoint was paused.'

/**
 * Webhook endpoints beside the contract's webhook URL. Deliveries use the address and secret at the time of sending.
 */
export class WebhookEndpoints {
  readonly #dependencies: WebhookEndpointsDependencies

  constructor(dependencies: WebhookEndpointsDependencies) {
    this.#dependencies = dependencies
  }

  /**
   * Oldest first.
   * @throws Unavailable when the database is down
   */
  async list(merchantId: number): Promise<WebhookEndpoint[]> {
    return await endpointRows.all(
      this.#dependencies.database
        .sql`select * from webhook_endpoints where merchant_id = ${merchantId} order by created_at, id`
    )
  }

  async find(sql: Sql | TransactionSql, merchantId: number, id: string): Promise<WebhookEndpoint | null> {
    if (!isWebhookId(id)) return null
    return await endpointRows.one(sql`
      select * from webhook_endpoints where merchant_id = ${merchantId} and id = ${id}`)
  }

  /** Where events go; the account's first endpoint without an id. Null where there is none. */
  async target(sql: Sql | TransactionSql, merchantId: number, id: string | null): Promise<WebhookTarget | null> {
    const { merchants, sealer } = this.#dependencies
    if (id !== null) {
      const endpoint = await this.find(sql, merchantId, id)
      return endpoint && { ...endpoint, secret: () => sealer.open(endpoint.secret, placeOf(id)) }
    }
    const merchant = await merchants.byId(merchantId)
    const url = merchant?.webhookUrl ?? null
    return merchant === null || url === null
      ? null
      : { url, isActive: true, secret: () => merchants.webhookSecret(merchant) }
  }

  /** @throws GateError 403 at the plan's limit; ShortError 400 for a refused address */
  async create(merchant: Merchant, choice: EndpointChoice): Promise<IssuedEndpoint> {
    const { clock, database, merchants, production, random } = this.#dependencies
    const createdAt = clock.now()
    const id = rowId(createdAt, random)
    const { secret, sealed } = this.#newSecret(id)
    const url = webhookAddress(choice.url, { production })
    const endpoint: WebhookEndpoint = { ...choice, id, merchantId: merchant.id, url, secret: sealed, createdAt }
    await database.transaction(async sql => {
      // Serializes concurrent creates.
      await sql`select 1 from merchants where id = ${merchant.id} for update`
      const [row] = await sql<
        Array<{ held: number }>
      >`select count(*)::int as held from webhook_endpoints where merchant_id = ${merchant.id}`
      // The first endpoint counts even when unset (decision 79).
      const limit = merchants.caps(merchant).webhookEndpoints
      if (limit !== null && (row?.held ?? 0) + 1 >= limit) throw webhookEndpointsUsedUp(merchant, limit)
      await sql`insert into webhook_endpoints ${sql(endpointRows.write(sql, endpoint))}`
    })
    return { endpoint, secret }
  }

  /**
   * Pausing fails waiting deliveries.
   * @throws ShortError 400, 404
   */
  async change(merchantId: number, id: string, choice: Partial<EndpointChoice>): Promise<WebhookEndpoint> {
    const { clock, database, production, store } = this.#dependencies
    const url = choice.url === undefined ? {} : { url: webhookAddress(choice.url, { production }) }
    return await database.transaction(async sql => {
      const held = await this.#locked(sql, merchantId, id)
      const changed = { ...held, ...choice, ...url }
      await sql`update webhook_endpoints set ${sql(endpointRows.write(sql, changed))} where id = ${id}`
      if (held.isActive && !changed.isActive) await store.abandon(sql, id, PAUSED, clock.now())
      return changed
    })
  }

  /**
   * Replaces the secret, for waiting deliveries too.
   * @throws ShortError 404
   */
  async rotate(merchantId: number, id: string): Promise<IssuedEndpoint> {
    return await this.#dependencies.database.transaction(async sql => {
      const held = await this.#locked(sql, merchantId, id)
      const { secret, sealed } = this.#newSecret(held.id)
      await sql`update webhook_endpoints set secret = ${sealed} where id = ${held.id}`
      return { endpoint: { ...held, secret: sealed }, secret }
    })
  }

  /**
   * Keeps its deliveries; waiting ones fail.
   * @throws ShortError 404
   */
  async remove(merchantId: number, id: string): Promise<void> {
    const { clock, database, store } = this.#dependencies
    await database.transaction(async sql => {
      await this.#locked(sql, merchantId, id)
      await sql`delete from webhook_endpoints where id = ${id}`
      await store.abandon(sql, id, REMOVED, clock.now())
    })
  }

  async #locked(sql: TransactionSql, merchantId: number, id: string): Promise<WebhookEndpoint> {
    const held = isWebhookId(id)
      ? await endpointRows.one(sql`
          select * from webhook_endpoints where merchant_id = ${merchantId} and id = ${id} for update`)
      : null
    if (held === null) throw endpointMissing()
    return held
  }

  #newSecret(id: string): { readonly secret: Secret<string>; readonly sealed: string } {
    const secret = newWebhookSecret(this.#dependencies.random)
    return { secret, sealed: this.#dependencies.sealer.seal(secret.reveal(), placeOf(id)) }
  }
}

export function endpointMissing(): ShortError {
  return new ShortError(RESOURCE_NOT_FOUND, 'Webhook endpoint not found')
}

function placeOf(id: string): SealedPlace {
  return { table: 'webhook_endpoints', column: 'secret', row: id }
}
