import t, { type Test } from 'tap'
import type { Context } from '../../../src/engine/message/context.ts'
import { doors, openDoor, reply, replyError } from './support.ts'
import { framing, pipelines, upgrades } from './vectors/framing.ts'
import { authorizations, expectations, headerLines, hosts } from './vectors/headers.ts'
import { requestLines, targets } from './vectors/request-line.ts'
import type { Seen, Vector } from './vectors/vector.ts'

const groups: Record<string, readonly Vector[]> = {
  requestLines,
  targets,
  hosts,
  headerLines,
  authorizations,
  expectations,
  framing,
  pipelines,
  upgrades
}

interface Request {
  readonly ctx: Context
  body: string | null
}

function compare(t: Test, record: Request | undefined, expected: Seen) {
  if (record === undefined) {
    t.fail(`${expected.line} did not reach the handler`)
    return
  }
  const { ctx, body } = record
  t.equal(`${ctx.method} ${ctx.target}`, expected.line, 'the request line, byte for byte')
  if (expected.host !== undefined) t.equal(ctx.host, expected.host, 'the host')
  if (expected.version !== undefined) t.equal(ctx.httpVersion, expected.version, 'the version')
  if (expected.body !== undefined) t.equal(body, expected.body, 'the body')
  if (expected.headers !== undefined) t.strictSame(ctx.headers.pairs, expected.headers, 'the headers')
  t.equal(ctx.upgrade, expected.upgrade ?? null, 'the upgrade')
}

t.test('the vectors are all there', async t => {
  const all = Object.values(groups).flat()
  t.ok(all.length >= 110, `${all.length} vectors`)
  t.equal(new Set(all.map(vector => vector.id)).size, all.length, 'each has its own id')
})

for (const [name, vectors] of Object.entries(groups)) {
  t.test(name, async t => {
    const seen: Request[] = []
    const door = await openDoor(t, {
      async handle(ctx, wire) {
        const record: Request = { ctx, body: null }
        seen.push(record)
        try {
          record.body = Buffer.from(await ctx.body.bytes()).toString('latin1')
          reply(wire, 200, `${ctx.method} ${ctx.target}`)
        } catch (error) {
          replyError(ctx, wire, error)
        }
      }
    })
    for (const vector of vectors) {
      await t.test(`${vector.id} (${vector.clause})`, async t => {
        seen.length = 0
        const client = await door.connect()
        client.send(vector.bytes)
        const method = vector.seen[0]?.line.split(' ')[0] ?? 'GET'
        for (const status of vector.answers) {
          const response = await client.response(method)
          t.equal(response.status, status, `answer ${status}`)
          if (status >= 400 && vector.seen.length === 0) {
            t.strictSame(
              response.headers.filter((_, at) => at % 2 === 0),
              [
                'Date',
                'Content-Type',
                'Content-Length',
                'Cache-Control',
                'X-API-Version',
                'X-Correlation-Id',
                'Connection',
                ...(response.status === 405 ? ['Allow'] : [])
              ].sort(byPlace(response.headers)),
              'the headers of a refusal'
            )
            const body = JSON.parse(response.body) as { error: unknown; message: unknown } // the front door's own shape
            t.strictSame(Object.keys(body), ['error', 'message'])
            if (vector.says !== undefined) t.match(body.message, vector.says)
          }
        }
        const closes = vector.closes || (vector.closesWithoutLane === true && !doors.fastLane)
        if (closes) t.equal((await client.ending()).how, 'end', 'the server ends the connection cleanly')
        t.equal(client.unparsed, '', 'no other answer')
        if (!closes) {
          client.send('GET /still-here HTTP/1.1\r\nHost: a\r\n\r\n')
          t.equal((await client.response()).body, 'GET /still-here', 'the connection can be used again')
          t.equal(seen.pop()?.ctx.target, '/still-here')
        }
        client.close()
        t.equal(seen.length, vector.seen.length, 'as many requests as expected reached the handler')
        for (const [at, expected] of vector.seen.entries()) compare(t, seen[at], expected)
      })
    }
  })
}

/** Order of the wire: Node writes Date where it likes. */
function byPlace(headers: readonly string[]): (a: string, b: string) => number {
  return (a, b) => headers.indexOf(a) - headers.indexOf(b)
}
