import t from 'tap'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { bodyCoding, otherCharset, requireJson } from '../../../src/engine/message/json-type.ts'

t.test('a body is coded where any of its headers says so', async t => {
  const json = ['Content-Type', 'application/json']
  for (const [lines, coding] of [
    [[], null],
    [[''], null],
    [['Identity'], null],
    [['gzip'], 'gzip'],
    [['identity, br'], 'br'],
    [['identity', 'deflate'], 'deflate'],
    [['', 'X-Own'], 'x-own'],
    [['identity\u00a0'], 'identity\u00a0']
  ] as const) {
    const headers = new HeaderList([...json, ...lines.flatMap(line => ['Content-Encoding', line])])
    t.equal(bodyCoding(headers), coding, lines.join(' | '))
    if (coding === null) t.doesNotThrow(() => requireJson(headers))
    else t.throws(() => requireJson(headers), { message: /without a Content-Encoding/ })
  }
})

t.test('every charset of a type is looked at', async t => {
  for (const [type, charset] of [
    ['application/json', null],
    ['application/json; charset=UTF-8', null],
    ['application/json; charset="utf8"; x=y', null],
    ['application/json; charset=utf-8;charset=utf-7', 'utf-7'],
    ['application/json; charset=', ''],
    ['application/json; charset=utf-8 ; x=y', null],
    ['application/json; charset=utf-8\u00a0', 'utf-8\u00a0']
  ] as const)
    t.equal(otherCharset(new HeaderList(['Content-Type', type])), charset, type)
})
