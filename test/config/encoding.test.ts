import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { loadConfig } from '../../src/config/load.ts'

t.test('a file in UTF-16 is told as such, in either order of bytes', async t => {
  const file = join(t.testdir(), 'gateway.yaml')
  const little = Buffer.from('\uFEFFroutes: []\n', 'utf16le')
  for (const bytes of [little, Buffer.from(little).swap16()]) {
    await writeFile(file, bytes)
    await t.rejects(loadConfig(file, {}), {
      name: 'ConfigError',
      problems: [{ code: 'BG_CONFIG_SYNTAX', line: 1, column: 1, message: /UTF-16; allowed: YAML in UTF-8/ }]
    })
  }
})
