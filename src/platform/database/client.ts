import postgres from 'postgres'
import type { Clock } from '../system/clock.ts'
import type { PostgresClient } from './postgres/client.ts'
import { Silence } from './postgres/silence.ts'
import { isTemplate, RUNS, StalePlans, beginOn } from './postgres/transaction.ts'
import { tableProbe, type WriteProbe } from './write-probe.ts'
import type { Sql, TransactionSql, Health, Database, DatabaseLoad } from './database.ts'
import { AsyncLocalStorage } from 'node:async_hooks'
import { OutsideTransaction } from './errors.ts'

const healthyMs = 1_000
const unhealthyMs = 3_000

interface Ways {
  readonly probe?: WriteProbe
  listen(channel: string, heard: (payload: string) => void): Promise<() => Promise<void>>
  verify?(): Promise<void>
  close(): Promise<void>
}

export class Client implements Database {
  readonly kind: 'postgres' | 'pglite'
  readonly sql: Sql
  readonly #client: PostgresClient
  readonly #clock: Clock
  readonly #silence: Silence
  readonly #ways: Ways
  readonly #probe: WriteProbe
  readonly #plans = new StalePlans()
  #checking: Promise<Health> | null = null
  #closing: Promise<void> | null = null

  constructor(kind: 'postgres' | 'pglite', client: PostgresClient, clock: Clock, silence: Silence, ways: Ways) {
    this.kind = kind
    this.#client = client
    this.#clock = clock
    this.#silence = silence
    this.#ways = ways
    this.#probe = ways.probe ?? tableProbe(run => this.transaction(run), clock)
    this.sql = this.#guarded(client)
  }

  async transaction<T>(
    run: (tx: TransactionSql) => Promise<T>,
    { slow = false }: { readonly slow?: boolean } = {}
  ): Promise<T> {
    refuseInside('transaction()')
    for (let runs = 1; ; runs++) {
      const { generation } = this.#plans
      try {
        return await this.#transaction(run, slow)
      } catch (error) {
        // It was rolled back.
        if (!this.#plans.renew(error, generation) || runs === RUNS) throw error
      }
    }
  }

  async #transaction<T>(run: (tx: TransactionSql) => Promise<T>, slow: boolean): Promise<T> {
    const silence = this.#silence
    const scope = openScope()
    const begin = async (had: () => void): Promise<T> => {
      return await beginOn(
        this.#client,
        async tx => {
          had()
          return await scope.run(run, tx)
        },
        this.#plans
      )
    }
    try {
      return await silence.begun(had => (slow ? silence.bear(() => begin(had)) : begin(had)))
    } finally {
      scope.end()
    }
  }

  async listen(channel: string, heard: (payload: string) => void): Promise<() => Promise<void>> {
    refuseInside('listen()')
    // The callback runs in the context that opened the connection, perhaps a transaction: leave it.
    return this.#ways.listen(channel, payload => {
      outsideScopes(heard, payload)
    })
  }

  async notify(channel: string, payload: string, tx?: Sql): Promise<void> {
    await (tx ?? this.sql)`select pg_notify(${channel}, ${payload})`
  }

  health(): Promise<Health> {
    // One check at a time: while the database hangs, probes must not pile up queries behind it.
    this.#checking ??= this.#check().finally(() => {
      this.#checking = null
    })
    return this.#checking
  }

  load(): DatabaseLoad {
    return this.#silence.load
  }

  async verify(): Promise<void> {
    await this.#ways.verify?.()
  }

  close(): Promise<void> {
    this.#closing ??= this.#ways.close()
    return this.#closing
  }

  async #check(): Promise<Health> {
    const begun = this.#clock.monotonic()
    const elapsed = (): number => this.#clock.monotonic() - begun
    const late = Promise.withResolvers<'late'>()
    const timer = this.#clock.after(unhealthyMs, () => {
      late.resolve('late')
    })
    try {
      const first = await Promise.race([this.#silence.limit(this.#client`select 1`), late.promise])
      const ms = elapsed()
      if (first === 'late' || ms > unhealthyMs)
        return { status: 'unhealthy', ms, error: `The database did not answer within ${unhealthyMs} ms` }
      // A read-only database can sell nothing. A slow probe is repeated with the next check.
      const fault = await Promise.race([this.#probe.fault(), late.promise])
      if (fault !== null && fault !== 'late') return { status: 'unhealthy', ms, error: fault }
      return { status: ms <= healthyMs ? 'healthy' : 'degraded', ms, error: null }
    } catch (error) {
      return { status: 'unhealthy', ms: elapsed(), error: describeFault(error) }
    } finally {
      timer.cancel()
    }
  }

  #guarded(client: PostgresClient): Sql {
    const refuseHandle = (): void => {
      refuseInside('The outer SQL handle')
    }
    return new Proxy(client, {
      apply: (target, self, args: unknown[]) => {
        const [strings, ...values] = args
        // sql(columns) only builds a part of a statement; a template runs one.
        if (!isTemplate(strings)) return Reflect.apply(target, self, args)
        refuseHandle()
        return this.#plans.retried(() =>
          // A template gives a PendingQuery.
          this.#silence.limit(
            Reflect.apply(target, self, [this.#plans.spell(strings), ...values]) as postgres.PendingQuery<
              postgres.Row[]
            >,
            strings
          )
        )
      },
      get: (target, key) => {
        if (key === 'unsafe' || key === 'begin' || key === 'reserve' || key === 'notify') refuseHandle()
        if (key === 'unsafe') return (...args: Parameters<Sql['unsafe']>) => this.#silence.limit(target.unsafe(...args))
        return Reflect.get(target, key)
      }
    })
  }
}

/** Code or SQLSTATE in words, without address and statement. */
function describeFault(error: unknown): string {
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null
  if (error instanceof postgres.PostgresError) return `The database refused the check (${error.code})`
  return code === null ? 'The database failed' : `The database is not reachable (${code})`
}

interface Scope {
  open: boolean
}

const scopes = new AsyncLocalStorage<Scope>()

/** Runs `run` as part of a transaction. Work that outlives `end` may use the database's own handle again. */
export function openScope(): { run<A, T>(run: (argument: A) => T, argument: A): T; end(): void } {
  const scope: Scope = { open: true }
  return {
    run: (run, argument) => scopes.run(scope, run, argument),
    end: () => {
      scope.open = false
    }
  }
}

export function outsideScopes<A>(run: (argument: A) => void, argument: A): void {
  scopes.exit(run, argument)
}

/** @throws OutsideTransaction inside a transaction, naming `what` */
export function refuseInside(what: string): void {
  if (scopes.getStore()?.open === true) throw new OutsideTransaction(what)
}
