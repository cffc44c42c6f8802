import t from 'tap'
import { sharedLookup } from '../../../src/platform/database/rows.ts'

/** A look whose statements a test answers, by what they ask. */
function looks() {
  const statements: Array<{ readonly asked: readonly string[]; answer(say: (question: string) => string): void }> = []
  const look = sharedLookup<string, { readonly said: string }>({
    key: question => question.toLowerCase(),
    find: asked => {
      const { promise, resolve } = Promise.withResolvers<Array<{ readonly said: string }>>()
      statements.push({
        asked,
        answer: say => {
          resolve(asked.map(question => ({ said: say(question) })))
        }
      })
      return promise
    }
  })
  return { look, statements }
}

/** Until the present turn's work is done. */
const work = async () => {
  await new Promise<void>(resolve => {
    process.nextTick(resolve)
  })
}

void t.test('the first question goes immediately; those that come meanwhile go together, equal ones once', async t => {
  const { look, statements } = looks()
  const first = look('a')
  await work()
  const others = [look('b'), look('a'), look('B'), look('c')]
  t.same(
    statements.map(({ asked }) => asked),
    [['a']]
  )
  statements[0]?.answer(() => 'before')
  t.same(await first, { said: 'before' })
  await work()
  t.same(statements[1]?.asked, ['b', 'a', 'c'])
  statements[1]?.answer(question => `after ${question}`)
  const answers = await Promise.all(others)
  t.same(
    answers.map(({ said }) => said),
    ['after b', 'after a', 'after b', 'after c']
  )
  t.equal(answers[0], answers[2], 'one object')
})

void t.test('no answer is of a statement that was sent before the question came', async t => {
  const { look, statements } = looks()
  const before = look('key')
  await work()
  // The key is replaced here: the statement in flight may not know it.
  const after = look('key')
  statements[0]?.answer(() => 'old')
  t.same(await before, { said: 'old' })
  await work()
  statements[1]?.answer(() => 'new')
  t.same(await after, { said: 'new' })
})
