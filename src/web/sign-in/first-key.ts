import { Type } from 'typebox'
import type { Database, TransactionSql } from '../../platform/database/database.ts'
import { CONFLICT } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { isoTime } from '../../engine/formats/iso-time.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { merchantOf } from '../../accounts/merchants/principal.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { Issued, Merchants } from '../../accounts/merchants/service.ts'

/**
 * The first API key of an account that was made for a subscription: its owner fetches it, once. It takes the
 * place of the one that the approval showed to the operator; who had that one already keeps it by not asking here.
 */
export class FirstKeys {
  readonly #database: Database
  readonly #merchants: Merchants

  constructor(database: Database, merchants: Merchants) {
    this.#database = database
    this.#merchants = merchants
  }

  /** Notes that a new account waits for its key, in the transaction of the approval. */
  async wait(sql: TransactionSql, { id, keyId }: Pick<Merchant, 'id' | 'keyId'>): Promise<void> {
    await sql`insert into first_keys (merchant_id, key_id) values (${id}, ${keyId}) on conflict (merchant_id) do nothing`
  }

  /** Whether the key can still be fetched: nobody has, and it was not replaced either. @throws Unavailable */
  async isWaiting({ id, keyId }: Pick<Merchant, 'id' | 'keyId'>): Promise<boolean> {
    const { sql } = this.#database
    const [row] = await sql`select 1 from first_keys where merchant_id = ${id} and key_id = ${keyId}`
    return row !== undefined
  }

  /** The key, shown this once; null where it was fetched or replaced already. Of many at once one gets it. */
  async take({ id, keyId }: Pick<Merchant, 'id' | 'keyId'>): Promise<Issued | null> {
    return await this.#database.transaction(async sql => {
      const taken = await sql`delete from first_keys where merchant_id = ${id} and key_id = ${keyId}`
      return taken.count === 0 ? null : await this.#merchants.within(sql).regenerateKey(id)
    })
  }
}

/** `POST /api/merchant/first-key`. */
export function firstKeyOperations(firstKeys: FirstKeys): AnyOperation[] {
  return [
    defineOperation({
      id: 'takeFirstKey',
      role: 'owner',
      method: 'POST',
      path: '/api/merchant/first-key',
      tag: 'Merchant',
      access: 'merchant',
      mount: { use: 'merchant-api', chain: 'settings-write' },
      summary: 'Fetch the first API key of a new account, once',
      description:
        'For an account that was made for a subscription: the key takes the place of the one that the operator was shown at the approval, which is invalid at once. A key that is lost later is replaced with POST /api/merchant/regenerate-key.',
      responses: {
        200: {
          description: 'The key, shown this once.',
          schema: Type.Object({ merchantId: Type.Integer(), apiKey: Type.String(), regeneratedAt: isoTime() })
        },
        409: 'It was fetched or replaced already.'
      },
      handle: async ({ ctx }) => {
        const issued = await firstKeys.take(merchantOf(ctx))
        if (issued === null) throw new ShortError(CONFLICT, 'The first key was fetched already')
        const { merchant, apiKey } = issued
        const regeneratedAt = new Date(merchant.keyRotatedAt ?? merchant.keyCreatedAt).toISOString()
        return {
          status: 200,
          body: { merchantId: merchant.id, apiKey: apiKey.reveal(), regeneratedAt }
        }
      }
    })
  ]
}
