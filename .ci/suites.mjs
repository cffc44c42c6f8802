import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

const uses =
  /\b(TEST_DATABASE_URL|TEST_REDIS_URL|openAnyDatabase|eachDatabase|freshPostgres|freshRedis|eachState|testRedisUrl|startGateway)\b/

/** Helpers are looked for by name: their file has others too, which need no server. */
const helpers = normalize('test/support')
const reaches = new Map()

/** What these are about is the same on every database: browsers, other people's clients, and bodies on their way. */
const indifferent = /^test\/(interop|streams|engine)\/|browser\.test\.ts$/

/**
 * Whether a test file does something else where there is a server: it names, itself or through what it imports from
 * test/, one of the helpers that use it, or the address of one.
 */
export function needsServer(file) {
  return !indifferent.test(file) && reachesServer(file)
}

function reachesServer(file) {
  if (!reaches.has(file)) {
    reaches.set(file, false)
    const text = readFileSync(file, 'utf8')
    const imported = [...text.matchAll(/ from '(\.[^']+\.ts)'/g)].map(match => normalize(join(dirname(file), match[1])))
    reaches.set(
      file,
      uses.test(text) ||
        imported.some(
          path => path.startsWith('test') && !path.startsWith(helpers) && existsSync(path) && reachesServer(path)
        )
    )
  }
  return reaches.get(file)
}
