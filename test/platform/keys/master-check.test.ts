import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { checkMaster } from '../../../src/app/master-check.ts'
import { KeyRing, Sealer, Secret } from '../../../src/platform/keys/secrets.ts'
import { Merchants } from '../../../src/accounts/merchants/service.ts'
import { MerchantStore } from '../../../src/accounts/merchants/store.ts'
import { createLog, silentLog } from '../../../src/platform/telemetry/log.ts'
import { eachDatabase } from '../../support/database.ts'
import { rootFolder } from '../../support/gateway.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const secret = (letter: string) => new Secret(letter.repeat(40))
const sealer = (current: string, ...previous: string[]) =>
  new Sealer(new KeyRing(secret(current), previous.map(secret)))

await eachDatabase(t, 'master secret: another one over a used database is refused', async (t, database) => {
  await checkMaster(database, sealer('a'), silentLog)
  await checkMaster(database, sealer('a'), silentLog)
  await t.rejects(checkMaster(database, sealer('b'), silentLog), {
    code: 'BG_MASTER_SECRET_MISMATCH',
    message: /secrets\.previous/
  })
})

await eachDatabase(
  t,
  'master secret: rotation keeps the old one as previous, until it is removed',
  async (t, database) => {
    await checkMaster(database, sealer('a'), silentLog)
    // The new secret reaches every process as a previous one first, or all together.
    await checkMaster(database, sealer('a', 'b'), silentLog)
    await checkMaster(database, sealer('b', 'a'), silentLog)
    await checkMaster(database, sealer('a', 'b'), silentLog)
    await checkMaster(database, sealer('b', 'a'), silentLog)
    await t.rejects(checkMaster(database, sealer('a'), silentLog), { code: 'BG_MASTER_SECRET_MISMATCH' })
    await checkMaster(database, sealer('b'), silentLog)
  }
)

await eachDatabase(
  t,
  'master secret: of gateways with different secrets that start concurrently one is refused',
  async (t, database) => {
    const results = await Promise.allSettled(
      ['a', 'b', 'a', 'b'].map(letter => checkMaster(database, sealer(letter), silentLog))
    )
    t.same(results.map(({ status }) => status === 'fulfilled').toSorted(), [false, false, true, true])
    t.equal(results[0]?.status, results[2]?.status)
  }
)

await eachDatabase(
  t,
  'master secret: a database without a check value is judged by what it stores',
  async (t, database) => {
    const clock = new ManualClock()
    const saveKey = async (letter: string, email: string) => {
      const merchants = new Merchants({
        store: new MerchantStore(database),
        sealer: sealer(letter),
        clock,
        plans: () => {
          throw new Error('no plan is needed')
        }
      })
      const tier = 'individual'
      const flags = { refundsEnabled: true, multiCurrencyEnabled: true, l402Enabled: true }
      await merchants.create({ name: 'Shop', email, tier, flags, primaryApiKey: secret('k') })
    }
    await saveKey('a', 'one@example.com')
    await t.rejects(checkMaster(database, sealer('b'), silentLog), { code: 'BG_MASTER_SECRET_MISMATCH' })
    await saveKey('b', 'two@example.com')
    const lines: string[] = []
    const log = createLog({
      level: 'warn',
      destination: {
        write: line => {
          lines.push(line)
        }
      }
    })
    await checkMaster(database, sealer('b'), log)
    t.equal(lines.length, 1, 'some values of an older secret are no reason to refuse')
    t.match(lines[0], /"code":"BG_UNSEAL","values":1/)
    await checkMaster(database, sealer('b', 'a'), log)
    t.equal(lines.length, 1)
  }
)

t.test('master secret: a lost master.key is not regenerated until the operator adopts a new one', async t => {
  const data = t.testdir({ 'gateway.yaml': '' })
  const file = join(data, 'gateway.yaml')
  writeFileSync(file, `data: ${data}\ndatabase: { url: "pglite:database" }\n`)
  const run = (...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [join(rootFolder, 'src/app/cli/boltgate.mjs'), ...args, '--config', file],
      { encoding: 'utf8', env: { PATH: process.env['PATH'] ?? '', HOST: '127.0.0.1', PORT: '0' } }
    )
    return { code: status, said: stdout + stderr }
  }
  t.equal(run('keys', 'adopt').code, 0)
  const key = join(data, 'master.key')
  const first = readFileSync(key, 'utf8')
  rmSync(key)
  for (const command of [['keys', 'rotate'], ['start']]) {
    const refused = run(...command)
    t.equal(refused.code, 1)
    t.match(refused.said, /master\.key is missing[^]*BG_KEY_FILE/)
  }
  writeFileSync(key, `${'x'.repeat(40)}\n`, { mode: 0o600 })
  const refused = run('start')
  t.equal(refused.code, 1)
  t.match(refused.said, /BG_MASTER_SECRET_MISMATCH/)
  writeFileSync(key, `${'x'.repeat(40)}\n${first}`, { mode: 0o600 })
  rmSync(key)
  t.equal(run('keys', 'adopt').code, 0)
  t.not(readFileSync(key, 'utf8'), first)
})
