import { existsSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline/promises'
import { parseArgs } from 'node:util'
import { loadConfigText } from '../../engine/config/load.ts'
import { formatUnit } from '../../engine/config/units.ts'
import { providerKinds } from '../../lightning/kinds/kinds.ts'
import { withPlugins } from '../cli/configuration.ts'
import { UsageError, type Output } from '../cli/output.ts'
import { rehearse } from '../cli/rehearse.ts'

const KINDS = providerKinds.map(({ name }) => name)
const FOR_MONEY = providerKinds.filter(({ isSandbox }) => !isSandbox).map(({ name }) => name)

function either(names: readonly string[]): string {
  const last = names.at(-1) ?? ''
  return names.length < 2 ? last : `${names.slice(0, -1).join(', ')} or ${last}`
}

export const initUsage = `boltgate init [--upstream URL] [--path PATH] [--price PRICE] [--provider KIND] [--config FILE]

Writes a gateway.yaml that sells PATH ('/*' for all) of the API at URL for PRICE, such as '10 sats' or 10. KIND is sandbox, which takes
no money and needs no key, ${either(FOR_MONEY)}. What is not said is asked for on a terminal.`

export interface Wishes {
  readonly upstream: string
  readonly path: string
  readonly price: string
  readonly provider: string
}

/** Variable of the provider key in the file. */
const KEY_VARIABLE = 'LIGHTNING_KEY'

const QUESTIONS: Readonly<Record<keyof Wishes, { readonly ask: string; readonly usual: string | null }>> = {
  upstream: { ask: 'Address of the API that you sell', usual: null },
  path: { ask: 'Path of it that costs something (/* is all of it)', usual: '/*' },
  price: { ask: 'Price of one request', usual: '10 sats' },
  provider: { ask: `Who makes the invoices: sandbox (no money, to try it), ${FOR_MONEY.join(', ')}`, usual: 'sandbox' }
}

/**
 * Writes a valid file.
 * @throws ConfigError for its rejected values, UsageError
 */
export async function init(args: readonly string[], out: Output): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      upstream: { type: 'string' },
      path: { type: 'string' },
      price: { type: 'string' },
      provider: { type: 'string' },
      config: { type: 'string', short: 'c' }
    }
  })
  const file = values.config ?? 'gateway.yaml'
  if (existsSync(file)) throw new UsageError(`${file} is there already; name another one with --config.`)
  const wishes = await complete(values)
  if (!KINDS.includes(wishes.provider))
    throw new UsageError(`--provider is ${either(KINDS)}, not "${wishes.provider}".`)
  const text = gatewayYaml(wishes)
  // The key is only known at the start; everything else is checked now.
  await rehearse(
    await withPlugins(options =>
      loadConfigText(file, gatewayYaml({ ...wishes, provider: 'sandbox' }), process.env, options)
    )
  )
  // Fails if the file was created meanwhile.
  writeFileSync(file, text, { flag: 'wx' })
  const price = isBare(wishes.price) ? formatUnit('price', Number(wishes.price)) : wishes.price
  out.print(`Wrote ${file}: ${wishes.path} of ${wishes.upstream} for ${price}.`)
  const key = wishes.provider === 'sandbox' ? '' : `${KEY_VARIABLE}=… `
  out.print(`  Start it:  ${key}npx boltgate start${values.config === undefined ? '' : ` --config ${file}`}`)
  return 0
}

async function complete(given: Readonly<Partial<Record<keyof Wishes, string>>>): Promise<Wishes> {
  const isTerminal = process.stdin.isTTY && process.stdout.isTTY
  const terminal = isTerminal ? createInterface({ input: process.stdin, output: process.stdout }) : null
  const wish = async (name: keyof Wishes): Promise<string> => {
    const { ask, usual } = QUESTIONS[name]
    const known =
      given[name] ??
      (terminal === null
        ? usual
        : (await terminal.question(`${ask}${usual === null ? '' : ` [${usual}]`}: `)).trim() || usual)
    if (known === null) throw new UsageError(`init needs --${name}.\n\n${initUsage}`)
    return known
  }
  try {
    return {
      upstream: await wish('upstream'),
      path: await wish('path'),
      price: await wish('price'),
      provider: await wish('provider')
    }
  } finally {
    terminal?.close()
  }
}

/** Whether a price is only a number of satoshis. */
function isBare(price: string): boolean {
  return /^(0|[1-9][0-9]{0,14})$/.test(price)
}

/** Content of the file. Texts are JSON strings, which YAML accepts. */
export function gatewayYaml({ upstream, path, price, provider }: Wishes): string {
  const quoted = (text: string): string => JSON.stringify(text.replaceAll('${', '$${'))
  // A bare number is satoshis only as a number, not as a text.
  const cost = isBare(price) ? price : quoted(price)
  const lightning =
    provider === 'sandbox'
      ? `# The sandbox makes invoices without money. For real ones: { kind: ${FOR_MONEY[0]}, key: "\${${KEY_VARIABLE}}" }, or ${FOR_MONEY.slice(1).join(', ')}.
lightning:\n  primary: { kind: sandbox }\n`
      : `lightning:\n  primary: { kind: ${provider}, key: "\${${KEY_VARIABLE}}" }\n`
  // A catch-all route would shadow the gateway's own addresses unless the file declares them.
  const own =
    path !== '/*'
      ? ''
      : `
# The gateway's own addresses, which the route above would take: /health, /metrics, /openapi.json and their like.
use: [ service, sandbox ]
`
  return `# Every key is explained in docs/configuration.md. \`boltgate check\` says what is wrong, with line and column;
# \`boltgate routes\` shows all that is served, and through which plugins.
${lightning}
routes:
  - match: { path: ${quoted(path)} }
    price: ${cost}
    chain: paid         # includes the policy \`global\`: 100 requests a minute for each client, paid ones too (see policies)
    renewal: 402        # clients that keep tokens buy anew on a 402, and on nothing else
    upstream: { url: ${quoted(upstream)} }
${own}`
}
