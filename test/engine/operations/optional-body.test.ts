import t from 'tap'
import { Type } from 'typebox'
import { harness } from '../../../src/engine/pipeline/harness.ts'
import { InternalUpstream } from '../../../src/engine/pipeline/internal.ts'
import { openApiDocument } from '../../../src/engine/openapi/openapi.ts'
import { defineOperation } from '../../../src/engine/operations/operation.ts'

const Body = Type.Object({ reason: Type.Optional(Type.String({ maxLength: 5 })) })
const echo = (id: string, optional: boolean) =>
  defineOperation({
    id,
    method: 'POST',
    path: `/${id}`,
    summary: '',
    tag: 't',
    access: 'public',
    body: Body,
    ...(optional ? { bodyOptional: true as const } : {}),
    responses: { 200: { description: '', schema: Type.Object({ got: Type.Any() }) } },
    handle: ({ body }) => ({ status: 200, body: { got: body } })
  })
const operations = [echo('optional', true), echo('required', false)]
const upstream = new InternalUpstream(operations)

t.test('a body that may be left out reads as an empty object when it is; what is sent is checked as ever', async t => {
  const chain = await harness([], { answer: ctx => upstream.handle(ctx) })
  const json = { 'content-type': 'application/json' }
  const post = (target: string, more: object) => chain.run({ method: 'POST', target, ...more })
  for (const [what, more] of [
    ['no body', {}],
    ['no body of JSON', { headers: json }],
    ['an empty chunked body', { body: '', chunked: true }],
    ['null', { headers: json, body: 'null' }],
    ['{}', { headers: json, body: '{}' }]
  ] as const) {
    const answer = await post('/optional', more)
    t.equal(answer.status, 200, what)
    t.same(answer.json(), { got: {} }, what)
  }
  t.same((await post('/optional', { headers: json, body: '{"reason":"no"}' })).json(), { got: { reason: 'no' } })
  t.equal((await post('/optional', { headers: json, body: '{"reason":"too long"}' })).status, 400)
  t.equal((await post('/optional', { headers: json, body: '[]' })).status, 400)
  t.equal((await post('/optional', { headers: json, body: '{' })).status, 400)
  t.equal((await post('/optional', { headers: { 'content-type': 'text/plain' }, body: 'no' })).status, 415)
})

t.test('Body required but empty: 400 problem (decision 5)', async t => {
  const chain = await harness([], { answer: ctx => upstream.handle(ctx) })
  for (const body of [undefined, 'null']) {
    const answer = await chain.run({
      method: 'POST',
      target: '/required',
      headers: { 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body })
    })
    t.equal(answer.status, 400, body ?? 'none')
    t.match(answer.headers.get('content-type'), /problem\+json/)
  }
})

t.test('the document says which bodies are required', async t => {
  const document = openApiDocument(operations, { title: 'x', description: 'x', publicUrl: 'x', pricedRoutes: [] }) as {
    paths: Record<string, { post: { requestBody: { required: boolean } } }>
  }
  t.equal(document.paths['/optional']?.post.requestBody.required, false)
  t.equal(document.paths['/required']?.post.requestBody.required, true)
})
