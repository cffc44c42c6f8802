import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { ConfigError } from '../../../src/engine/config/diagnose.ts'
import { loadConfigText } from '../../../src/engine/config/load.ts'
import { compile } from '../../../src/engine/pipeline/compile.ts'
import { harness } from '../../../src/engine/pipeline/harness.ts'
import type { Hooks, Plugin, Services } from '../../../src/engine/pipeline/plugin.ts'
import type { Snapshot } from '../../../src/engine/pipeline/snapshot.ts'
import { definePlugin, Type } from '../../../src/index.ts'
import { builtInPlugins } from '../../../src/app/plugins.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const YAML = `chains:
  c: [ mine, end ]
routes:
  - { match: { path: /one }, chain: c, upstream: { url: "http://127.0.0.1:9" } }
  - { match: { path: /two }, chain: c, upstream: { url: "http://127.0.0.1:9" } }
`

/** As JavaScript has it, where nothing holds a plugin to its types. */
type Untyped = Partial<Omit<Plugin, 'setup' | 'uses'>> & {
  readonly uses?: readonly string[]
  setup?(): unknown
}

const plugin = (parts: Untyped) => ({ name: 'mine', config: Type.Object({}), ...parts }) as Plugin

/** Compiles two routes that go through `mine`. */
async function compiled(mine: Plugin, clock = new ManualClock()) {
  const end = definePlugin({
    name: 'forward',
    config: Type.Object({}),
    terminal: true,
    setup: () => ({ handle: () => ({ status: 204, headers: [], body: null }) })
  })
  // Each was checked where it was defined.
  const plugins = new Map([...builtInPlugins, ['mine', mine], ['end', end as unknown as Plugin]])
  const config = await loadConfigText('gateway.yaml', YAML, {}, { plugins })
  // What these plugins may ask for.
  const services = { clock, log: silentLog } as unknown as Services
  return await compile(config, { services, plugins, internals: new Map(), generation: 1 })
}

/** The lines with which a configuration is refused. */
async function refusal(promise: Promise<Snapshot>) {
  try {
    await promise
  } catch (error) {
    if (error instanceof ConfigError) return error.message.split('\n')
    throw error
  }
  return []
}

/** Turns of the event loop in which promises that can settle do. */
const settled = async () => {
  for (let turn = 0; turn < 3; turn++) await setImmediate()
}

for (const [what, setup, found] of [
  ['nothing', () => {}, /setup gives nothing; .*\(is a return missing\?\)/],
  ['a promise of nothing', async () => {}, /setup gives nothing; .*\(is a return missing\?\)/],
  ['null', () => null, /setup gives nothing; allowed: an object with its hooks/],
  ['a function', () => () => {}, /setup gives a function; allowed/],
  ['a list', () => [], /setup gives a list; allowed/]
] as const) {
  t.test(`a setup that gives ${what} is reported at its place in the file, with the allowed form`, async t => {
    const lines = await refusal(compiled(plugin({ setup })))
    t.equal(lines.length, 1, lines.join('\n'))
    t.match(lines[0], /^gateway\.yaml:2:8: plugin "mine" could not be set up .* \[BG_PLUGIN_SETUP\]$/)
    t.match(lines[0], found)
    await t.rejects(harness(plugin({ setup })), found, 'and to the tests of a plugin')
  })
}

t.test(
  'a setup that never settles is reported at its place in the file after its timeout, once for all routes',
  async t => {
    const clock = new ManualClock()
    let calls = 0
    const setup = async () => {
      calls++
      return await new Promise<Hooks>(() => {})
    }
    const refused = refusal(compiled(plugin({ setup }), clock))
    await settled()
    clock.advance(10_000)
    const lines = await refused
    t.equal(lines.length, 1, lines.join('\n'))
    t.match(lines[0], /^gateway\.yaml:2:8: .*"mine".* setup has not settled within 10 s; .* \[BG_PLUGIN_SETUP\]$/)
    t.equal(calls, 1, 'the second route does not wait for another timeout')
  }
)

t.test('hooks that come after their time are closed', async t => {
  const clock = new ManualClock()
  const late = Promise.withResolvers<Hooks>()
  const refused = refusal(compiled(plugin({ setup: () => late.promise }), clock))
  await settled()
  clock.advance(10_000)
  t.equal((await refused).length, 1)
  let closed = 0
  late.resolve({
    close: () => {
      closed++
    }
  })
  await settled()
  t.equal(closed, 1)
})

t.test('a setup that settles in time, or gives no hooks at all, is sound', async t => {
  const clock = new ManualClock()
  const snapshot = await compiled(plugin({ setup: async () => ({}) }), clock)
  clock.advance(60_000)
  await snapshot.retire()
  await (await compiled(plugin({ setup: () => ({}) }))).retire()
  t.pass('both are compiled')
})

t.test('a misspelled hook, which would never be called, is reported with the known hooks', async t => {
  const setup = () => ({ reqest: () => ({ status: 403, headers: [], body: null }) })
  const lines = await refusal(compiled(plugin({ setup })))
  t.equal(lines.length, 1, lines.join('\n'))
  t.match(
    lines[0],
    /^gateway\.yaml:2:8: .*the unknown hook "reqest".*; allowed: request, observe, .*, handle\. Did you mean "request"\? \[BG_PLUGIN_SETUP\]$/
  )
  await t.rejects(harness(plugin({ setup })), /unknown hook "reqest"/, 'and to the tests of a plugin')
  t.match(await refusal(compiled(plugin({ setup: () => ({ counter: 1 }) }))), [/unknown hook "counter"/])
})

t.test('a class may keep what is its own beside its hooks, but must have one', async t => {
  class Sound {
    seen = 0
    done(): void {
      this.count()
    }
    count(): void {
      this.seen++
    }
  }
  class Misspelt {
    respones(): void {}
  }
  await (await compiled(plugin({ setup: () => new Sound() }))).retire()
  t.match(await refusal(compiled(plugin({ setup: () => new Misspelt() }))), [/Did you mean "response"\?/])
})

t.test('a hook that is not a function is reported at its place in the file', async t => {
  t.match(await refusal(compiled(plugin({ setup: () => ({ request: { status: 403 } }) }))), [
    /^gateway\.yaml:2:8: .*setup gives a mapping as request; allowed: a function \[BG_PLUGIN_SETUP\]$/
  ])
  t.match(await refusal(compiled(plugin({ setup: () => ({ establishes: true }) }))), [
    /as establishes; allowed: a text/
  ])
  const snapshot = await compiled(plugin({ setup: () => ({ request: undefined, establishes: 'merchant' }) }))
  await snapshot.retire()
})

t.test('a misspelled service is reported at its place in the file with the known ones, before any request', async t => {
  t.match(await refusal(compiled(plugin({ uses: ['lgo'], setup: () => ({}) }))), [
    /^gateway\.yaml:2:8: .*uses names the unknown service "lgo"; allowed: clock, log\. Did you mean "log"\? \[BG_PLUGIN_SETUP\]$/
  ])
})
