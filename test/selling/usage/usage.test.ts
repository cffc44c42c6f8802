import t from 'tap'
import { EventUsage } from '../../../src/selling/usage/events.ts'
import { ANTHROPIC, memberForm, OPENAI, type UsageForm } from '../../../src/selling/usage/forms.ts'
import { units, type Usage, type UsageReader } from '../../../src/selling/usage/usage.ts'
import { JsonUsage } from '../../../src/selling/usage/json.ts'

/** What a reader says of a text that comes in pieces of each of these sizes; all must say the same. */
function readIn(make: () => UsageReader, text: string, isWhole = true) {
  const bytes = Buffer.from(text)
  const said = [1, 7, 1_000, bytes.byteLength].map(size => {
    const reader = make()
    // One piece of memory for all, as a connection has it.
    const memory = Buffer.alloc(size)
    for (let at = 0; at < bytes.byteLength; at += size) {
      const length = bytes.copy(memory, 0, at, at + size)
      reader.chunk(memory.subarray(0, length))
    }
    return JSON.stringify(reader.read(isWhole))
  })
  if (new Set(said).size !== 1) throw new Error(`pieces of other sizes say other things: ${said.join(' ')}`)
  return JSON.parse(said[0] ?? 'null') as Usage | null /* what was just written */
}

const json = (form: UsageForm, value: unknown) =>
  readIn(() => new JsonUsage(form), typeof value === 'string' ? value : JSON.stringify(value))
const events = (form: UsageForm, text: string, isWhole = true) => readIn(() => new EventUsage(form), text, isWhole)

t.test('a JSON response: reports nothing where it is broken, and a total alone as such', async t => {
  const usage = '{"usage":{"prompt_tokens":9,"completion_tokens":12}'
  for (const text of [usage, `${usage}]`, `${usage}}}`, `x${usage}}`, '', 'no json', '[]'])
    t.equal(json(OPENAI, text), null, text)
  t.same(json(OPENAI, { usage: { total_tokens: 21 } }), { input: 0, output: 21, isTotal: true }, 'a total alone')
})

t.test('members of the same meaning do not hide each other, in any order', async t => {
  const usage = { prompt_tokens: 9, completion_tokens: 12 }
  const read = { input: 9, output: 12 }
  for (const response of ['text', null, {}, { id: 'r' }, { usage: null }, { usage: { prompt_tokens: 0 } }]) {
    t.same(json(OPENAI, { usage, response }), read, JSON.stringify(response))
    t.same(json(OPENAI, { response, usage }), read, JSON.stringify(response))
  }
  t.same(json(ANTHROPIC, { usage: { input_tokens: 9, output_tokens: 12 }, message: 'text' }), read)
  for (const response of ['text', { error: null }])
    t.same(json(OPENAI, { error: { code: 502 }, response }), { input: 0, output: 0 }, 'a failure')
})

t.test('duplicate members: the last counts, as for JSON.parse', async t => {
  const usage = '"usage":{"prompt_tokens":9,"completion_tokens":12}'
  t.same(json(OPENAI, `{${usage},"usage":{"prompt_tokens":1,"completion_tokens":2}}`), { input: 1, output: 2 })
  t.same(json(OPENAI, '{"usage":{"prompt_tokens":9,"completion_tokens":12,"completion_tokens":3}}'), {
    input: 9,
    output: 3
  })
  t.equal(json(OPENAI, `{${usage},"us\\u0061ge":null}`), null)
})

t.test('a model that is made to say what ends a stream does not end it', async t => {
  const start =
    'data: {"type":"message_start","message":{"usage":{"input_tokens":25,"output_tokens":1}}}\n\n' +
    'data: {"type":"content_block_delta","delta":{"text":"[DONE] \\"message_stop\\" \\"response.completed\\""}}\n\n'
  t.equal(events(ANTHROPIC, start, false), null, 'a client that leaves here has no total')
  const stop = 'data: {"type":"message_delta","usage":{"output_tokens":15}}\n\ndata:{"type":"message_stop"}\n\n'
  t.same(events(ANTHROPIC, start + stop, false), { input: 25, output: 15 })
})

t.test('events are counted, for streams without usage', async t => {
  const seen = (form: UsageForm, count: number) => {
    const reader = new EventUsage(form)
    reader.chunk(Buffer.from(`${'data: {"choices":[]}\n\n: ping\n\n'.repeat(count)}data: [DONE]\n\n`))
    return reader.seen
  }
  t.same([seen(OPENAI, 0), seen(OPENAI, 8), seen(ANTHROPIC, 108)], [0, 0, 100], 'but for eight at its ends')
  t.equal(seen(memberForm(['usage']), 100), 0, 'where an event is not known to be a unit')
})

t.test('units are whole, and invalid numbers are dropped', async t => {
  t.same(['12', 12, 0.2, '0.2', -1, 'x', null, Infinity, 1e300, '1e3'].map(units), [
    12,
    12,
    1,
    1,
    null,
    null,
    null,
    null,
    null,
    null
  ])
})
