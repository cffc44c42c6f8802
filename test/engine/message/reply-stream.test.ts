import t from 'tap'
import { ReplyStream } from '../../../src/engine/message/reply-stream.ts'

/** A stream, and what was asked of its connection, in order. */
function streaming(isGone = false) {
  const calls: string[] = []
  const stream = new ReplyStream({
    gone: () => isGone,
    head: () => void calls.push('head'),
    write: bytes => calls.push(`write ${Buffer.from(bytes).toString()}`) > 0,
    end: () => void calls.push('end'),
    fail: error => void calls.push(`fail ${error.message}`),
    fault: error => void calls.push(`fault ${String(error)}`)
  })
  return { stream, calls, open: () => stream.open({ open: () => () => void calls.push('stop') }) }
}

t.test('reply streams: nothing is sent after the end, however it came', async t => {
  for (const [how, last] of [
    ['end', ['head', 'end', 'stop']],
    ['fail', ['fail x', 'stop']],
    ['close', ['stop']]
  ] as const) {
    const { stream, calls, open } = streaming()
    stream.onDrain = () => void calls.push('drain')
    stream.onStopping = () => void calls.push('stopping')
    open()
    t.equal(stream.write('a'), true)
    t.equal(stream.write(Buffer.from('b')), true)
    stream.drained()
    stream.stopping()
    t.same(calls.splice(0), ['head', 'head', 'write a', 'head', 'write b', 'drain', 'stopping'])
    stream[how](new Error('x'))
    t.same(calls.splice(0), last, how)
    t.equal(stream.write('c'), false)
    stream.drained()
    stream.stopping()
    stream.end()
    stream.fail(new Error('y'))
    stream.close()
    t.same(calls, [])
  }
})

t.test(
  'reply streams: a body that ends while it opens is stopped, and a disconnected client stops the pump',
  async t => {
    const { stream, calls } = streaming()
    stream.open({
      open: sink => {
        sink.end()
        return () => void calls.push('stop')
      }
    })
    t.same(calls, ['head', 'end', 'stop'])
    const gone = streaming(true)
    gone.open()
    t.equal(gone.stream.write('a'), false)
  }
)

t.test(
  "reply streams: what a body throws is its caller's to answer, and what its callbacks throw is reported",
  async t => {
    const { stream, calls } = streaming()
    const broken = new Error('broken')
    const fails = () => {
      throw broken
    }
    t.throws(() => stream.open({ open: fails }), broken)
    t.equal(stream.write('a'), false)
    const other = streaming()
    other.stream.open({ open: () => fails })
    other.stream.onDrain = fails
    other.stream.drained()
    other.stream.close()
    t.same(other.calls, ['head', 'fault Error: broken', 'fault Error: broken'])
    t.same(calls, [])
  }
)
