import t from 'tap'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { bodyCoding, otherCharset, requireJson } from '../../../src/engine/message/unpaid-body.ts'

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
    else
      t.throws(() => requireJson(headers), {
        status: 415,
        message: /without a Content-Encoding/,
        headers: ['Accept-Encoding', 'identity']
      })
  }
})

t.test('every charset of a type is read', async t => {
  for (const [type, charset] of [
    ['application/json', null],
    ['application/json; charset=UTF-8', null],
    ['application/json; charset="utf8"; x=y', null],
    ['application/json; charset=utf-8;charset=utf-7', 'utf-7'],
    ['application/json; charset=', ''],
    ['application/json; charset=x-utf-8', 'x-utf-8'],
    ['application/json; charset=utf-80', 'utf-80'],
    ['application/json; charset=utf-8 ; x=y', null],
    ['application/json; charset=utf-8\u00a0', 'utf-8\u00a0']
  ] as const)
    t.equal(otherCharset(new HeaderList(['Content-Type', type])), charset, type)
})

t.test('a body is JSON by its type, whatever its letters and parameters', async t => {
  const requiring = (type?: string) => () => {
    requireJson(new HeaderList(type === undefined ? [] : ['Content-Type', type]))
  }
  for (const type of ['application/json', ' Application/JSON ;charset=x', 'application/problem+json'])
    t.doesNotThrow(requiring(type), type)
  for (const [type, end] of [
    [undefined, 'application/json.'],
    ['Text/Plain; a=b', 'application/json, not text/plain.'],
    ['application/jsonx', ', not application/jsonx.'],
    ['xapplication/a+json', ', not xapplication/a+json.'],
    ['application/a+jsonx', ', not application/a+jsonx.'],
    ['application/+json', ', not application/+json.']
  ] as const)
    t.throws(requiring(type), { status: 415, message: new RegExp(`${end.replaceAll(/[+.]/g, '[$&]')}$`) })
})
