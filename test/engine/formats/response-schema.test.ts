import t from 'tap'
import { Type } from 'typebox'
import {
  fitting,
  fittingItems,
  mapped,
  nullable,
  orNull,
  parseResponse,
  part,
  readResponse,
  SafeInteger,
  Text
} from '../../../src/engine/formats/response-schema.ts'

const Payment = mapped(
  Type.Object({ id: Text, state: Type.Enum(['open', 'paid']), sats: orNull(SafeInteger), note: part({ text: Text }) }),
  ({ id, state, sats, note }) =>
    id === 'void' ? null : { id, isPaid: state === 'paid', sats, text: note?.text ?? null }
)

t.test('response schemas: members that do not fit are null, others are ignored', async t => {
  t.same(readResponse(Payment, { id: 'a', state: 'paid', sats: '7', note: [], secret: 1 }), {
    id: 'a',
    isPaid: true,
    sats: null,
    text: null
  })
  t.same(readResponse(Payment, { id: 'a', state: 'open', sats: 7, note: { text: 'hi' } }), {
    id: 'a',
    isPaid: false,
    sats: 7,
    text: 'hi'
  })
  t.equal(readResponse(SafeInteger, 2 ** 53), null, 'a number that does not count exactly')
  t.equal(readResponse(Type.Object({ constructor: Type.Unknown() }), {})?.constructor, undefined, 'own members only')
})

t.test('response schemas: what a caller needs makes the whole unusable', async t => {
  for (const wrong of [null, undefined, 'text', 7, [], {}, { id: '', state: 'open' }, { id: 'a', state: 'lost' }])
    t.equal(readResponse(Payment, wrong), null, JSON.stringify(wrong))
  t.equal(readResponse(Payment, { id: 'void', state: 'open' }), null, 'what the mapping gives null for')
})

t.test('response schemas: a nullable member may be null or missing, and nothing else', async t => {
  const Note = Type.Object({ text: nullable(Text) })
  for (const none of [{}, { text: null }]) t.same(readResponse(Note, none), { text: null })
  t.same(readResponse(Note, { text: 'hi' }), { text: 'hi' })
  for (const wrong of [{ text: 7 }, { text: '' }]) t.equal(readResponse(Note, wrong), null)
})

t.test('response schemas: lists leave out what does not fit, or keep its place', async t => {
  const items = [{ id: 'a', state: 'paid' }, null, { id: 'b' }]
  t.same(
    readResponse(fittingItems(Payment), items)?.map(({ id }) => id),
    ['a']
  )
  t.same(readResponse(fittingItems(Payment), 'no list'), [])
  const kept = readResponse(Type.Array(orNull(Payment)), items) ?? []
  t.equal(kept.length, 3)
  t.equal(fitting(kept).length, 1)
  t.equal(readResponse(Type.Array(orNull(Payment)), {}), null)
  const Short = Type.Array(Type.Array(Type.String({ maxLength: 3 }), { maxItems: 2 }), { maxItems: 1 })
  t.same(readResponse(Short, [['a', 'b']]), [['a', 'b']])
  for (const long of [[['a', 'b', 'c']], [['a'], ['b']], [['long']]])
    t.equal(readResponse(Short, long), null, 'bounds of lists hold')
})

t.test('response schemas: an error names path, expected and found, and no value', async t => {
  const fault = (schema: Parameters<typeof parseResponse>[0], value: unknown) => {
    try {
      parseResponse(schema, value, message => new Error(message))
      return ''
    } catch (error) {
      return error instanceof Error ? error.message : 'no error'
    }
  }
  const Page = Type.Object({ items: Type.Array(Payment) })
  t.equal(fault(Page, 'hunter2'), 'the response: expected object, found string')
  t.equal(
    fault(Page, { items: [{ id: 'a', state: 'hunter2' }] }),
    'items[0].state: expected "open" or "paid", found string'
  )
  t.equal(fault(Page, { items: [{ state: 'open' }] }), 'items[0].id: expected string, found nothing')
  t.match(fault(Page, { items: [{ id: 'void', state: 'open' }] }), /^items\[0\]: expected .*, found another$/)
  t.equal(
    fault(Type.Object({ hash: Type.String({ pattern: '^a+$' }) }), { hash: 'b' }),
    'hash: expected string of the form ^a+$, found string'
  )
})
