import fs, { chmodSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { inspect } from 'node:util'
import t from 'tap'
import {
  keysPath,
  loadMasters,
  makeMaster,
  rotateMaster,
  readKeys,
  writeKeys
} from '../../../src/platform/keys/keyfile.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { temporaryFolder } from '../../support/database.ts'

const mode = (file: string) => (statSync(file).mode & 0o777).toString(8)

await t.test('keys are written for their owner alone, and read back', async t => {
  const data = join(temporaryFolder(t), 'data')
  t.equal(readKeys(data), null)
  const umask = process.umask(0)
  t.teardown(() => {
    process.umask(umask)
  })
  writeKeys(data, { adminKey: new Secret('admin'), merchant: { id: 1, apiKey: new Secret('bg_x') } })
  t.equal(mode(keysPath(data)), '600')
  t.equal(mode(data), '700')
  const keys = readKeys(data)
  t.equal(keys?.adminKey.reveal(), 'admin')
  t.equal(keys?.merchant?.id, 1)
  t.equal(keys?.merchant?.apiKey.reveal(), 'bg_x')
  t.notMatch(JSON.stringify(keys), /bg_x/)
  process.umask(0o277)
  writeKeys(data, { adminKey: new Secret('other'), merchant: null })
  t.equal(mode(keysPath(data)), '600', 'whatever the umask is')
  t.equal(readKeys(data)?.adminKey.reveal(), 'other')
  t.equal(readKeys(data)?.merchant, null)
  t.same(readdirSync(data), ['keys.json'], 'nothing unfinished is left')
})

await t.test('a key file is on the disk before it takes its place, and the folder after', async t => {
  const data = temporaryFolder(t)
  let refusal: Error | undefined
  t.teardown(syncBuiltinESMExports)
  const calls: string[] = []
  for (const name of ['fsyncSync', 'closeSync', 'renameSync', 'linkSync'] as const) {
    // Each of them takes what it was given.
    const real = fs[name] as (...given: unknown[]) => void
    t.intercept(fs, name, {
      configurable: true,
      value: (...given: unknown[]) => {
        calls.push(name)
        if (name === 'linkSync' && refusal !== undefined) throw refusal
        real(...given)
      }
    })
  }
  syncBuiltinESMExports()
  writeKeys(data, { adminKey: new Secret('admin'), merchant: null })
  t.same(calls.splice(0), ['fsyncSync', 'closeSync', 'renameSync', 'fsyncSync', 'closeSync'])
  makeMaster(data)
  t.same(calls.splice(0), ['fsyncSync', 'closeSync', 'linkSync', 'fsyncSync', 'closeSync'])
  refusal = Object.assign(new Error('no links here'), { code: 'EPERM' })
  t.throws(() => makeMaster(data), refusal)
  t.same(readdirSync(data).toSorted(), ['keys.json', 'master.key'], 'nothing unfinished is left')
})

await t.test(
  'files that others may read are refused with what to do',
  { skip: process.platform === 'win32' },
  async t => {
    const data = temporaryFolder(t)
    loadMasters(data)
    writeKeys(data, { adminKey: new Secret('admin'), merchant: null })
    for (const open of [0o640, 0o604, 0o620]) {
      chmodSync(keysPath(data), open)
      t.throws(() => readKeys(data), {
        code: 'BG_KEY_FILE',
        message: `${keysPath(data)} holds secrets but others may read or change it; run: chmod 600 ${keysPath(data)}`
      })
      chmodSync(join(data, 'master.key'), open)
      t.throws(() => loadMasters(data), { code: 'BG_KEY_FILE' })
    }
  }
)

await t.test('a damaged keys file is refused without showing what it holds', async t => {
  const data = temporaryFolder(t)
  for (const text of [
    'hidden-value',
    '{}',
    '{"adminKey":"hidden-value","merchant":{"id":"1"}}',
    '{"adminKey":"hidden-value","merchant":{"id":1}}',
    '{"adminKey":"hidden-value","merchant":{"id":"1","apiKey":"x"}}',
    '{"adminKey":7}',
    '{"adminKey":"","merchant":null}',
    '"hidden-value"',
    '[]',
    'null'
  ]) {
    writeFileSync(keysPath(data), text, { mode: 0o600 })
    const error: unknown = (() => {
      try {
        return readKeys(data)
      } catch (error) {
        return error
      }
    })()
    t.match(error, { code: 'BG_KEY_FILE' }, text)
    t.notMatch(inspect(error), /hidden-value/)
    t.match(String(error), text.startsWith('h') ? 'is not JSON' : 'must hold')
  }
})

await t.test('the master secret is made once and stays', async t => {
  const data = join(temporaryFolder(t), 'data')
  const made = loadMasters(data)
  t.equal(Buffer.byteLength(made.current.reveal()), 64)
  t.equal(loadMasters(data).current.reveal(), made.current.reveal())
  t.equal(mode(join(data, 'master.key')), '600')
  t.equal(readFileSync(join(data, 'master.key'), 'utf8').trim(), made.current.reveal())
  t.same(readdirSync(data), ['master.key'])
  makeMaster(data)
  t.equal(loadMasters(data).current.reveal(), made.current.reveal(), 'the first to place it wins')
  const [shortest, short] = ['x'.repeat(32), 'x'.repeat(31)]
  writeFileSync(join(data, 'master.key'), `${shortest}\n\n ${shortest} \n`)
  t.same(
    loadMasters(data).previous.map(secret => secret.reveal()),
    [shortest]
  )
  for (const lines of [short, `${shortest}\n${short}`, `${short}\n${shortest}`, '']) {
    writeFileSync(join(data, 'master.key'), `${lines}\n`)
    t.throws(() => loadMasters(data), /at least 32 bytes/, lines)
  }
})

t.test('a rotated master secret comes first and the old one below it', async t => {
  const data = t.testdir()
  const before = loadMasters(data)
  rotateMaster(data)
  const after = loadMasters(data)
  t.not(after.current.reveal(), before.current.reveal())
  t.same(
    after.previous.map(secret => secret.reveal()),
    [before.current.reveal()]
  )
  rotateMaster(data)
  t.same(
    loadMasters(data).previous.map(secret => secret.reveal()),
    [after.current.reveal(), before.current.reveal()],
    'newest first, and all are kept'
  )
})
