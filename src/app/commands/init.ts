import { accessSync, constants, existsSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { ConfigError, didYouMean, nearest } from '../../engine/config/diagnose.ts'
import { loadConfigText } from '../../engine/config/load.ts'
import { providerKinds } from '../../lightning/kinds/kinds.ts'
import { firstFile } from '../cli/for-sale.ts'
import { defineCommand } from '../cli/command.ts'
import { withPlugins } from '../cli/configuration.ts'
import {
  FOR_MONEY,
  gatewayYaml,
  KEY_VARIABLE,
  plainUpstream,
  shownPrice,
  PRODUCTS,
  UPSTREAM_KEY_VARIABLE,
  type Product,
  type InitChoices
} from '../cli/init-file.ts'
import { firstModel, testKey, testUpstream } from '../cli/outside.ts'
import { UsageError, type Output } from '../cli/output.ts'
import { dryRun } from '../cli/dry-run.ts'
import { createInterface } from 'node:readline/promises'

export const init = defineCommand(
  {
    about: 'Writes a gateway.yaml for what you sell',
    details: `Prompts for missing values when run in a terminal. Before it writes the file, it calls the upstream, and tests the
provider's key if ${KEY_VARIABLE} is set.`,
    flags: {
      '--sell <product>': `What you sell (default: api)\n${Object.entries(PRODUCTS)
        .map(([name, about]) => `${name.padEnd(6)} ${about}`)
        .join('\n')}`,
      '--upstream <url|folder>': 'Address of your API, model or MCP server; the folder with your files',
      '--path <path>': "Path that costs something, such as '/v1/*'",
      '--price <price>': "Price, such as '10 sats', 10 or '$0.01'",
      '--provider <kind>': `Who makes the invoices (default: sandbox, which needs no key and moves no money)\n${FOR_MONEY.join(', ')}`,
      '--example <request>': "A request that works, such as 'GET /v1/today', or a model's name; agents copy it",
      '--openapi <file>': 'OpenAPI file of your API, which is published with the price',
      '--production': 'Write what production needs: secrets, PostgreSQL, Redis and the public URL',
      '-c, --config <file>': 'File to write (default: ./gateway.yaml)'
    },
    examples: [
      'boltgate init',
      "boltgate init --upstream https://api.example.com --path '/v1/*' --price '10 sats'",
      "boltgate init --upstream https://api.example.com --path '/v1/*' --example 'GET /v1/today'",
      'boltgate init --sell llm --provider strike --production',
      "boltgate init --sell files --upstream ./books --price '$1'"
    ]
  },
  async (values, _words, out) => {
    const file = values.config ?? 'gateway.yaml'
    if (existsSync(file)) throw new UsageError(`${file} already exists; choose another file with --config.`)
    const folder = dirname(file)
    if (!existsSync(folder)) throw new UsageError(`There is no folder ${folder}; name another file with --config.`)
    accessSync(folder, constants.W_OK)
    const terminal = process.stdin.isTTY && process.stdout.isTTY ? openTerminal() : null
    let keyFile: string | null = null
    try {
      const ask = terminal?.ask ?? null
      const answers = await withSample(await complete(values, file, ask, out), folder, ask)
      keyFile = await confirmed(answers, join(folder, 'lightning-key'), ask, out)
      await dryRunResult(answers, file)
      // Fails if the file was created meanwhile.
      writeFileSync(file, gatewayYaml(answers), { flag: 'wx' })
      report(answers, file, values.config !== undefined, keyFile, out)
      return 0
    } catch (error) {
      if (keyFile !== null) rmSync(keyFile)
      throw error
    } finally {
      terminal?.close()
    }
  }
)

interface Given {
  readonly sell: Product
  readonly upstream: string | null
  readonly path: string
  readonly price: string
  readonly upstreamIs: string
  readonly priceIs: string
}

const USUAL: Readonly<Record<Product, Omit<Given, 'sell'>>> = {
  api: {
    upstream: null,
    path: '/*',
    price: '10 sats',
    upstreamIs: 'Address of the API that you sell',
    priceIs: 'Price of one request'
  },
  llm: {
    upstream: 'https://api.openai.com',
    path: '/v1/*',
    price: '2000 sats',
    upstreamIs: 'Address of the OpenAI-compatible API',
    priceIs: 'Price of one balance of tokens'
  },
  mcp: {
    upstream: 'http://127.0.0.1:3001',
    path: '/mcp',
    price: '5 sats',
    upstreamIs: 'Address of the MCP server (Streamable HTTP)',
    priceIs: 'Price of one tool call'
  },
  files: {
    upstream: './files',
    path: '/files/*',
    price: '100 sats',
    upstreamIs: 'Folder with the files',
    priceIs: 'Price of one file'
  },
  shop: { upstream: '', path: '', price: '', upstreamIs: '', priceIs: '' }
}

/** Fills in what is missing: asked for in a terminal, else the default. */
export async function complete(
  given: Readonly<
    Partial<Record<'sell' | 'upstream' | 'path' | 'price' | 'provider' | 'example' | 'openapi', string>>
  > & {
    readonly production: boolean
  },
  file: string,
  ask: Ask | null,
  out: Output
): Promise<InitChoices> {
  const { production } = given
  const sell = (await choice({
    flag: '--sell',
    given: given.sell ?? (ask === null || given.upstream !== undefined ? 'api' : undefined),
    question: 'What do you sell?',
    choices: Object.entries(PRODUCTS),
    usual: 'api',
    ask,
    out
  })) as Product /* one of its keys */
  const { openapi } = given
  if (openapi !== undefined && sell !== 'api') throw new UsageError('--openapi needs --sell api.')
  const usual = USUAL[sell]
  let answers: InitChoices = {
    sell,
    upstream: usual.upstream ?? 'https://api.example.com',
    path: usual.path,
    price: usual.price,
    provider: 'sandbox',
    production,
    ...(sell === 'llm' && given.example !== undefined ? { sample: given.example } : {}),
    ...(openapi === undefined ? {} : { openapi: relative(dirname(file), openapi) })
  }
  const answer = async (name: 'upstream' | 'path' | 'price' | 'example', question: string, fallback: string | null) => {
    for (;;) {
      const text = given[name] ?? (ask === null ? fallback : await ask(question, fallback))
      if (text === null) throw new UsageError(`Missing --${name}.`)
      const next = { ...answers, [name === 'example' ? 'sample' : name]: text }
      const fault = await faultOf(next, file)
      if (fault === null) {
        answers = next
        return
      }
      if (ask === null || given[name] !== undefined) throw fault
      for (const { message } of fault.problems) out.complain(`  ${message}`)
    }
  }
  if (sell !== 'shop') {
    await answer('upstream', usual.upstreamIs, usual.upstream)
    await answer(
      'path',
      sell === 'api' ? 'Path of it that costs something (/* is all of it)' : 'Path that buyers call',
      usual.path
    )
    await answer('price', usual.priceIs, usual.price)
    if (sell === 'api' && openapi === undefined)
      await answer('example', 'A request that works, for agents and your first test (empty: none)', '')
  }
  const plain = sell === 'files' ? answers.upstream : plainUpstream(answers)
  if (plain !== answers.upstream)
    out.print(`  Using ${plain} as the upstream, because the path ${answers.path} adds the rest of the address.`)
  if (production && given.provider === undefined && ask === null)
    throw new UsageError(`--production needs --provider, one of ${FOR_MONEY.join(', ')}.`)
  const provider = await choice({
    flag: '--provider',
    given: given.provider ?? (ask === null ? 'sandbox' : undefined),
    question: 'Who makes your invoices?',
    choices: providerKinds.flatMap(({ name, about, isSandbox }) => (production && isSandbox ? [] : [[name, about]])),
    usual: production ? (FOR_MONEY[0] ?? '') : 'sandbox',
    ask,
    out
  })
  return { ...answers, upstream: plain, provider }
}

/** With a file or a model that an example can name. */
async function withSample(answers: InitChoices, folder: string, ask: Ask | null): Promise<InitChoices> {
  const { sell, upstream, path } = answers
  if ((answers.sample ?? '') !== '') return answers
  const sample =
    sell === 'files'
      ? firstFile(resolve(folder, upstream))
      : sell === 'llm'
        ? ((await firstModel(
            `${upstream.replace(/\/$/, '')}${path.slice(0, -1)}models`,
            process.env[UPSTREAM_KEY_VARIABLE]
          )) ?? (ask === null ? undefined : await ask('Model that buyers may use, for an example (empty: none)', '')))
        : undefined
  return sample === undefined || sample === '' ? answers : { ...answers, sample }
}

interface Choice {
  readonly flag: string
  readonly given: string | undefined
  readonly question: string
  readonly choices: ReadonlyArray<readonly [name: string, about: string]>
  readonly usual: string
  readonly ask: Ask | null
  readonly out: Output
}

async function choice({ flag, given, question, choices, usual, ask, out }: Choice): Promise<string> {
  const names = choices.map(([name]) => name)
  for (let isFirst = true; ; isFirst = false) {
    if (isFirst && given === undefined)
      out.print(
        [question, ...choices.map(([name, about], at) => `  ${String(at + 1).padStart(2)}  ${name.padEnd(9)} ${about}`)]
          .map(line => line.trimEnd())
          .join('\n')
      )
    const text = given ?? (ask === null ? usual : await ask('Number or name', usual))
    const found = names[Number(text) - 1] ?? names.find(name => name === text.toLowerCase())
    if (found !== undefined) return found
    const message = `${flag} must be one of ${names.join(', ')}, not "${text}"${didYouMean(nearest(text, names)) || '.'}`
    if (given !== undefined || ask === null) throw new UsageError(message)
    out.complain(`  ${message}`)
  }
}

/** The key is only known at the start; everything else is checked now. */
async function faultOf(answers: InitChoices, file: string): Promise<ConfigError | null> {
  try {
    await dryRunResult(answers, file)
    return null
  } catch (error) {
    if (error instanceof ConfigError) return error
    throw error
  }
}

async function dryRunResult(answers: InitChoices, file: string): Promise<void> {
  const text = gatewayYaml({ ...answers, provider: 'sandbox', production: false })
  const env = { [UPSTREAM_KEY_VARIABLE]: 'unknown' }
  await dryRun(await withPlugins(options => loadConfigText(file, text, env, options)))
}

/**
 * Calls upstream and provider. A key that was typed is kept in a file of its own, since the configuration holds no
 * secrets; returns the file.
 */
async function confirmed(answers: InitChoices, keyFile: string, ask: Ask | null, out: Output): Promise<string | null> {
  const { sell, upstream, provider } = answers
  if (sell !== 'files' && sell !== 'shop') {
    const fault = await testUpstream(new URL(upstream))
    out.complain(fault === null ? `  ${upstream} answers.` : `  warning: ${upstream} does not answer now: ${fault}`)
  }
  if (provider === 'sandbox') return null
  const known = process.env[KEY_VARIABLE] ?? ''
  const hint = providerKinds.find(({ name }) => name === provider)?.keyHint
  if (ask !== null && known === '' && hint !== undefined) out.print(`  ${hint}`)
  for (;;) {
    const key = known !== '' || ask === null ? known : (await ask(`Key for ${provider} (empty: later)`, '')).trim()
    if (key === '') return null
    const verdict = await testKey(provider, key)
    if (verdict.isValid || verdict.isUnknown) {
      out.complain(`  ${verdict.isValid ? '' : 'warning: '}${verdict.message}`)
      if (known !== '' || existsSync(keyFile)) return null
      writeFileSync(keyFile, `${key}\n`, { flag: 'wx', mode: 0o600 })
      return keyFile
    }
    if (known !== '' || ask === null) throw new UsageError(`The key in ${KEY_VARIABLE} was refused: ${verdict.message}`)
    out.complain(`  ${verdict.message}`)
  }
}

function report(answers: InitChoices, file: string, isNamed: boolean, keyFile: string | null, out: Output): void {
  const { sell, path, upstream, price, provider, production } = answers
  out.print(
    sell === 'shop' ? `Wrote ${file}: a shop.` : `Wrote ${file}: ${path} of ${upstream} for ${shownPrice(price)}.`
  )
  const variables = [
    ...(provider === 'sandbox' ? [] : [keyFile === null ? `${KEY_VARIABLE}=…` : `${KEY_VARIABLE}_FILE=${keyFile}`]),
    ...(sell === 'llm' ? [`${UPSTREAM_KEY_VARIABLE}=…`] : [])
  ]
  const named = isNamed ? ` --config ${file}` : ''
  if (production) {
    out.print('Next: set these variables, then check and start it behind a proxy with TLS.')
    out.print('  export BOLTGATE_SECRET=$(openssl rand -base64 48)   # keep it')
    out.print('  export DATABASE_URL=postgres://boltgate:…@localhost:5432/boltgate')
    out.print('  export PUBLIC_URL=https://api.example.com')
    for (const variable of variables) out.print(`  export ${variable}`)
    out.print(`  npx boltgate check${named} && npx boltgate start${named}`)
    return
  }
  out.print(`  Start it:  ${[...variables, `npx boltgate start${named}`].join(' ')}`)
  out.print(
    sell === 'shop'
      ? '  Then:      open /storefront/demo, /console and /operator in a browser.'
      : sell === 'mcp'
        ? `  Then:      connect an MCP client to ${path}, and open /operator in a browser.`
        : '  Then:      run the `boltgate pay` command that it prints, and open /operator in a browser.'
  )
  out.print('  For money: npx boltgate init --production --config gateway.production.yaml')
}

/** Asks in a terminal; an empty answer is `usual`. Null `usual`: an answer is needed. */
export type Ask = (question: string, usual: string | null) => Promise<string>

/** Prompts on standard input. Ctrl-C and the end of the input stop the command with nothing written. */
export function openTerminal(): { readonly ask: Ask; close(): void } {
  const terminal = createInterface({ input: process.stdin, output: process.stdout })
  const stopped = new AbortController()
  terminal.on('close', () => {
    stopped.abort()
  })
  terminal.on('SIGINT', () => {
    terminal.close()
  })
  return {
    async ask(question, usual) {
      for (;;) {
        if (stopped.signal.aborted) throw stoppedError()
        const shown = usual === null || usual === '' ? '' : ` [${usual}]`
        const text = await terminal
          .question(`${question}${shown}: `, { signal: stopped.signal })
          .catch((error: unknown) => {
            if (stopped.signal.aborted) throw stoppedError()
            throw error
          })
        if (text.trim() !== '') return text.trim()
        if (usual !== null) return usual
      }
    },
    close() {
      terminal.close()
    }
  }
}

function stoppedError(): UsageError {
  process.stdout.write('\n')
  return new UsageError('Stopped; nothing was written.')
}
