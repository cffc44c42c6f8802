import postgres from 'postgres'
import t from 'tap'
import { describe, logged, startCode } from '../../../src/app/commands/explain.ts'
import { ConfigError } from '../../../src/engine/config/diagnose.ts'
import { DatabaseOpenError } from '../../../src/platform/database/errors.ts'

const system = (members: object) => Object.assign(new Error('the words of the system'), members)
// postgres.js makes it of what the server sends; its type has no constructor for us.
const refused = (code: string) =>
  Reflect.construct(postgres.PostgresError, [{ message: 'database "x" does not exist', code }]) as Error

t.test('a failed command has the exit code of its cause', async t => {
  for (const [error, code] of [
    [system({ code: 'ENOTFOUND', syscall: 'getaddrinfo' }), 'BG_NOT_REACHED'],
    [system({ code: 'ECONNREFUSED', syscall: 'connect' }), 'BG_NOT_REACHED'],
    [new Error('fetch failed', { cause: system({ code: 'ECONNRESET', syscall: 'read' }) }), 'BG_NOT_REACHED'],
    [system({ code: 'ENOSPC', syscall: 'write' }), 'BG_FILE_ACCESS'],
    [refused('28P01'), 'BG_DATABASE_URL'],
    [refused('3D000'), 'BG_DATABASE_URL'],
    [refused('42601'), 'BG_UNEXPECTED'],
    [new DatabaseOpenError('data/database', 'why'), 'BG_DATABASE_OPEN'],
    [new TypeError('x is undefined'), 'BG_UNEXPECTED'],
    ['no error at all', 'BG_UNEXPECTED']
  ] as const)
    t.equal(startCode(error), code, String(error))
})

t.test('the words say what is wrong in terms of the settings', async t => {
  t.equal(describe(refused('3D000')), 'PostgreSQL refuses what database.url asks for: database "x" does not exist')
  t.match(
    describe(system({ code: 'EEXIST', syscall: 'mkdir', path: '/d' })),
    /^The folder \/d cannot be created, because a file/
  )
  t.equal(describe(system({ code: 'EACCES', syscall: 'open', path: '/d' })), 'the words of the system')
  t.equal(describe(new Error('a', { cause: new Error('b') })), 'a: b')
})

t.test("the log has a stack of what is ours or a plugin's, and of nothing else", async t => {
  const ours = new TypeError('x is undefined')
  t.same(logged(ours), { err: ours })
  t.same(logged(system({ code: 'ECONNREFUSED', syscall: 'connect' })), {
    code: 'BG_NOT_REACHED',
    reason: 'the words of the system'
  })
  const problem = { code: 'BG_PLUGIN_SETUP', file: 'gateway.yaml', line: 1, column: 2, path: '', message: 'm' } as const
  t.same(logged(new ConfigError([problem])), {
    code: 'BG_PLUGIN_SETUP',
    reason: 'gateway.yaml:1:2: m [BG_PLUGIN_SETUP]'
  })
  t.match(logged(new ConfigError([problem], { cause: ours })), { code: 'BG_PLUGIN_SETUP', err: ours })
})
