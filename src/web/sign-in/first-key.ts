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
 * One-time retrieval of the first API key of a subscription's account by its owner. Replaces the key that the approval
 * showed to the operator.
 */
export class FirstKeys {
  readonly #database: Database
  readonly #merchants: Merchants

  constructor(database: Database, merchants: Merchants) {
    this.#database = database
    this.#merchants = merchants
  }

  /** Marks a new account as waiting, in the approval's transaction. */
  async wait(sql: TransactionSql, { id, keyId }: Pick<Merchant, 'id' | 'keyId'>): Promise<void> {
    await sql`insert into first_keys (merchant_id, key_id) values (${id}, ${keyId}) on conflict (merchant_id) do nothing`
  }

  /** The key, shown only once; null when already retrieved or replaced. Of concurrent calls one gets it. */
  async take({ id, keyId }: Pick<Merchant, 'id' | 'keyId'>): Promise<Issued | null> {
    return await this.#database.transaction(async sql => {
      const taken = await sql`delete from first_keys where merchant_id = ${id} and key_id = ${keyId}`
      return taken.count === 0 ? null : await this.#merchants.within(sql).regenerateKey(id)
    })
  }
}

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
        'For an account that was made for a subscription: it replaces the key shown to the operator at approval, which stops working. Replace a key lost later with POST /api/merchant/regenerate-key.',
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
