import postgres from 'postgres'
import { isConnectionFault } from '../errors.ts'
import type { PostgresClient } from './client.ts'
import { fail, onExecution, onFailure, type Statement, isStalePlan, settle } from './inside.ts'

type Handle = postgres.TransactionSql<{ bigint: bigint }>

/**
 * `client.begin`, whose handle dies with its connection. postgres.js 3.4 writes to a lost connection, if only the
 * `rollback`: without a socket that is an uncaught error, which ends the process. After another statement's reconnect
 * the rest of the transaction runs outside of any.
 * @throws what `run` throws, or the connection's error
 */
export function beginOn<T>(
  client: PostgresClient,
  run: (tx: Handle) => Promise<T>,
  plans: StalePlans = new StalePlans()
): Promise<T> {
  const held = new Held(plans)
  // postgres.js types its result for callbacks that return arrays of queries; ours return one promise.
  const begun = client.begin(tx => held.unlessLost(run(held.guard(tx)))) as Promise<T>
  // It rejects too when the connection is lost while no statement is in flight.
  begun.catch((error: unknown) => {
    held.lose(error)
  })
  return held.orLost(begun)
}

class Held {
  readonly #loss = Promise.withResolvers<never>()
  readonly #plans: StalePlans
  #lost: { readonly by: unknown } | null = null

  constructor(plans: StalePlans) {
    this.#plans = plans
    // Waiters race it; without any, the rejection is irrelevant.
    this.#loss.promise.catch(() => {})
  }

  lose(error: unknown): void {
    this.#lost ??= { by: error }
    this.#loss.reject(error)
  }

  /** `work`, or the loss, after which postgres.js settles nothing. */
  orLost<T>(work: Promise<T>): Promise<T> {
    return Promise.race([work, this.#loss.promise])
  }

  /** For postgres.js, which commits or rolls back on settlement: after a loss it stays pending. */
  unlessLost<T>(work: Promise<T>): Promise<T> {
    const never = new Promise<never>(() => {})
    return work.then(
      value => (this.#lost === null ? value : never),
      (error: unknown) => {
        if (this.#lost !== null) return never
        throw error
      }
    )
  }

  guard<S extends Handle>(tx: S): S {
    return new Proxy(tx, {
      apply: (target, self, args: unknown[]) => {
        const [strings, ...values] = args
        // tx(columns) only builds a part of a statement; a template (it has `raw`) makes one.
        if (!isTemplate(strings)) return Reflect.apply(target, self, args)
        return this.#watched(Reflect.apply(target, self, [this.#plans.spell(strings), ...values]) as Statement)
      },
      get: (target, key) => {
        if (key === 'unsafe') return (...args: Parameters<Handle['unsafe']>) => this.#watched(target.unsafe(...args))
        if (key === 'savepoint')
          return <T>(first: string | Step<T>, second?: Step<T>) => this.#savepoint(target, first, second)
        return Reflect.get(target, key)
      }
    })
  }

  #savepoint<T>(tx: Handle, first: string | Step<T>, second?: Step<T>): Promise<T> {
    const step =
      (run: Step<T>) =>
      (inner: Handle): Promise<T> =>
        this.unlessLost(run(this.guard(inner)))
    // As with begin, its types are for arrays of queries.
    if (typeof first === 'function') return this.orLost(tx.savepoint(step(first)) as Promise<T>)
    if (second === undefined) throw new TypeError('A savepoint needs something to run')
    return this.orLost(tx.savepoint(first, step(second)) as Promise<T>)
  }

  #watched<Q extends Statement>(statement: Q): Q {
    // Before other handlers: their next statement must already find the connection lost.
    onFailure(statement, error => {
      if (isConnectionFault(error) && !(error instanceof postgres.PostgresError)) this.lose(error)
      return false
    })
    onExecution(statement, execute => {
      if (this.#lost === null) execute()
      else fail(statement, this.#lost.by)
    })
    return statement
  }
}

type Step<T> = (tx: Handle) => Promise<T>

/** Runs in all: several migrations may follow one another while a statement waits for its connection. */
export const RUNS = 5

/**
 * Reruns statements whose prepared form no longer fits the tables ("cached plan must not change result type"), as after
 * a newer version's migration. PostgreSQL refuses such a statement before it runs. It is resent under another text,
 * which every connection prepares again.
 */
export class StalePlans {
  generation = 0
  #respelled = new WeakMap<TemplateStringsArray, TemplateStringsArray>()

  spell(strings: TemplateStringsArray): TemplateStringsArray {
    if (this.generation === 0) return strings
    let respelled = this.#respelled.get(strings)
    if (respelled === undefined) {
      const texts = [...strings]
      texts.push(`${texts.pop() ?? ''} /* ${this.generation} */`)
      respelled = Object.assign(texts, { raw: texts })
      this.#respelled.set(strings, respelled)
    }
    return respelled
  }

  /** Starts a new generation after a stale statement of `generation`; false for other errors. */
  renew(error: unknown, generation: number): boolean {
    if (!isStalePlan(error)) return false
    if (generation === this.generation) {
      this.generation++
      this.#respelled = new WeakMap()
    }
    return true
  }

  /** Reruns `run`'s statement while its plan is stale. For statements outside transactions. */
  retried<Q extends Statement>(run: () => Q, runs = RUNS): Q {
    const { generation } = this
    const statement = run()
    onFailure(statement, error => {
      if (!this.renew(error, generation) || runs === 1) return false
      settle(statement, this.retried(run, runs - 1))
      return true
    })
    return statement
  }
}

/** Whether a handle was called as a template, which makes a statement; other calls make a part of one. */
export function isTemplate(value: unknown): value is TemplateStringsArray {
  return Array.isArray(value) && 'raw' in value
}
