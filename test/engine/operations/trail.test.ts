import t from 'tap'
import { Type } from 'typebox'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { idsOf, shownOf } from '../../../src/engine/operations/trail.ts'
import { cookieValues, setsOwnCookie, withoutOwnCookies } from '../../../src/engine/message/own-cookies.ts'

t.test('the trail shows numbers, choices and what is marked, and never another text', async t => {
  const schema = Type.Object({
    name: Type.String(),
    email: Type.String({ 'x-audit': true }),
    role: Type.Enum(['viewer', 'owner']),
    price: Type.Integer(),
    keys: Type.Array(Type.String()),
    inner: Type.Object({ secret: Type.String(), on: Type.Boolean() })
  })
  const body = {
    name: 'a secret',
    email: 'a@example.com',
    role: 'owner',
    price: 12,
    keys: ['a secret'],
    inner: { secret: 'a secret', on: true },
    unknown: 'a secret'
  }
  const shown = { name: '…', email: 'a@example.com', role: 'owner', price: 12, keys: '1 entries' }
  t.same(shownOf(body, schema), { ...shown, inner: { secret: '…', on: true } })
  t.notMatch(JSON.stringify(shownOf(body, undefined)), 'a secret', 'without a schema nothing is known to be none')
  t.same(idsOf({ proxyId: '7', id: 3, apiKey: 'x', webhookSecret: 'y' }), { proxyId: '7', id: 3 })
})

t.test('a cookie is found by its whole name, in any line', async t => {
  const valuesIn = (...lines: string[]) =>
    cookieValues(new HeaderList(lines.flatMap(line => ['Cookie', line])), 'boltgate-a')
  t.same(valuesIn('x=boltgate-a; boltgate-a=1;boltgate-ab=2; \tboltgate-a =3 ;y=4', 'boltgate-a=5'), ['1', '3', '5'])
  for (const line of ['', ';'.repeat(9), 'boltgate-b=1', 'my-boltgate-a=1', 'x=1 boltgate-a=2', '=boltgate-a=1'])
    t.same(valuesIn(line), [], line)
  t.same(valuesIn('boltgate-a', 'boltgate-a='), ['', ''])
})

t.test("the gateway's own cookies are found under any of their names, and no other", async t => {
  t.equal(withoutOwnCookies('theme=dark; boltgate-session=a; __Host-boltgate-session=b; x=1'), 'theme=dark; x=1')
  t.equal(withoutOwnCookies('boltgate_jobs=a'), null)
  t.equal(withoutOwnCookies('boltgates=a; my-boltgate-x=b'), 'boltgates=a; my-boltgate-x=b')
  for (const line of [
    'boltgate-session=a; Path=/',
    '__HOST-Boltgate-session=a',
    ' boltgate-session=a',
    '=boltgate-session=a'
  ])
    t.ok(setsOwnCookie(line), line)
  t.notOk(setsOwnCookie('session=boltgate-session'))
})
