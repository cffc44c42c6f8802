import { EventEmitter, once } from 'node:events'
import { mkdir, mkdtemp, rename, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { watchConfig, type WatchOptions } from '../../../src/engine/config/watch.ts'
import { ManualClock } from '../../support/manual-clock.ts'

/** A watcher over a file that exists only in this object. */
async function scene(options: Partial<WatchOptions> = {}) {
  const clock = new ManualClock()
  const signals = new EventEmitter()
  const file: { text: string | undefined } = { text: 'a: 1' }
  const reasons: string[] = []
  const errors: Error[] = []
  const folder = { event: (_name?: string | null) => {}, closed: false, path: '' }
  const watch = await watchConfig({
    file: '/srv/gateway/gateway.yaml',
    clock,
    signals,
    onChange: reason => {
      reasons.push(reason)
    },
    onError: error => {
      errors.push(error)
    },
    watch(path, event) {
      Object.assign(folder, { path, event: (name: string | null = 'gateway.yaml') => event(name) })
      return {
        close: () => {
          folder.closed = true
        }
      }
    },
    read: async () => {
      if (file.text === undefined) throw new Error('ENOENT')
      return file.text
    },
    ...options
  })
  const settle = async (ms = 100) => {
    clock.advance(ms)
    await turn()
  }
  return { clock, signals, file, reasons, errors, folder, watch, settle }
}

t.test('a saved file calls back once, after its events have ended', async t => {
  const { file, folder, reasons, settle } = await scene()
  t.equal(folder.path, '/srv/gateway', 'the folder is watched, not the file')
  file.text = 'a: 2'
  folder.event()
  await settle(60)
  folder.event()
  await settle(60)
  t.same(reasons, [], 'the second event restarted the quiet time')
  await settle(40)
  t.same(reasons, ['saved'])
})

t.test('events that leave the text unchanged call nothing', async t => {
  const { folder, reasons, settle } = await scene()
  folder.event()
  await settle()
  t.same(reasons, [])
})

t.test('a file that is missing in the middle of a rename is read once it is back', async t => {
  const { file, folder, reasons, settle } = await scene()
  file.text = undefined
  folder.event()
  await settle()
  t.same(reasons, [])
  file.text = 'a: 2'
  folder.event()
  await settle()
  t.same(reasons, ['saved'])
})

t.test('watch: a log beside the file neither delays a reload nor makes it be read', async t => {
  let reads = 0
  let text = 'a: 1'
  const { folder, reasons, settle } = await scene({
    read: async () => {
      reads++
      return text
    }
  })
  text = 'a: 2'
  folder.event()
  await settle(60)
  folder.event('gateway.log')
  await settle(60)
  t.same(reasons, ['saved'])
  const before = reads
  folder.event('gateway.log')
  await settle()
  t.equal(reads, before)
  text = 'a: 3'
  folder.event(null)
  await settle()
  t.same(reasons, ['saved', 'saved'], 'an event without a name may be of the file')
})

t.test('SIGHUP calls back even where nothing changed', async t => {
  const { signals, reasons, settle } = await scene()
  signals.emit('SIGHUP')
  await settle(0)
  t.same(reasons, ['signal'])
})

t.test('a change during a callback is served after it, never beside it', async t => {
  let running = 0
  let most = 0
  const gates: (() => void)[] = []
  const reasons: string[] = []
  const { signals, settle } = await scene({
    async onChange(reason) {
      reasons.push(reason)
      most = Math.max(most, ++running)
      await new Promise<void>(resolve => {
        gates.push(resolve)
      })
      running--
    }
  })
  signals.emit('SIGHUP')
  await settle(0)
  signals.emit('SIGHUP')
  signals.emit('SIGHUP')
  await settle(0)
  t.same(reasons, ['signal'])
  gates[0]?.()
  await settle(0)
  t.same(reasons, ['signal', 'signal'], 'what came meanwhile is one call')
  gates[1]?.()
  await settle(0)
  t.equal(most, 1)
})

t.test('an error thrown by a callback is reported, and watching goes on', async t => {
  let calls = 0
  const { signals, errors, settle } = await scene({
    onChange: () => {
      if (++calls === 1) throw new Error('bad file')
    }
  })
  signals.emit('SIGHUP')
  await settle(0)
  t.same(
    errors.map(error => error.message),
    ['bad file']
  )
  signals.emit('SIGHUP')
  await settle(0)
  t.equal(calls, 2)
})

t.test('without folder watches SIGHUP still works, and a warning is logged', async t => {
  const { signals, errors, reasons, settle } = await scene({
    watch: () => {
      throw new Error('EMFILE')
    }
  })
  t.match(errors, [{ message: '/srv/gateway is not watched for changes; use SIGHUP' }])
  signals.emit('SIGHUP')
  await settle(0)
  t.same(reasons, ['signal'])
})

t.test('after close nothing is called and nothing is left', async t => {
  const { file, folder, signals, reasons, watch, settle } = await scene()
  file.text = 'a: 2'
  folder.event()
  watch.close()
  watch.close()
  folder.event()
  await settle()
  t.same(reasons, [])
  t.ok(folder.closed)
  t.equal(signals.listenerCount('SIGHUP'), 0)
})

t.test('a real file that an editor replaces by a rename is noticed, twice', async t => {
  const folder = await mkdtemp(join(t.testdir({}), 'watch-'))
  const file = join(folder, 'gateway.yaml')
  await writeFile(file, 'a: 1')
  const calls = new EventEmitter()
  const watch = await watchConfig({
    file,
    clock: systemClock,
    quiet: 1,
    signals: new EventEmitter(),
    onChange: reason => {
      calls.emit('change', reason)
    },
    onError: error => {
      throw error
    }
  })
  t.teardown(() => {
    watch.close()
  })
  // The watcher keeps no process alive; this timer does while the test waits.
  const alive = setInterval(() => {}, 1000)
  t.teardown(() => {
    clearInterval(alive)
  })
  for (const text of ['a: 2', 'a: 3']) {
    const changed = new Promise(resolve => {
      calls.once('change', resolve)
    })
    await writeFile(`${file}.new`, text)
    await rename(`${file}.new`, file)
    t.equal(await changed, 'saved')
  }
})

t.test('watch: a file behind links is noticed, whichever of them or of their targets changes', async t => {
  const root = await mkdtemp(join(t.testdir({}), 'links-'))
  for (const [name, text] of [
    ['one', 'a: 1'],
    ['two', 'a: 2']
  ] as const) {
    await mkdir(join(root, 'releases', name), { recursive: true })
    await writeFile(join(root, 'releases', name, 'gateway.yaml'), text)
  }
  await mkdir(join(root, 'etc'))
  const link = async (target: string, path: string) => {
    await symlink(target, `${path}.new`)
    await rename(`${path}.new`, path)
  }
  const [current, file] = [join(root, 'current'), join(root, 'etc', 'gateway.yaml')]
  await link('releases/one', current)
  await link('../current/gateway.yaml', file)
  const calls = new EventEmitter()
  const watch = await watchConfig({
    file,
    clock: systemClock,
    quiet: 1,
    signals: new EventEmitter(),
    onChange: () => {
      calls.emit('change')
    },
    onError: error => {
      throw error
    }
  })
  const alive = setInterval(() => {}, 1000)
  t.teardown(() => {
    watch.close()
    clearInterval(alive)
  })
  for (const [what, change] of [
    ['the target is saved', () => writeFile(join(root, 'releases/one/gateway.yaml'), 'a: 3')],
    ['a link of a folder moves', () => link('releases/two', current)],
    ['the new target is saved', () => writeFile(join(root, 'releases/two/gateway.yaml'), 'a: 4')],
    ['the link itself moves', () => link('../releases/one/gateway.yaml', file)],
    [
      'a file takes the place of the link',
      async () => {
        await writeFile(`${file}.new`, 'a: 5')
        await rename(`${file}.new`, file)
      }
    ]
  ] as const) {
    const changed = once(calls, 'change')
    await change()
    await changed
    t.pass(what)
  }
})
