import t from 'tap'
import {
  comparablePath,
  endOfPrefix,
  mergedPath,
  prefixSegments,
  routedPath
} from '../../../src/engine/message/path.ts'

t.test('path: unreserved characters are decoded, other escapes keep their octets in upper case', async t => {
  for (const [raw, comparable, routed] of [
    ['/plain', '/plain', '/plain'],
    ['/%61%2D%2e%5f%7E%30', '/a-._~0', '/a-._~0'],
    ['/%2f%3a', '/%2F%3A', '/%2f%3a'],
    ['/%c3%a9', '/%C3%A9', '/é'],
    ['/%ff%61', '/%FFa', '/%FFa'],
    ['/%zz%6', '/%zz%6', '/%zz%6']
  ] as const) {
    t.equal(comparablePath(raw), comparable, raw)
    t.equal(routedPath(raw), routed, raw)
  }
})

t.test('path: a prefix ends at a segment, however it is spelled', async t => {
  for (const [path, end] of [
    ['/a/b', 4],
    ['/a/b/', 4],
    ['/a/b/c', 4],
    ['/a/bc', -1],
    ['/a', -1],
    ['/b/a', -1],
    ['/%61/b', 6],
    ['/%61/b/c/d', 6],
    ['/%61/c', -1],
    ['/%61', -1],
    ['/a/%62c', -1]
  ] as const)
    t.equal(endOfPrefix(path, '/a/b'), end, path)
})

t.test('path: slashes are merged for upstreams that merge or decode them', async t => {
  t.equal(mergedPath('/a//b'), '/a/b')
  t.equal(mergedPath('/a%2Fb'), '/a/b')
  t.equal(mergedPath('//a/%2F/b%20'), '/a/b%20')
  t.equal(mergedPath('/a/b'), '/a/b')
})

t.test('path: a pattern has its parameter as the last segment before the rest', async t => {
  t.equal(prefixSegments('/l402/proxy/:proxyId/*', 'proxyId'), 3)
  t.equal(prefixSegments('/:id', 'id'), 1)
  for (const pattern of ['/x', '/:id/x', '/:id/*/x'])
    t.throws(() => prefixSegments(pattern, 'id'), { message: /must end with :id/ }, pattern)
})
