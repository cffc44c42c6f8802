import t from 'tap'
import { isToken, nameIn, NameTable } from '../../../src/engine/message/header-names.ts'

const named = (text: string) => nameIn(Buffer.from(`--${text}: x`), 2, 2 + text.length)

t.test('a name is read as it is spelled, whatever was read in its slot before', async t => {
  const spellings = Array.from({ length: 5_000 }, (_, at) => `x-${at.toString(36)}-${'n'.repeat(at % 60)}`)
  for (const text of [...spellings, ...spellings]) if (named(text) !== text) t.fail(text)
  t.equal(named('Content-Type'), 'Content-Type')
  t.equal(named('content-type'), 'content-type')
  t.equal(named('Content-Typf'), 'Content-Typf')
  t.equal(named('Content-Typ'), 'Content-Typ')
})

t.test('a name of every length up to beyond those that are kept is read whole', async t => {
  for (let length = 1; length < 200; length++) {
    const text = 'a'.repeat(length)
    if (named(text) !== text || named(text) !== text) t.fail(`${length}`)
  }
  t.equal(named('b'.repeat(49)).length, 49)
})

t.test('a table decides once for a spelling, by the name as it was spelled', async t => {
  const requests: string[] = []
  const table = new NameTable(name => {
    requests.push(name)
    return name.toLowerCase() === 'host' ? null : name.length
  })
  t.same(
    [table.of('Host'), table.of('host'), table.of('Host'), table.of('Accept'), table.of('Accept')],
    [null, null, null, 6, 6]
  )
  t.same(requests, ['Host', 'host', 'Accept'])
})

t.test('names without end neither fill a table nor keep the usual ones out of it', async t => {
  let decided = 0
  const table = new NameTable(name => {
    decided++
    return name.length
  })
  for (let at = 0; at < 1024; at++) table.of(`first-${at}`)
  table.of('first-0')
  t.equal(decided, 1024)
  table.of('one more')
  table.of('first-0')
  t.equal(decided, 1026, 'the first was forgotten')
  for (let at = 0; at < 100_000; at++) table.of(`x-${at}`)
  table.of('Host')
  decided = 0
  t.equal(table.of('Host'), 4)
  t.equal(decided, 0)
  t.equal(table.of('x'.repeat(5_000)), 5_000)
  t.equal(table.of('x'.repeat(5_000)), 5_000)
  t.equal(decided, 2, 'a long one is decided each time')
})

t.test('a token is what RFC 9110 5.6.2 says', async t => {
  for (let code = 0; code < 256; code++) {
    const char = String.fromCharCode(code)
    t.equal(isToken(char), /[A-Za-z0-9]/.test(char) || "!#$%&'*+-.^_`|~".includes(char), `${code}`)
  }
  t.notOk(isToken(''))
  t.notOk(isToken('a b'))
  t.notOk(isToken('a\n'))
})
