import { Batch } from './batch.ts'

/** What is looked for, and how. */
export interface SharedLookOptions<Q, V> {
  /** Equal for questions that have the same answer. */
  readonly key: (question: Q) => string
  /** Answers questions in one statement, in their order; no two of them are equal. */
  readonly find: (questions: readonly Q[]) => Promise<readonly V[]>
}

/**
 * Looks for what several want at the same time with one statement (batch.ts), and for what several of them want alike
 * once: its answer is one object for all of them. No answer is kept: each is of a statement that was sent after its
 * question came. As a batch, never inside a transaction of somebody else's handle.
 */
export function sharedLook<Q, V>({ key, find }: SharedLookOptions<Q, V>): (question: Q) => Promise<V> {
  const batch = new Batch<Q, V>({
    key: () => null,
    write: async questions => {
      if (questions.length === 1) return await find(questions)
      const places = new Map<string, number>()
      const distinct: Q[] = []
      const placed = questions.map(question => {
        const name = key(question)
        const place = places.get(name) ?? distinct.push(question) - 1
        places.set(name, place)
        return place
      })
      const answers = await find(distinct)
      // `find` promises one for each.
      return placed.map(place => answers[place] as V)
    }
  })
  return question => batch.add(question)
}
