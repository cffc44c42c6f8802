import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import t from 'tap'
import { temporaryFolder } from '../../support/database.ts'
import { rootFolder } from '../../support/gateway.ts'

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  t.test(`${signal} to npm start alone ends the gateway gracefully`, async t => {
    const npm = spawn('env', ['-u', 'NODE_OPTIONS', 'npm', 'start'], {
      cwd: rootFolder,
      env: {
        PATH: process.env['PATH'] ?? '',
        HOME: temporaryFolder(t),
        HOST: '127.0.0.1',
        PORT: '0',
        BOLTGATE_DATA: temporaryFolder(t)
      },
      stdio: ['ignore', 'pipe', 'ignore'],
      // A group of its own, so that nothing outlives the test.
      detached: true
    })
    t.teardown(() => {
      try {
        process.kill(-(npm.pid ?? 0), 'SIGKILL')
      } catch {
        // All have ended, as they should.
      }
    })
    const ended = once(npm, 'exit')
    let stopping = false
    const lines = createInterface({ input: npm.stdout }).on('line', line => {
      if (line.startsWith('{') && line.includes('"msg":"ready"')) npm.kill(signal)
      stopping ||= line.includes('"msg":"stopping')
    })
    t.same(await ended, [0, null])
    lines.close()
    t.ok(stopping, 'the gateway logs that it drains requests in flight')
  })
}
