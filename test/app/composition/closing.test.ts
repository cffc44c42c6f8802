import t from 'tap'
import { compose } from '../../../src/app/compose.ts'
import { Closers } from '../../../src/app/composition/closers.ts'
import { providerKinds } from '../../../src/lightning/kinds/kinds.ts'
import type { ProviderKind } from '../../../src/lightning/kinds/kind.ts'
import { loadSecrets } from '../../../src/app/secrets.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { openAnyDatabase, temporaryFolder } from '../../support/database.ts'
import { loadText } from '../../support/gateway.ts'

t.test('parts are closed in reverse order, also past one that fails to close', async t => {
  const closers = new Closers(silentLog)
  const closed: string[] = []
  for (const part of ['first', 'second', 'third']) {
    closers.add(part, name => {
      closed.push(name)
      if (name === 'second') throw new Error('it fails to close')
    })
  }
  await closers.close()
  t.same(closed, ['third', 'second', 'first'])
  await closers.close()
  t.equal(closed.length, 3, 'each once')
})

t.test('a part that never closes keeps the others open only for a while, and is reported', async t => {
  const notified: unknown[] = []
  const closers = new Closers({ ...silentLog, error: fields => void notified.push(fields) }, 20)
  const closed: string[] = []
  closers.add('first', name => void closed.push(name))
  closers.add('second', () => new Promise<never>(() => {}))
  await closers.close()
  t.same(closed, ['first'])
  t.match(notified, [{ opened: '2 of 2', err: { message: 'it did not close within 0.02 s' } }])
})

t.test('a part may be given less time than the others', async t => {
  const notified: unknown[] = []
  const closers = new Closers({ ...silentLog, error: fields => void notified.push(fields) })
  closers.add('plugins', () => new Promise<never>(() => {}), 20)
  await closers.close()
  t.match(notified, [{ err: { message: 'it did not close within 0.02 s' } }])
})

t.test('a domain that cannot be opened closes those that were opened before it', async t => {
  const closed: string[] = []
  const kinds = providerKinds.map((kind): ProviderKind => {
    if (!kind.isSandbox) return kind
    return {
      ...kind,
      open: options => {
        const provider = kind.open(options)
        const close = provider.close.bind(provider)
        provider.close = async () => {
          closed.push(kind.name)
          await close()
        }
        return provider
      }
    }
  })
  const data = temporaryFolder(t)
  const { config, plugins } = await loadText('routes: []\n', { BOLTGATE_DATA: data }, { providers: kinds })
  const around = {
    clock: systemClock,
    log: silentLog,
    database: await openAnyDatabase(t),
    secrets: loadSecrets(config),
    plugins,
    providerKinds: kinds,
    publicUrl: () => 'http://127.0.0.1'
  }
  // The check of a file refuses this; nothing may stay open where it got past that.
  const wrong = { ...config, billing: { ...config.billing, kind: 'stripe' as const } }
  await t.rejects(compose(wrong, around), { message: /billing of kind stripe needs/ })
  t.same(closed, ['sandbox'])
})
