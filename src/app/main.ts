import { completionScript, SHELLS, flagsOf, helpText, type Help, type Shell } from './cli/help.ts'
import { defineCommand, type Command } from './cli/command.ts'
import { check } from './commands/check.ts'
import { docs } from './commands/docs.ts'
import { doctor } from './commands/doctor.ts'
import { endProcess } from './cli/end.ts'
import { importFrom } from './commands/import.ts'
import { init } from './commands/init.ts'
import { key } from './commands/key.ts'
import { keys } from './commands/keys.ts'
import { merchant } from './commands/merchant.ts'
import { mint } from './commands/mint.ts'
import { describe, startCode, withCode } from './commands/explain.ts'
import { outliveReaders, processOutput, UsageError, type Output, USAGE } from './cli/output.ts'
import { pay } from './commands/pay.ts'
import { prices } from './commands/prices.ts'
import { publish } from './commands/publish.ts'
import { revoke } from './commands/revoke.ts'
import { routes } from './commands/routes.ts'
import { start } from './commands/start.ts'
import { test } from './commands/test.ts'
import { versionLine } from './composition/version.ts'
import { ConfigError, didYouMean, nearest } from '../engine/config/diagnose.ts'

const completion = defineCommand(
  {
    about: 'Prints a shell completion script',
    takes: SHELLS.join('|'),
    words: SHELLS,
    word: 'shell',
    flags: {},
    examples: [
      'source <(boltgate completion bash)',
      'boltgate completion zsh > "${fpath[1]}/_boltgate"',
      'boltgate completion fish > ~/.config/fish/completions/boltgate.fish'
    ]
  },
  (_values, [shell], out) => {
    // One of `words`.
    out.print(
      completionScript(
        shell as Shell,
        [...commands].map(([name, { help }]) => [name, help])
      )
    )
    return 0
  }
)

const commands: ReadonlyMap<string, Command> = new Map(
  Object.entries({
    init,
    check,
    doctor,
    start,
    pay,
    routes,
    test,
    merchant,
    revoke,
    key,
    keys,
    mint,
    prices,
    import: importFrom,
    publish,
    docs,
    completion
  })
)

function overview(): string {
  return `boltgate, a streaming HTTP gateway that puts a Lightning price on APIs

Usage: boltgate <command> [flags]

Commands:
${[...commands].map(([name, { help }]) => `  ${name.padEnd(12)}${help.about}`).join('\n')}

Flags:
  -h, --help     Show this help
  -v, --version  Show version, commit and build

Examples:
  boltgate init
  boltgate start
  boltgate pay http://127.0.0.1:8080/demo/quote

Exit codes: 0 success, 1 failure, 2 invalid usage.
Run \`boltgate <command> --help\` for details.`
}

/** Command line. Returns the exit code: 0 success, 1 failure, 2 invalid usage. */
export async function main(args: readonly string[], out: Output = processOutput): Promise<number> {
  if (out === processOutput) outliveReaders()
  const [name, ...rest] = args
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
    const command = commands.get(rest[0] ?? '')
    out.print(command === undefined ? overview() : helpText(rest[0] ?? '', command.help))
    return name === undefined ? 2 : 0
  }
  if (name === '--version' || name === '-v' || name === 'version') {
    out.print(versionLine())
    return 0
  }
  const command = commands.get(name)
  if (command === undefined) {
    const meant = didYouMean(nearest(name, commands.keys()))
    out.complain(withCode(`Unknown command "${name}"${meant === '' ? '.' : meant}\n\n${overview()}`, USAGE.code))
    return 2
  }
  if (rest.includes('--help') || rest.includes('-h')) {
    out.print(helpText(name, command.help))
    return 0
  }
  try {
    return await command.run(rest, out)
  } catch (error) {
    return explain(error, name, command.help, out)
  }
}

/** Runs a command as this process and exits with its code. A stopped gateway ends on its own, or logs what holds it. */
export async function run(args: readonly string[]): Promise<void> {
  process.exitCode = await main(args)
  if (args[0] !== 'start' || process.exitCode !== 0) await endProcess()
}

function explain(error: unknown, name: string, help: Help, out: Output): number {
  if (error instanceof ConfigError) {
    out.complain(error.message)
    return 1
  }
  const isMisuse = error instanceof Error && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS')
  if (isMisuse || error instanceof UsageError) {
    const message = isMisuse ? argumentFault(error.message, help) : error.message
    out.complain(withCode(`${message}\n\nRun \`boltgate ${name} --help\` for usage.`, USAGE.code))
    return 2
  }
  out.complain(withCode(describe(error), startCode(error)))
  return 1
}

/** Node's message for invalid arguments, with the flag that was probably meant. */
function argumentFault(message: string, help: Help): string {
  const flags = flagsOf(help).map(({ long }) => long)
  const [, argument] = /^Unexpected argument '([^']*)'/.exec(message) ?? []
  if (argument !== undefined) {
    const isFile = /\.ya?ml$/i.test(argument) && flags.includes('--config')
    return `Unexpected argument "${argument}".${isFile ? ` Did you mean --config ${argument}?` : ''}`
  }
  const [, option] = /^Unknown option '(-[^'=]*)/.exec(message) ?? []
  if (option === undefined) return `${message}.`
  const meant = nearest(option, flags)
  return `Unknown flag "${option}"${didYouMean(meant) || '.'}`
}
