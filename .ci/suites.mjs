import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

const uses =
  /\b(TEST_DATABASE_URL|TEST_REDIS_URL|openAnyDatabase|eachDatabase|freshPostgres|freshRedis|eachState|testRedisUrl)\b/
/** A gateway of `startGateway` is on the server too. */
const usesThrough = new RegExp(`${uses.source}|\\bstartGateway\\b`)

/** Helpers are looked for by name: their file has others too, which need no server. */
const helpers = normalize('test/support')

/** What these are about is the same on every database: browsers, other people's clients, and bodies on their way. */
const indifferent = /^test\/(interop|streams|engine)\/|browser\.test\.ts$/
/**
 * What these hold against a gateway is stored. Other folders are about commands, heads, bodies and pages, whose queries
 * the suites of the domains run on servers, and contract/authorisation and contract/answers every operation.
 */
const stored =
  /^test\/(accounts|faults|journeys|payments|plans|platform|selling|shop)\/|^test\/contract\/(answers|authorisation|payment-|price-grace)|^test\/security\/revo/

/**
 * Whether a test file does something else where there is a server: it names, itself or through what it imports from
 * test/, one of the helpers that use it, or the address of one.
 */
export function needsServer(file) {
  return !indifferent.test(file) && reachesServer(file, stored.test(file) ? usesThrough : uses, new Map())
}

function reachesServer(file, names, reaches) {
  if (!reaches.has(file)) {
    reaches.set(file, false)
    const text = readFileSync(file, 'utf8')
    const imported = [...text.matchAll(/ from '(\.[^']+\.ts)'/g)].map(match => normalize(join(dirname(file), match[1])))
    reaches.set(
      file,
      names.test(text) ||
        imported.some(
          path =>
            path.startsWith('test') &&
            !path.startsWith(helpers) &&
            existsSync(path) &&
            reachesServer(path, names, reaches)
        )
    )
  }
  return reaches.get(file)
}
