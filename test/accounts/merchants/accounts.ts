import { testMerchants } from '../../support/merchants.ts'
import type { CreateMerchant } from '../../../src/accounts/merchants/service.ts'
import { systemClock, type Clock } from '../../../src/platform/system/clock.ts'
import type { TestGateway } from '../../support/gateway.ts'

export type TestAccount = ReturnType<typeof accountOf>

let count = 0

/**
 * Makes another account beside the first-run one; without provider keys, which only the gateway's own sealer can seal.
 */
export async function newAccount(
  gateway: TestGateway,
  wanted: Partial<CreateMerchant> = {},
  clock: Clock = systemClock
) {
  const { database } = gateway
  const merchants = testMerchants(database, clock)
  const { merchant, apiKey } = await merchants.create({ name: 'Shop', email: `shop${++count}@example.com`, ...wanted })
  return accountOf(gateway, merchant.id, apiKey.reveal())
}

/** An account of a running gateway, and what sends with its key. */
export function accountOf(gateway: TestGateway, id: number, apiKey: string) {
  const { sql } = gateway.database
  return {
    id,
    apiKey,
    send: (method: string, path: string, body?: object | string) =>
      gateway.send(method, path, {
        headers: { 'x-api-key': apiKey, ...(typeof body === 'string' ? { 'content-type': 'application/json' } : {}) },
        ...(body === undefined ? {} : { body })
      }),
    /** Writes columns of its row. */
    set: async (columns: Readonly<Record<string, unknown>>) => {
      await sql`update merchants set ${sql(columns)} where id = ${id}`
    },
    /** A column of its row as it is stored. */
    column: async (name: string): Promise<unknown> => {
      const [row] = await sql`select ${sql(name)} as value from merchants where id = ${id}`
      return row?.['value']
    }
  }
}
