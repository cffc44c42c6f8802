import { AsyncLocalStorage } from 'node:async_hooks'
import { OutsideTransaction } from './errors.ts'

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
