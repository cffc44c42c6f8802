import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { loadNodeKey } from '../../../src/lightning/kinds/sandbox/node-key.ts'

t.test('the node key is made once, readable by its owner alone, and read again', async t => {
  const file = join(t.testdir(), 'data', 'sandbox-node.key')
  const made = loadNodeKey(file)
  t.equal(made.length, 32)
  t.equal(statSync(file).mode & 0o777, 0o600)
  t.same(loadNodeKey(file), made)
  chmodSync(file, 0o644)
  t.same(loadNodeKey(file), made)
  t.equal(statSync(file).mode & 0o777, 0o600, 'a mode that was too open is set right')
})

t.test('a file that holds no key is refused and left as it is', async t => {
  const dir = t.testdir()
  mkdirSync(join(dir, 'data'))
  for (const text of ['', 'hello', '00'.repeat(32), 'ff'.repeat(32)]) {
    const file = join(dir, 'data', 'sandbox-node.key')
    writeFileSync(file, text, { mode: 0o600 })
    t.throws(() => loadNodeKey(file), { code: 'BG_KEY_FILE' }, JSON.stringify(text))
    t.equal(readFileSync(file, 'utf8'), text)
  }
})
