// Runs single tests of one file at a time for mutate.mjs, which says over IPC which test and with which mutant. The code,
// with all mutants in it behind switches, and the test's file are loaded once: a test costs milliseconds, not a process.
import { readFileSync } from 'node:fs'
import module from 'node:module'
import tap from 'tap'
import { importFor } from './one-process.mjs'

/** The changed modules by their addresses. */
const sources = new Map(JSON.parse(readFileSync(process.argv[2], 'utf8')))
/** The switches of Stryker's code: the mutant that is on, and what records which mutants a test reaches. */
const mutantCoverage = { static: {}, perTest: {} }
const switches = (globalThis.__stryker__ = { activeMutant: process.argv[3], mutantCoverage })

module.registerHooks({
  load(url, context, next) {
    const source = sources.get(url)
    return source === undefined ? next(url, context) : { format: 'module', shortCircuit: true, source }
  }
})

/** The test that runs, which an error that no one catches fails. */
let running
process.setUncaughtExceptionCaptureCallback(error => {
  if (running === undefined) throw error
  running.threw(error)
})

/** The file that is open: its `t`, the tests it declared, and what ends it. */
let open

/** `test` of tap, each method of which `call` calls. */
function calling(test, call) {
  return new Proxy(test, {
    get(target, name) {
      const value = Reflect.get(target, name)
      return typeof value === 'function' ? (...given) => call(value.bind(target), given, name) : value
    },
    set: (target, name, value) => Reflect.set(target, name, value)
  })
}

/** `test`, which notes the subtests it is given in `tests` and runs none. */
function recorder(test, tests) {
  return calling(test, (method, given, name) =>
    name === 'test' ? Promise.resolve(tests.push(given)) : method(...given)
  )
}

/** An assertion returns false, or a promise of it, and a subtest a promise of its results. */
function goesOn(result) {
  if (result === false || result?.ok === false) throw new Error('an assertion failed')
  return result
}

/** `test`, which throws at its first failed assertion. `bail` of tap would end the process. */
function stopping(test) {
  return calling(test, (method, given, name) => {
    const stops = each => (name === 'test' && typeof each === 'function' ? t => each(stopping(t)) : each)
    const result = method(...given.map(stops))
    return result instanceof Promise ? result.then(goesOn) : goesOn(result)
  })
}

/** Begins to record which mutants are reached. What is returned ends it and tells them. */
function covering() {
  const found = (mutantCoverage.static = {})
  return () => Object.keys(found)
}

async function openFile(file) {
  open?.end()
  const covered = covering()
  const tests = []
  const loaded = Promise.withResolvers()
  const ended = Promise.withResolvers()
  void tap.test(file, { timeout: 2 ** 31 - 1 }, async t => {
    open = { t, tests, end: ended.resolve }
    await importFor(recorder(t, tests), file).then(loaded.resolve, loaded.reject)
    await ended.promise
  })
  await loaded.promise
  await new Promise(setImmediate)
  return { tests: tests.length, covered: covered() }
}

async function runTest(at, mutant, timeout) {
  const [name, ...rest] = open.tests[at]
  const run = rest.findLast(each => typeof each === 'function')
  const options = rest.find(each => typeof each === 'object')
  if (mutant !== undefined) switches.activeMutant = mutant
  const covered = covering()
  const began = performance.now()
  const result = open.t.test(name, { ...options, timeout }, t => run(stopping(t)))
  running = result.subtest
  await result
  running = undefined
  return { passed: result.subtest.passing(), ms: performance.now() - began, covered: covered() }
}

process.on('message', async ({ file, at, mutant, timeout }) => {
  try {
    process.send({ answer: file === undefined ? await runTest(at, mutant, timeout) : await openFile(file) })
  } catch (error) {
    process.send({ answer: { failed: String(error) } })
  }
})
// tap lets the process end between two tests.
setInterval(() => {}, 60_000)
process.on('disconnect', () => process.exit())
