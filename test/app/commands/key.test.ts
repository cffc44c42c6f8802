import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t, { type Test as T } from 'tap'
import { readLndConnect } from '../../../src/lightning/kinds/lnd/folder.ts'
import { selfSigned } from '../../fakes/certificate.ts'
import { baked } from '../../fakes/lnd.ts'
import { temporaryFolder } from '../../support/database.ts'
import { boltgate } from '../../support/cli.ts'

const { certificate } = selfSigned({ names: ['localhost', 'node.example.com'] })

/** lnd's folder with these files, beside its certificate. */
function lndFolder(t: T, files: Readonly<Record<string, string | Uint8Array>>) {
  const dir = temporaryFolder(t)
  for (const [name, content] of Object.entries({ 'tls.cert': certificate, ...files })) {
    mkdirSync(dirname(join(dir, name)), { recursive: true })
    if (content.length > 0) writeFileSync(join(dir, name), content)
  }
  return dir
}

const run = (...args: readonly string[]) => boltgate('key', 'lnd', ...args)

const OF_MAINNET = 'data/chain/bitcoin/mainnet/'

t.test('the key of a folder reaches the node with the macaroon that was baked for it', async t => {
  const own = baked()
  const dir = lndFolder(t, {
    'boltgate.macaroon': own,
    [`${OF_MAINNET}admin.macaroon`]: baked(),
    'lnd.conf': '[Application Options]\nrpclisten=0.0.0.0:10009\nrestlisten=0.0.0.0:8181\n'
  })
  const { code, out, err } = await run('--dir', dir)
  t.equal(code, 0)
  const read = readLndConnect(out)
  t.match(read, { origin: 'https://127.0.0.1:8181', certificate, servername: 'localhost' })
  t.equal(read.macaroon.reveal(), own.toString('hex'))
  t.match(err, /boltgate\.macaroon\.\n/)
  t.match(err, /--address/)
  t.notMatch(err, /may do/)
  t.notMatch(err, own.toString('base64url'))
})

t.test('the address of the node is said; the port may be left out', async t => {
  const dir = lndFolder(t, { [`${OF_MAINNET}invoice.macaroon`]: baked() })
  for (const [address, origin] of [
    ['node.example.com', 'https://node.example.com:8080'],
    ['node.example.com:443', 'https://node.example.com:443']
  ] as const) {
    const { out, err } = await run('--dir', dir, '--address', address)
    t.equal(readLndConnect(out).origin, origin)
    t.notMatch(err, /--address/)
  }
})

t.test('admin.macaroon is recognized, with the command that bakes a lesser one', async t => {
  const dir = lndFolder(t, { [`${OF_MAINNET}admin.macaroon`]: baked() })
  const { code, out, err } = await run('--dir', dir)
  t.equal(code, 0)
  t.ok(readLndConnect(out))
  t.match(err, /It may do everything that the node can/)
  t.match(err, /lncli bakemacaroon --save_to=boltgate\.macaroon invoices:read invoices:write offchain:read/)
})

t.test('a certificate of a public authority is left out', async t => {
  const dir = lndFolder(t, { 'boltgate.macaroon': baked(), 'tls.cert': '' })
  t.match(await run('--dir', dir), { code: 1, err: /There is no tls\.cert in .* use --public.*\[BG_NODE_FOLDER\]/ })
  const { out } = await run('--dir', dir, '--public', '--address', 'node.example.com:443')
  t.match(readLndConnect(out), { origin: 'https://node.example.com:443', certificate: null })
})

t.test('a kind that cannot make invoices, or is unknown, is reported before anything is printed', async t => {
  const refusals: ReadonlyArray<readonly [Readonly<Record<string, string | Uint8Array>>, string[], RegExp]> = [
    [{}, [], /No macaroon was found in .*: lncli bakemacaroon/],
    [{ 'boltgate.macaroon': 'hello' }, [], /none that lnd makes/],
    [{ 'boltgate.macaroon': baked(), 'tls.cert': 'hello' }, [], /is not an X\.509 certificate/],
    [
      {
        [`${OF_MAINNET}invoice.macaroon`]: baked(),
        'data/chain/bitcoin/testnet/invoice.macaroon': baked()
      },
      [],
      /several networks .*--network mainnet, or --network testnet/
    ],
    [{ [`${OF_MAINNET}invoice.macaroon`]: baked() }, ['--network', 'signet'], /found in .* for signet/],
    [{}, ['--macaroon', '/nowhere/x.macaroon'], /cannot be read at \/nowhere\/x\.macaroon: ENOENT/]
  ]
  for (const [files, args, said] of refusals) {
    const { code, out, err } = await run('--dir', lndFolder(t, files), ...args)
    t.same([code, out], [1, ''], said.source)
    t.match(err, said)
  }
  t.match(await run('--dir', '/no/such/folder'), {
    code: 1,
    err: /^There is no folder \/no\/such\/folder\. Name lnd's own with --dir, .*\[BG_NODE_FOLDER\]$/
  })
  t.match(await run('more'), { code: 2, err: /boltgate key --help/ })
})
