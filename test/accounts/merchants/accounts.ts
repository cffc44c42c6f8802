import { testMerchants } from '../../support/merchants.ts'
import type { CreateMerchant } from '../../../src/accounts/merchants/service.ts'
import { systemClock, type Clock } from '../../../src/platform/system/clock.ts'
import type { Answer, TestGateway } from '../../support/gateway.ts'

/** An account of a running gateway, and what sends with its key. */
export interface TestAccount {
  readonly id: number
  readonly apiKey: string
  send(method: string, path: string, body?: object | string): Promise<Answer>
  /** Writes columns of its row. */
  set(columns: Readonly<Record<string, unknown>>): Promise<void>
  /** A column of its row as it is stored. */
  column(name: string): Promise<unknown>
}

let count = 0

/**
 * Makes another account beside the first-run one; without provider keys, which only the gateway's own sealer can seal.
 */
export async function newAccount(
  gateway: TestGateway,
  wanted: Partial<CreateMerchant> = {},
  clock: Clock = systemClock
): Promise<TestAccount> {
  const { database } = gateway
  const merchants = testMerchants(database, clock)
  const { merchant, apiKey } = await merchants.create({ name: 'Shop', email: `shop${++count}@example.com`, ...wanted })
  return accountOf(gateway, merchant.id, apiKey.reveal())
}

/** The account of an id and its key. */
export function accountOf(gateway: TestGateway, id: number, apiKey: string): TestAccount {
  const { sql } = gateway.database
  return {
    id,
    apiKey,
    send: (method, path, body) =>
      gateway.send(method, path, {
        headers: { 'x-api-key': apiKey, ...(typeof body === 'string' ? { 'content-type': 'application/json' } : {}) },
        ...(body === undefined ? {} : { body })
      }),
    set: async columns => {
      await sql`update merchants set ${sql(columns)} where id = ${id}`
    },
    column: async name => {
      const [row] = await sql`select ${sql(name)} as value from merchants where id = ${id}`
      return row?.['value']
    }
  }
}
