import { isStalePlan, onFailure, settle, type Statement } from './inside.ts'

/** Runs in all: several migrations may follow one another while a statement waits for its connection. */
export const RUNS = 5

/**
 * Runs statements again whose prepared form no longer fits the tables ("cached plan must not change result type"), as
 * happens to running gateways when a newer version migrates the database. PostgreSQL refuses such a statement before it
 * runs. It is then sent under another text, which every connection prepares anew.
 */
export class StalePlans {
  /** Counts the changes of tables that this process has noticed. */
  generation = 0
  #respelled = new WeakMap<TemplateStringsArray, TemplateStringsArray>()

  /** The template as the present generation spells it. */
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

  /** Begins a new generation after a failure of a statement of `generation`; false when the error is another one. */
  renew(error: unknown, generation: number): boolean {
    if (!isStalePlan(error)) return false
    if (generation === this.generation) {
      this.generation++
      this.#respelled = new WeakMap()
    }
    return true
  }

  /** The statement that `run` makes, run again while its plan is stale. For statements outside transactions. */
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

/** Whether the first argument of a handle is a template, which makes a statement; others make a part of one. */
export function isTemplate(value: unknown): value is TemplateStringsArray {
  return Array.isArray(value) && 'raw' in value
}
