import t from 'tap'
import type { Database, Sql } from '../../../src/platform/database/database.ts'
import { defaultYaml, startGateway } from '../../support/gateway.ts'
import { eachDatabase, withSql } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { anInput } from './fixture.ts'

/** The same database, and the statements that it was sent, without those of its listeners. */
function counted(database: Database) {
  const statements: string[] = []
  const noting = <S extends Sql>(handle: S) =>
    new Proxy(handle, {
      apply: (target, self, args: unknown[]) => {
        const [strings] = args
        // A template that is a part of another begins with no verb.
        const text = Array.isArray(strings) && 'raw' in strings ? strings.join('$').replace(/\s+/g, ' ').trim() : ''
        if (/^(select|insert|update|delete|with)\b/.test(text)) statements.push(text)
        return Reflect.apply(target, self, args)
      }
    })
  const noted: Database = {
    ...withSql(database, noting(database.sql)),
    transaction: (run, options) => {
      statements.push('begin', 'commit')
      return database.transaction(tx => run(noting(tx)), options)
    }
  }
  return { database: noted, statements }
}

await eachDatabase(t, 'a merchant pays few statements for a request', async (t, plain) => {
  const { database, statements } = counted(plain)
  // Nothing that is due by the clock comes in between.
  const clock = new ManualClock(Math.floor(Date.now() / 1000) * 1000)
  // Only the limits of the policies are raised.
  const yaml = defaultYaml().replaceAll(/limit: \d+/g, 'limit: 100000')
  const gateway = await startGateway(t, { clock, database, yaml })
  /** Of several requests the fewest statements: jobs that a gateway begins with may come between those of one. */
  const fewest = async (ask: (nth: number) => ReturnType<typeof gateway.send>, status: number) => {
    let fewest: string[] | null = null
    for (let nth = 0; nth < 8; nth++) {
      statements.length = 0
      const answer = await ask(nth)
      t.equal(answer.status, status, answer.text)
      if (fewest === null || statements.length < fewest.length) fewest = [...statements]
    }
    return (fewest ?? []).map(text => text.slice(0, 70))
  }
  const create = (headers: Record<string, string> = {}) =>
    gateway.send('POST', '/api/payments', {
      headers: { 'x-api-key': gateway.merchant.apiKey, ...headers },
      body: anInput()
    })

  const made = await fewest(() => create(), 201)
  // The key; the order id; the sandbox's memory of its invoice; the payment for the order id.
  t.equal(made.length, 4, made.join('\n'))

  const keyed = await fewest(nth => create({ 'idempotency-key': `key ${nth}` }), 201)
  // And what the idempotency key has made before.
  t.equal(keyed.length, 5, keyed.join('\n'))

  const { invoiceId } = (await create()).json() as { invoiceId: string }
  const read = await fewest(() => gateway.merchantSend('GET', `/api/payments/${invoiceId}`), 200)
  // The key, and the payment.
  t.equal(read.length, 2, read.join('\n'))
})
