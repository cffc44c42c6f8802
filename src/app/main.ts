import { check, checkUsage } from './commands/check.ts'
import { docs, docsUsage } from './commands/docs.ts'
import { endProcess } from './cli/end.ts'
import { init, initUsage } from './commands/init.ts'
import { key, keyUsage } from './commands/key.ts'
import { keys, keysUsage } from './commands/keys.ts'
import { mint, mintUsage } from './commands/mint.ts'
import { openapi, openapiUsage } from './commands/openapi.ts'
import { describe, startCode, withCode } from './commands/explain.ts'
import { outliveReaders, processOutput, UsageError, type Output, USAGE } from './cli/output.ts'
import { pay, payUsage } from './commands/pay.ts'
import { revoke, revokeUsage } from './commands/revoke.ts'
import { routes, routesUsage } from './commands/routes.ts'
import { start, startUsage } from './commands/start.ts'
import { packageVersion } from './composition/version.ts'
import { ConfigError, didYouMean, nearest } from '../engine/config/diagnose.ts'

interface Command {
  readonly usage: string
  run(args: readonly string[], out: Output): Promise<number>
}

const commands: ReadonlyMap<string, Command> = new Map([
  ['init', { usage: initUsage, run: init }],
  ['start', { usage: startUsage, run: start }],
  ['check', { usage: checkUsage, run: check }],
  ['routes', { usage: routesUsage, run: routes }],
  ['pay', { usage: payUsage, run: pay }],
  ['mint', { usage: mintUsage, run: mint }],
  ['revoke', { usage: revokeUsage, run: revoke }],
  ['key', { usage: keyUsage, run: key }],
  ['keys', { usage: keysUsage, run: keys }],
  ['openapi', { usage: openapiUsage, run: openapi }],
  ['docs', { usage: docsUsage, run: docs }]
])

function overview(): string {
  return `boltgate, a streaming HTTP gateway that puts a Lightning price on APIs\n\n${[...commands.values()].map(command => `  ${command.usage.split('\n', 1)[0] ?? ''}`).join('\n')}\n\nboltgate COMMAND --help says more, boltgate --version which this is.`
}

/** Command line. Returns the exit code: 0 success, 1 failure, 2 invalid usage. */
export async function main(args: readonly string[], out: Output = processOutput): Promise<number> {
  if (out === processOutput) outliveReaders()
  const [name, ...rest] = args
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
    out.print(overview())
    return name === undefined ? 2 : 0
  }
  if (name === '--version' || name === '-v') {
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
    out.print(command.usage)
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
    const [, option] = /^Unknown option '(--[^'=]*)/.exec(error.message) ?? []
    const meant = option === undefined ? undefined : nearest(option, command.usage.match(/--[a-z-]+/g) ?? [])
    out.complain(withCode(`${error.message}${didYouMean(meant)}\n\n${command.usage}`, USAGE.code))
    return 2
  }
  out.complain(withCode(describe(error), startCode(error)))
  return 1
}
