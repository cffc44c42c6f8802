/**
 * A connection that is lost at the worst moment fails what was on it; it never ends the process, nor runs half a
 * transaction.
 */
import { createServer, connect, type Socket } from 'node:net'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { setImmediate } from 'node:timers/promises'
import t, { type Test as T } from 'tap'
import { systemClock } from '../../src/platform/system/clock.ts'
import { isConnectionFault, openDatabase, type TransactionSql } from '../../src/platform/database/database.ts'
import { silentLog } from '../../src/platform/telemetry/log.ts'
import { freshPostgres } from '../support/gateway-process.ts'
import { behindGate } from './tcp-gate.ts'
import { openAt } from '../support/database.ts'
import { until } from '../support/until.ts'

const server = process.env['TEST_DATABASE_URL'] ?? ''
const skip = server === '' ? 'TEST_DATABASE_URL is not set' : false

async function connected(t: T, connections: number) {
  const { gate, url } = await behindGate(t, (await freshPostgres(t)) ?? '')
  const database = await openAt(t, url, { connections })
  await database.sql`create table written (n integer)`
  return { database, gate }
}

/** Uncaught errors, which would have ended the process. */
function uncaught(t: T) {
  const errors: unknown[] = []
  const hear = (error: unknown) => {
    errors.push(error)
  }
  process.on('unhandledRejection', hear).on('uncaughtException', hear)
  t.teardown(() => {
    process.off('unhandledRejection', hear).off('uncaughtException', hear)
  })
  return errors
}

/**
 * Until what an event has set going has run: an unhandled rejection is reported after microtasks, a write happens in the
 * next turn.
 */
async function turns() {
  for (let turn = 0; turn < 5; turn++) await setImmediate()
}

interface Moment {
  readonly name: string
  /** Loses the connection and goes on as if nothing had been. */
  run(tx: TransactionSql, lose: () => Promise<void>): Promise<unknown>
}

const moments: readonly Moment[] = [
  { name: 'while a statement runs', run: async (tx, lose) => Promise.all([tx`select pg_sleep(60)`, lose()]) },
  {
    name: 'while no statement runs, and another follows',
    run: async (tx, lose) => {
      await lose()
      return await tx`insert into written values (2)`
    }
  },
  {
    name: 'while no statement runs, and none follows',
    run: async (_tx, lose) => {
      await lose()
      return null
    }
  },
  {
    name: 'while no statement runs, and it changes its mind',
    run: async (_tx, lose) => {
      await lose()
      throw new Error('changed my mind')
    }
  },
  {
    name: 'while a statement runs whose failure it ignores, and another follows',
    run: async (tx, lose) => {
      await Promise.allSettled([tx`select pg_sleep(60)`, lose()])
      return await tx`insert into written values (2)`
    }
  },
  {
    name: 'inside a savepoint',
    run: async (tx, lose) => tx.savepoint(async inner => Promise.all([inner`select pg_sleep(60)`, lose()]))
  },
  {
    name: 'inside a savepoint whose failure it ignores, and another statement follows',
    run: async (tx, lose) => {
      await tx.savepoint('named', async inner => Promise.all([inner`select pg_sleep(60)`, lose()])).catch(() => null)
      return await tx`insert into written values (2)`
    }
  }
]

for (const { name, run } of moments) {
  for (const isReopened of [false, true]) {
    void t.test(
      `a transaction that loses its connection ${name} fails as a whole${isReopened ? ', also after a reconnect' : ''}`,
      { skip },
      async t => {
        const errors = uncaught(t)
        const { database, gate } = await connected(t, 1)
        const fault: unknown = await database
          .transaction(async tx => {
            await tx`insert into written values (1)`
            return await run(tx, async () => {
              gate.cut()
              await turns()
              if (!isReopened) return
              gate.open()
              // The only connection of the pool. Not awaited by a statement of the transaction, which may not use the
              // outer handle.
              await until(async () => (await database.health()).status === 'healthy')
            })
          })
          .catch((error: unknown) => error)
        gate.open()
        await turns()
        t.ok(isConnectionFault(fault), String(fault))
        await until(async () => (await database.health()).status === 'healthy')
        t.same(await database.sql`select n from written`, [], 'nothing of it was written')
        t.same(await database.transaction(async tx => tx`select 3 as n`), [{ n: 3 }], 'the next one works')
        t.same(errors, [])
      }
    )
  }
}

void t.test(
  'a connection that is lost at any of its first messages fails only what waited for it',
  { skip },
  async t => {
    const errors = uncaught(t)
    const own = new URL(server)
    const target = { host: own.hostname, port: Number(own.port || 5432) }
    let letThrough = 0
    const pairs = new Set<Socket>()
    // Lets so many pieces of the server's answers through, and then cuts.
    const gate = createServer(near => {
      let left = letThrough
      const far = connect(target)
      for (const end of [near, far]) {
        pairs.add(end)
        end
          .on('error', () => {})
          .on('close', () => {
            near.destroy()
            far.destroy()
          })
      }
      near.pipe(far)
      far.on('data', (bytes: Buffer) => {
        if (left-- > 0) near.write(bytes)
        else near.resetAndDestroy()
      })
    }).listen(0, '127.0.0.1')
    await once(gate, 'listening')
    t.teardown(() => {
      for (const end of pairs) end.destroy()
      gate.close()
    })
    const address = gate.address()
    if (address === null || typeof address === 'string') throw new Error('a server on TCP has an address object')
    own.hostname = '127.0.0.1'
    own.port = String(address.port)
    for (letThrough = 0; letThrough < 4; letThrough++) {
      const database = await openDatabase({
        url: own.href,
        dataDir: tmpdir(),
        log: silentLog,
        clock: systemClock,
        connections: 1
      })
      const outcome: unknown = await database.sql`select ${'a'}::text as a`.catch((error: unknown) => error)
      if (letThrough === 0) t.ok(isConnectionFault(outcome), String(outcome))
      else t.ok(isConnectionFault(outcome) || Array.isArray(outcome), String(outcome))
      await database.close()
      await turns()
    }
    t.same(errors, [])
  }
)
