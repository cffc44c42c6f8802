import { Type } from 'typebox'
import t from 'tap'
import { NO_ROUTE } from '../../../src/engine/message/context.ts'
import { LongError } from '../../../src/engine/operations/errors.ts'
import { defineOperation } from '../../../src/engine/operations/operation.ts'
import { Chain } from '../../../src/engine/pipeline/chain.ts'
import { InternalContext, replyInProcess } from '../../../src/engine/pipeline/in-process.ts'
import { InternalUpstream } from '../../../src/engine/pipeline/internal.ts'
import { harness } from '../../../src/engine/pipeline/harness.ts'
import type { Hooks } from '../../../src/engine/pipeline/plugin.ts'

const operations = new InternalUpstream([
  defineOperation({
    id: 'double',
    method: 'POST',
    path: '/double',
    summary: 'Doubles',
    tag: 'Test',
    access: 'public',
    body: Type.Object({ value: Type.Integer() }),
    responses: { 200: { description: 'Doubled.', schema: Type.Object({ value: Type.Integer() }) } },
    handle({ body: { value } }) {
      if (value < 0) throw new LongError(409, 'Negative', 'It is negative.')
      if (value === 0) throw new Error('out of luck')
      return { status: 200, body: { value: value * 2, secret: 'not in the schema' } }
    }
  })
])

const pages = await harness({ name: 'page', config: Type.Object({}), setup: () => ({}) })
const pageOf = (method: string) => pages.begin({ method, target: '/console' }).ctx

/** Submits a form through a chain that records its calls. */
async function ask(value: number, plugin: Hooks = {}, leadsTo: InternalUpstream | null = operations) {
  const notified: string[] = []
  const recorder: Hooks = {
    request: () => void notified.push('request'),
    response: (_ctx, { status }) => void notified.push(`response ${status}`),
    chunk: (_ctx, bytes) => void notified.push(`chunk ${Buffer.from(bytes).toString()}`),
    done: (_ctx, { status, source }) => void notified.push(`done ${status} ${source}`)
  }
  const chain = new Chain([recorder, plugin, { handle: ctx => operations.handle(ctx) }], 0)
  const faults: string[] = []
  const ctx = new InternalContext(pageOf('POST'), { method: 'POST', target: '/double', body: { value } })
  const reply = await replyInProcess(
    ctx,
    { info: NO_ROUTE, chain, operations: leadsTo },
    {
      mode: 'production',
      now: () => 0,
      monotonic: () => 0,
      fault: (_ctx, { cause }) => void faults.push(String(cause)),
      finished() {}
    }
  )
  return { status: reply.status, body: String(reply.body), told: notified, faults }
}

t.test('the chain judges, the operation runs, and each plugin gets the end once', async t => {
  t.same(await ask(4), {
    status: 200,
    body: '{"value":8}',
    told: ['request', 'response 200', 'chunk {"value":8}', 'done 200 reply'],
    faults: []
  })
})

t.test('refusals of plugins, schemas and operations are answered as to any client', async t => {
  const refused = await ask(4, {
    request() {
      throw new LongError(403, 'Feature not available', 'Your plan does not cover this.')
    }
  })
  t.match(refused, { status: 403, body: /does not cover/, told: ['request', 'done 403 error'], faults: [] })
  t.match(await ask(0.5), { status: 400, body: /"errors"/, faults: [] })
  t.match(await ask(-1), { status: 409, body: /It is negative/, faults: [] })
  t.match(await ask(0), { status: 500, told: ['request', 'done 500 error'], faults: ['Error: out of luck'] })
})

t.test('a route that leads elsewhere is not followed, and a page that is only read changes nothing', async t => {
  t.match(await ask(4, {}, null), { status: 404, told: [] })
  t.throws(() => new InternalContext(pageOf('GET'), { method: 'POST', target: '/double' }), TypeError)
  t.ok(new InternalContext(pageOf('GET'), { method: 'GET', target: '/' }).internal)
})
