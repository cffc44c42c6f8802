import { AsyncLocalStorage } from 'node:async_hooks'
import { OutsideTransaction } from './errors.ts'

/** A transaction of this process, as whatever runs within it sees it. */
interface Scope {
  open: boolean
}

const scopes = new AsyncLocalStorage<Scope>()

/**
 * Runs `run` as a part of a transaction. What it leaves running belongs to it no more once `end` was called, and may
 * use the database's own handle from then on.
 */
export function openScope(): { run<A, T>(run: (argument: A) => T, argument: A): T; end(): void } {
  const scope: Scope = { open: true }
  return {
    run: (run, argument) => scopes.run(scope, run, argument),
    end: () => {
      scope.open = false
    }
  }
}

/** Runs `run` outside of whatever transaction its caller is in. */
export function outsideScopes<A>(run: (argument: A) => void, argument: A): void {
  scopes.exit(run, argument)
}

/**
 * Refuses what must not be used inside a transaction, named `what`.
 * @throws OutsideTransaction
 */
export function refuseInside(what: string): void {
  if (scopes.getStore()?.open === true) throw new OutsideTransaction(what)
}
