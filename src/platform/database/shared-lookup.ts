import { Batch } from './batch.ts'

export interface SharedLookupOptions<Q, V> {
  readonly key: (question: Q) => string
  /** Answers distinct questions in one statement, in order. */
  readonly find: (questions: readonly Q[]) => Promise<readonly V[]>
}

/**
 * Batches concurrent look-ups (batch.ts) and shares the answer of equal ones. Caches nothing: each answer's statement
 * was sent after its question.
 */
export function sharedLookup<Q, V>({ key, find }: SharedLookupOptions<Q, V>): (question: Q) => Promise<V> {
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
      // `find` returns one for each.
      return placed.map(place => answers[place] as V)
    }
  })
  return question => batch.add(question)
}
