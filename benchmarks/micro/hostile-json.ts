// node benchmarks/micro/hostile-json.ts [CHECKOUT]: CPU milliseconds for JSON bodies that are built to be slow, of the
// largest size that a route takes by default: 2 MiB for a field that a price depends on, 1 MiB for messages. With a
// CHECKOUT beside those of another one.
//
// A gateway loads the state, and so ioredis, in which a class would extend String and slow all reading of text. Another
// checkout shares this process, and that class with it.
import { resolve } from 'node:path'
import { hostileBodies } from '../../test/support/hostile-json.ts'

type Reads = (bytes: Uint8Array) => void

const FIELDS = ['model', 'max_tokens', 'max_completion_tokens', 'max_output_tokens', 'n']
const PRICES = { protocol: 'mcp', tools: { small: 5 }, toolErrors: 'sold' } as const

/** What a checkout does with a body before it is paid for. */
async function readersOf(checkout: string): Promise<Readonly<Record<'fields' | 'messages', Reads>>> {
  await import(resolve(checkout, 'src/platform/state/redis.ts'))
  // The shapes of this checkout, which another one has had for long.
  const { JsonText } = (await import(
    resolve(checkout, 'src/selling/prices/json-text.ts')
  )) as typeof import('../../src/selling/prices/json-text.ts')
  const { readMessages } = (await import(
    resolve(checkout, 'src/selling/rpc/message.ts')
  )) as typeof import('../../src/selling/rpc/message.ts')
  return {
    fields(bytes) {
      const text = JsonText.of(bytes)
      if (typeof text !== 'string') for (const name of FIELDS) text.member([name])
    },
    messages: bytes => readMessages(bytes, PRICES)
  }
}

/** The median of five readings, each of fresh bytes. */
function millisecondsOf(reads: Reads, body: string): number {
  const found = Array.from({ length: 5 }, () => {
    const bytes = Buffer.from(body)
    const before = process.cpuUsage()
    reads(bytes)
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1000
  })
  return found.toSorted((one, other) => one - other)[2] ?? NaN
}

const own = resolve(import.meta.dirname, '../..')
const checkouts = [...process.argv.slice(2, 3).map(path => resolve(path)), own]
const readers = await Promise.all(checkouts.map(readersOf))
for (const kind of ['fields', 'messages'] as const) {
  process.stdout.write(
    `| ${kind} |${checkouts.map(path => ` ${path} |`).join('')}\n|---|${'---|'.repeat(checkouts.length)}\n`
  )
  for (const [shape, body] of hostileBodies(kind === 'fields' ? 2_097_152 : 1_048_576))
    process.stdout.write(
      `| ${shape} |${readers.map(reader => ` ${millisecondsOf(reader[kind], body).toFixed(1)} |`).join('')}\n`
    )
}
