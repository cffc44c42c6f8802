// Runs several test files one after the other in this process. A file alone pays two seconds of computing before its
// first assertion: tap, the gateway's modules, an embedded database, and all code cold. Here a process pays it once.
// Each file is a subtest with its own `t`; a module that holds something for one file (a fixture) is made again for each.
import module from 'node:module'
import { pathToFileURL } from 'node:url'
import tap from 'tap'

/** Milliseconds after which a file hangs. It is far from what any takes on a slow machine. */
const timeout = 300_000
/** Milliseconds in which a file that is at its end, and the last file's process, must have closed all they opened. */
const rest = 30_000

const tests = new URL('../test/', import.meta.url).href
/** They hold what files may share: the databases that are emptied between tests, and servers that are someone else's. */
const shared = ['support/', 'fakes/'].map(folder => tests + folder)
/** The subtests of the files, in their order: the name that a file's modules have in their query. */
const running = []
globalThis[Symbol.for('boltgate.running')] = running

function isOfOneFile(url) {
  return url.startsWith(tests) && !url.includes('/node_modules/') && !shared.some(folder => url.startsWith(folder))
}

module.registerHooks({
  resolve(specifier, context, next) {
    const of = /\?test=(\d+)$/.exec(context.parentURL ?? '')?.[1]
    if (of === undefined) return next(specifier, context)
    if (specifier === 'tap') return { url: `tap-of:${of}`, format: 'module', shortCircuit: true }
    const found = next(specifier, context)
    return isOfOneFile(found.url) ? { ...found, url: `${found.url}?test=${of}` } : found
  },
  load(url, context, next) {
    if (!url.startsWith('tap-of:')) return next(url, context)
    const of = Number(url.slice('tap-of:'.length))
    const source = `export default globalThis[Symbol.for('boltgate.running')][${of}]`
    return { format: 'module', shortCircuit: true, source }
  }
})

/**
 * Ends this process after `ms` and reports what it was doing. Otherwise the whole run hangs without a message, because tap
 * has a timeout for tests and none for their teardown.
 */
function endAfter(ms, doing) {
  return setTimeout(() => {
    tap.fail(`the process continues ${doing}, held by ${process.getActiveResourcesInfo().join(', ')}`)
    process.exit(1)
  }, ms)
}

/** Imports `file`, a path from the repository's folder, with `test` as its `t`. */
export async function importFor(test, file) {
  const of = running.push(test) - 1
  await import(`${pathToFileURL(file).href}?test=${of}`)
}

/** Runs `files`, paths from the repository's folder. */
export async function inOneProcess(files) {
  for (const file of files) {
    const ending = endAfter(timeout + rest, `in ${file}`)
    await tap.test(file, { timeout }, test => importFor(test, file))
    clearTimeout(ending)
  }
  endAfter(rest, 'after its last file').unref()
  // Node 24 sometimes never finishes the cleanup of an environment: `CleanupHandles` spins in an empty loop. So the process
  // exits after all other listeners, those of tap included.
  process.once('beforeExit', () => {
    process.on('exit', code => {
      process.exit(process.exitCode ?? code)
    })
  })
}
