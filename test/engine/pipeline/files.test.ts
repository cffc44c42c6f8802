import { appendFileSync, mkdirSync, symlinkSync, truncateSync, utimesSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import t, { type Test as T } from 'tap'
import { temporaryFolder } from '../../support/database.ts'
import { buy, startGateway, use } from '../../support/gateway.ts'

const BYTES = Array.from({ length: 300_000 }, (_, index) => String.fromCharCode(32 + (index % 90))).join('')

function folderOf(t: T) {
  const root = temporaryFolder(t)
  const folder = join(root, 'books')
  mkdirSync(join(folder, 'sub', '.git'), { recursive: true })
  writeFileSync(join(root, 'secret.txt'), 'secret')
  writeFileSync(join(folder, 'a book.pdf'), BYTES)
  writeFileSync(join(folder, 'notes.txt'), 'notes')
  writeFileSync(join(folder, 'empty.json'), '')
  writeFileSync(join(folder, 'index.html'), '<p>index')
  writeFileSync(join(folder, '.env'), 'secret')
  writeFileSync(join(folder, 'sub', 'deep.txt'), 'deep')
  for (const character of '$&+,:;=@') writeFileSync(join(folder, `deep-${character}.txt`), 'deep')
  writeFileSync(join(folder, 'sub', '.git', 'config'), 'secret')
  symlinkSync('notes.txt', join(folder, 'inside.txt'))
  symlinkSync('../secret.txt', join(folder, 'outside.txt'))
  symlinkSync('..', join(folder, 'up'))
  utimesSync(join(folder, 'notes.txt'), 1_700_000_000, 1_700_000_000)
  return folder
}

const yamlOf = (folder: string) => `routes:
  - { match: { path: /free/* }, chain: public, upstream: { files: ${folder} } }
  - { match: { path: /paid/* }, price: 5, chain: paid, upstream: { files: ${folder} } }
  - { match: { path: /one }, chain: public, upstream: { files: ${join(folder, 'a book.pdf')} } }
`

t.test('files: bytes, types, HEAD, ranges and conditional requests', async t => {
  const folder = folderOf(t)
  const { send } = await startGateway(t, { yaml: yamlOf(folder) })
  const book = await send('GET', '/free/a%20book.pdf')
  t.match(book, { status: 200 })
  t.ok(book.text === BYTES)
  t.equal(book.headers['content-type'], 'application/pdf')
  t.equal(book.headers['content-length'], String(BYTES.length))
  t.equal(book.headers['accept-ranges'], 'bytes')
  t.equal(book.headers['x-content-type-options'], 'nosniff')
  t.ok((await send('GET', '/one')).text === BYTES, 'one file at its own path')

  const head = await send('HEAD', '/free/a%20book.pdf')
  t.match(head, { status: 200, text: '' })
  t.equal(head.headers['content-length'], String(BYTES.length))

  const part = await send('GET', '/free/a%20book.pdf', { headers: { range: 'bytes=10-19' } })
  t.equal(part.status, 206)
  t.equal(part.headers['content-range'], `bytes 10-19/${BYTES.length}`)
  t.equal(part.text, BYTES.slice(10, 20))
  const tail = await send('GET', '/free/a%20book.pdf', { headers: { range: 'bytes=-3' } })
  t.equal(tail.text, BYTES.slice(-3))
  const beyond = await send('GET', '/free/a%20book.pdf', { headers: { range: 'bytes=300000-' } })
  t.match(beyond, { status: 416, text: '' })
  t.equal(beyond.headers['content-range'], `bytes */${BYTES.length}`)
  t.equal((await send('GET', '/free/notes.txt', { headers: { range: 'bytes=0-0,2-2' } })).text, 'notes', 'several: all')
  // The library's work grows with the square of the commas.
  const long = await send('GET', '/free/notes.txt', { headers: { range: `bytes=0-0${','.repeat(300)}` } })
  t.match(long, { status: 200, text: 'notes' }, 'a long list of ranges: all')

  const notes = await send('GET', '/free/notes.txt')
  t.equal(notes.headers['content-type'], 'text/plain; charset=utf-8')
  t.equal(notes.headers['last-modified'], 'Tue, 14 Nov 2023 22:13:20 GMT')
  const etag = String(notes.headers['etag'])
  t.equal((await send('GET', '/free/notes.txt', { headers: { 'if-none-match': etag } })).status, 304)
  t.equal(
    (await send('GET', '/free/notes.txt', { headers: { 'if-modified-since': 'Tue, 14 Nov 2023 22:13:20 GMT' } }))
      .status,
    304
  )
  t.equal((await send('GET', '/free/notes.txt', { headers: { 'if-match': '"other"' } })).status, 412)
  t.match(await send('GET', '/free/empty.json'), { status: 200, text: '' })
  t.equal((await send('GET', '/free/sub/deep.txt')).text, 'deep')
})

t.test('files: no listing, no dot file, no way out, and one spelling of each file', async t => {
  const { send } = await startGateway(t, { yaml: yamlOf(folderOf(t)) })
  for (const path of [
    '/free/',
    '/free/sub',
    '/free/sub/',
    '/free/.env',
    '/free/%2eenv',
    '/free/sub/.git/config',
    '/free/inside.txt',
    '/free/outside.txt',
    '/free/up/secret.txt',
    '/free/up/books/notes.txt',
    '/free/..%2fsecret.txt',
    '/free/%2e%2e/secret.txt',
    '/free/sub%2fdeep.txt',
    '/free/sub%5cdeep.txt',
    '/free/%73ub/deep.txt',
    ...['%24', '%26', '%2B', '%2b', '%2C', '%3A', '%3B', '%3D', '%40'].map(code => `/free/deep-${code}.txt`),
    '/free/sub//deep.txt',
    '/free/notes.txt/',
    '/free/notes.txt%00',
    '/free/%ff',
    '/free/missing.txt',
    '/free/sub/index.html'
  ]) {
    const { status, text } = await send('GET', path)
    t.ok(status === 404 || status === 400, `${path}: ${status}`)
    t.notMatch(text, /secret|notes|deep/, path)
  }
  t.equal((await send('GET', '/free/deep-+.txt')).text, 'deep')
  const post = await send('POST', '/free/notes.txt')
  t.equal(post.status, 405)
  t.equal(post.headers['allow'], 'GET, HEAD, OPTIONS')
})

t.test('files: one is sold, and what is not there is not', async t => {
  const gateway = await startGateway(t, { yaml: yamlOf(folderOf(t)) })
  t.equal((await gateway.send('GET', '/paid/missing.txt')).status, 404, 'before the 402')
  t.equal((await gateway.send('POST', '/paid/notes.txt')).status, 405)
  const options = await gateway.send('OPTIONS', '/paid/notes.txt')
  t.match([options.status, options.headers['allow']], [204, 'GET, HEAD, OPTIONS'])
  t.equal((await gateway.send('GET', '/paid/notes.txt')).status, 402)
  const authorization = await buy(gateway, '/paid/a%20book.pdf', 'payment')
  const bought = await use(gateway, '/paid/a%20book.pdf', authorization)
  t.equal(bought.status, 200)
  t.ok(bought.text === BYTES)
})

t.test('files: check says what fits', async t => {
  const folder = folderOf(t)
  const start = async (route: string) =>
    await startGateway(t, { yaml: `routes: [ { ${route} } ]` }).catch((error: unknown) => error)
  t.match(await start('match: { path: /a/* }, chain: public, upstream: { files: ./nowhere }'), {
    message: /upstream\.files: found ".*nowhere", which cannot be read; allowed: the path of a folder/
  })
  t.match(await start(`match: { path: /a }, chain: public, upstream: { files: ${folder} }`), {
    message: /found a folder behind the path "\/a"; allowed: paths that end with \/\*, such as "\/a\/\*"/
  })
  t.match(await start(`match: { path: /a/* }, chain: public, upstream: { files: ${join(folder, 'notes.txt')} }`), {
    message: /found a file behind the path "\/a\/\*"; allowed: a path without a star/
  })
  t.match(await start(`match: { path: /a/* }, chain: public, upstream: { files: ${folder}, timeout: 3s }`), {
    message: /found timeout beside files/
  })
})

t.test('files: one that changes while it is sent does not break the framing of responses', async t => {
  const folder = folderOf(t)
  const file = join(folder, 'log.txt')
  const { url } = await startGateway(t, { yaml: yamlOf(folder) })
  // More than the buffers of the connection hold, so that the rest is read after the change.
  const size = 32_000_000
  for (const [change, expected] of [
    ['grows', /^HTTP\/1\.1 404 /],
    ['shrinks', null]
  ] as const) {
    writeFileSync(file, '')
    truncateSync(file, size)
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    const ask = (path: string) => `GET ${path} HTTP/1.1\r\nHost: gateway\r\n\r\n`
    socket.write(ask('/free/log.txt') + ask('/free/missing.txt'))
    const [first] = await once(socket, 'data')
    socket.pause()
    const pieces = [Buffer.from(first)]
    if (change === 'grows') appendFileSync(file, 'X'.repeat(1_000_000))
    else truncateSync(file, size - 1_000_000)
    socket.on('data', piece => {
      pieces.push(piece)
      if (piece.includes('Nothing is served')) socket.destroy()
    })
    socket.resume()
    // A body that cannot be completed ends in a reset.
    await new Promise(resolve => socket.on('error', resolve).on('close', resolve))
    const bytes = Buffer.concat(pieces)
    const after = bytes.subarray(bytes.indexOf('\r\n\r\n') + 4 + size).toString('latin1')
    if (expected === null) t.equal(after, '', 'the connection ends, since its body cannot be completed')
    else t.match(after, expected, 'the next response follows the promised length')
  }
})
