import { completionScript, SHELLS } from './cli/completions.ts'
import { check, checkUsage } from './commands/check.ts'
import { docs, docsUsage } from './commands/docs.ts'
import { endProcess } from './cli/end.ts'
import { init, initUsage } from './commands/init.ts'
import { key, keyUsage, nodeKinds } from './commands/key.ts'
import { keys, keysUsage } from './commands/keys.ts'
import { merchant, merchantUsage } from './commands/merchant.ts'
import { mint, mintUsage } from './commands/mint.ts'
import { openapi, openapiUsage } from './commands/openapi.ts'
import { describe, startCode, withCode } from './commands/explain.ts'
import { outliveReaders, processOutput, UsageError, type Output, USAGE } from './cli/output.ts'
import { pay, payUsage } from './commands/pay.ts'
import { revoke, revokeUsage } from './commands/revoke.ts'
import { routes, routesUsage } from './commands/routes.ts'
import { start, startUsage } from './commands/start.ts'
import { test, testUsage } from './commands/test.ts'
import { packageVersion } from './composition/version.ts'
import { ConfigError, didYouMean, nearest } from '../engine/config/diagnose.ts'

interface Command {
  /** One sentence. */
  readonly about: string
  readonly usage: string
  readonly examples?: readonly string[]
  readonly words?: readonly string[]
  run(args: readonly string[], out: Output): Promise<number>
}

const completionUsage = `boltgate completion ${SHELLS.join('|')}

Prints a script that completes commands and flags in your shell.`

const commands: ReadonlyMap<string, Command> = new Map<string, Command>([
  ['init', { about: 'Writes a gateway.yaml for what you sell', usage: initUsage, run: init }],
  [
    'check',
    {
      about: 'Finds mistakes in the configuration',
      usage: checkUsage,
      examples: ['boltgate check', 'boltgate check --config gateway.production.yaml'],
      run: check
    }
  ],
  [
    'start',
    {
      about: 'Starts the gateway',
      usage: startUsage,
      examples: ['boltgate start', 'PORT=9000 boltgate start --config gateway.production.yaml'],
      run: start
    }
  ],
  [
    'pay',
    {
      about: 'Pays for a request and prints each step',
      usage: payUsage,
      examples: [
        'boltgate pay http://127.0.0.1:8080/demo/quote',
        'boltgate pay https://api.example.com/v1/a --wallet "$BOLTGATE_WALLET" --max 50'
      ],
      words: ['l402', 'payment'],
      run: pay
    }
  ],
  [
    'routes',
    {
      about: 'Shows what is served, at which price, through which plugins',
      usage: routesUsage,
      examples: ['boltgate routes', 'boltgate routes --as-yaml > whole.yaml'],
      run: routes
    }
  ],
  [
    'test',
    {
      about: 'Tests the keys of your payment providers',
      usage: testUsage,
      examples: ['boltgate test provider'],
      words: ['provider'],
      run: test
    }
  ],
  [
    'merchant',
    {
      about: "Creates a merchant's account",
      usage: merchantUsage,
      examples: ['boltgate merchant create --name "Ada" --email ada@example.com'],
      words: ['create'],
      run: merchant
    }
  ],
  [
    'revoke',
    {
      about: 'Revokes tokens that were sold',
      usage: revokeUsage,
      examples: ['boltgate revoke --proxy 4f1c…', "boltgate revoke 'L402 AgEE…:8395…'"],
      run: revoke
    }
  ],
  [
    'key',
    {
      about: 'Makes a provider key from the folder of a node',
      usage: keyUsage,
      examples: ['boltgate key lnd --address node.example.com:8080'],
      words: nodeKinds,
      run: key
    }
  ],
  [
    'keys',
    {
      about: 'Rotates the master secret or the admin key',
      usage: keysUsage,
      examples: ['boltgate keys rotate', 'boltgate keys rotate --admin'],
      words: ['rotate', 'adopt'],
      run: keys
    }
  ],
  [
    'mint',
    {
      about: 'Prints paid credentials for load tests',
      usage: mintUsage,
      examples: ['boltgate mint --count 1000 --parallel 16 > credentials.txt'],
      words: ['l402', 'payment'],
      run: mint
    }
  ],
  [
    'openapi',
    {
      about: 'Prints the OpenAPI document',
      usage: openapiUsage,
      examples: ['boltgate openapi > openapi.json'],
      run: openapi
    }
  ],
  ['docs', { about: 'Prints the reference of all settings', usage: docsUsage, run: docs }],
  [
    'completion',
    {
      about: 'Prints shell completions',
      usage: completionUsage,
      examples: [
        'source <(boltgate completion bash)',
        'boltgate completion fish > ~/.config/fish/completions/boltgate.fish'
      ],
      words: SHELLS,
      run: completion
    }
  ]
])

async function completion(args: readonly string[], out: Output): Promise<number> {
  const shell = SHELLS.find(name => name === args[0])
  if (shell === undefined || args.length > 1)
    throw new UsageError(`completion needs a shell: ${SHELLS.join(', ')}.\n\n${completionUsage}`)
  out.print(completionScript(shell, commands))
  return 0
}

function overview(): string {
  return `boltgate, a streaming HTTP gateway that puts a Lightning price on APIs

Usage: boltgate <command> [options]

Commands:
${[...commands].map(([name, { about }]) => `  ${name.padEnd(11)} ${about}`).join('\n')}

Examples:
  boltgate init
  boltgate start
  boltgate pay http://127.0.0.1:8080/demo/quote

Exit codes: 0 success, 1 failure, 2 invalid usage.
Run \`boltgate <command> --help\` for details, \`boltgate --version\` for the version.`
}

function help({ usage, examples = [] }: Command): string {
  const shown = examples.length === 0 ? '' : `\n\nExamples:\n${examples.map(line => `  ${line}`).join('\n')}`
  return `Usage: ${usage}${shown}`
}

/** Command line. Returns the exit code: 0 success, 1 failure, 2 invalid usage. */
export async function main(args: readonly string[], out: Output = processOutput): Promise<number> {
  if (out === processOutput) outliveReaders()
  const [name, ...rest] = args
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
    const about = commands.get(rest[0] ?? '')
    out.print(about === undefined ? overview() : help(about))
    return name === undefined ? 2 : 0
  }
  if (name === '--version' || name === '-v' || name === 'version') {
    out.print(packageVersion())
    return 0
  }
  const command = commands.get(name)
  if (command === undefined) {
    const meant = didYouMean(nearest(name, commands.keys()))
    out.complain(withCode(`There is no command "${name}"${meant === '' ? '.' : meant}\n\n${overview()}`, USAGE.code))
    return 2
  }
  if (rest.includes('--help') || rest.includes('-h')) {
    out.print(help(command))
    return 0
  }
  try {
    return await command.run(rest, out)
  } catch (error) {
    return explain(error, command, out)
  }
}

/** Runs a command as this process and exits with its code. A stopped gateway ends on its own, or logs what holds it. */
export async function run(args: readonly string[]): Promise<void> {
  process.exitCode = await main(args)
  if (args[0] !== 'start' || process.exitCode !== 0) await endProcess()
}

function explain(error: unknown, command: Command, out: Output): number {
  if (error instanceof ConfigError) {
    out.complain(error.message)
    return 1
  }
  if (error instanceof UsageError) {
    out.complain(withCode(error.message, error.code))
    return 2
  }
  if (error instanceof Error && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS')) {
    out.complain(withCode(`${argumentFault(error.message, command)}\n\n${help(command)}`, USAGE.code))
    return 2
  }
  out.complain(withCode(describe(error), startCode(error)))
  return 1
}

/** Node's message for invalid arguments, with the flag that was probably meant. */
function argumentFault(message: string, { usage }: Command): string {
  const [, argument] = /^Unexpected argument '([^']*)'/.exec(message) ?? []
  if (argument !== undefined) {
    const isFile = /\.ya?ml$/i.test(argument) && usage.includes('--config')
    return `Unexpected argument "${argument}".${isFile ? ` Did you mean --config ${argument}?` : ''}`
  }
  const [, option] = /^Unknown option '(--[^'=]*)/.exec(message) ?? []
  const meant = option === undefined ? undefined : nearest(option, usage.match(/--[a-z-]+/g) ?? [])
  return `${message}${didYouMean(meant)}`
}
