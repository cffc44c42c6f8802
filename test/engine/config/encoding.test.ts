import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { interpolate } from '../../../src/engine/config/interpolate.ts'
import { loadConfig, loadConfigText } from '../../../src/engine/config/load.ts'

t.test('a file in UTF-16 is reported as such, in either byte order', async t => {
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

t.test('configuration: a file in Latin-1 is refused at its first wrong byte', async t => {
  const file = join(t.testdir(), 'gateway.yaml')
  await writeFile(file, Buffer.from('# plain\n# caf\u00e9\nroutes: []\n', 'latin1'))
  await t.rejects(loadConfig(file, {}), {
    name: 'ConfigError',
    problems: [{ code: 'BG_CONFIG_SYNTAX', line: 2, column: 6, message: /not UTF-8/ }]
  })
})

t.test('byte order marks: the configuration and the file of a secret are read without them', async t => {
  const folder = t.testdir({ 'gateway.yaml': '\uFEFFuse: []\nroutes: []\n', secret: '\uFEFFhunter2\n' })
  t.equal((await loadConfig(join(folder, 'gateway.yaml'), {})).mode, 'development')
  t.match(interpolate('${SECRET}', { SECRET_FILE: join(folder, 'secret') }), { value: 'hunter2' })
})

t.test('configuration: top-level x- keys hold anchors, and merge keys take them', async t => {
  const text = (rest: string) => `x-limits: &limits { limit: 5, window: 10s }
x-more: &more { <<: *limits, limit: 6, by: address }
use: []
routes: []
policies:
  a: { <<: *limits }
  b: { <<: [*limits, *more], window: 20s }
  c: { limit: 7, <<: *more }
${rest}`
  const { policies } = await loadConfigText('gateway.yaml', text(''), {})
  t.match(policies, {
    a: { limit: 5, window: 10_000 },
    b: { limit: 5, window: 20_000, by: 'address' },
    c: { limit: 7, window: 10_000, by: 'address' }
  })
  const problem = async (rest: string) =>
    loadConfigText('gateway.yaml', text(rest), {}).then(
      () => null,
      (error: { problems: unknown }) => error.problems
    )
  t.match(await problem('  d: { <<: { limit: many }, window: 10s }\n'), [
    { line: 9, column: 21, path: 'policies.d.limit' }
  ])
  t.match(await problem('  d: { <<: [5], limit: 1, window: 10s }\n'), [{ line: 9, column: 13, message: /merge key/ }])
  t.match(await problem('  d: &d { <<: *d, limit: 1, window: 10s }\n'), [{ line: 9, message: /merge key/ }])
  t.match(await problem('y-other: {}\n'), [{ code: 'BG_CONFIG_UNKNOWN_KEY' }])
})
