import { isStalePlan, onFailure, settle, type Statement } from './inside.ts'

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
