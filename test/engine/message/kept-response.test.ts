/** Which responses are kept for repetitions of their request. */
import t from 'tap'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { KeptResponse } from '../../../src/engine/message/kept-response.ts'
import type { Head, Outcome } from '../../../src/engine/message/reply.ts'

const OUTCOME: Outcome = {
  status: 200,
  source: 'reply',
  headSent: true,
  delivered: false,
  bytesIn: 0,
  bytesOut: 0,
  duration: 0,
  error: null
}

t.test('a reply that did not arrive is kept, unless its delivery is what is charged', t => {
  for (const [source, isPaid, ended] of [
    ['reply', false, 'finish'],
    ['reply', true, 'abandon'],
    ['upstream', false, 'abandon']
  ] as const) {
    const calls: string[] = []
    const called = (name: string) => () => {
      calls.push(name)
      return true
    }
    const state = { finish: called('finish'), abandon: called('abandon') }
    const kept = new KeptResponse({ state, key: 'a', token: 'b', failed() {} })
    const head: Head = { status: 200, headers: new HeaderList(), source }
    kept.head(head, isPaid)
    kept.chunk(Buffer.from('{}'))
    kept.done({ ...OUTCOME, source }, 1000)
    t.same(calls, [ended], `${source}, ${isPaid}`)
  }
  t.end()
})
