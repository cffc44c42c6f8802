import t from 'tap'
import { Type } from 'typebox'
import { harness } from '../../../src/engine/pipeline/harness.ts'
import { InternalUpstream } from '../../../src/engine/pipeline/internal.ts'
import { defineOperation } from '../../../src/engine/operations/operation.ts'

t.test('a path whose parameter no row can have is unknown, without a query', async t => {
  const upstream = new InternalUpstream([
    defineOperation({
      id: 'thing',
      method: 'GET',
      path: '/things/:id',
      summary: '',
      tag: 't',
      access: 'public',
      params: Type.Object({ id: Type.String() }),
      responses: { 200: { description: '', schema: Type.Object({ id: Type.String() }) } },
      handle: ({ params: { id } }) => ({ status: 200, body: { id } })
    })
  ])
  const chain = await harness([], { answer: ctx => upstream.handle(ctx) })
  t.equal((await chain.run({ method: 'GET', target: '/things/%00' })).status, 404)
  t.equal((await chain.run({ method: 'GET', target: '/things/a%00b' })).status, 404)
  t.same((await chain.run({ method: 'GET', target: '/things/%01' })).json(), { id: '\u0001' })
})
