import { check, checkUsage } from './cli/check.ts'
import { docs, docsUsage } from './cli/docs.ts'
import { endProcess } from './cli/end.ts'
import { init, initUsage } from './cli/init.ts'
import { key, keyUsage } from './cli/key.ts'
import { keys, keysUsage } from './cli/keys.ts'
import { mint, mintUsage } from './cli/mint.ts'
import { openapi, openapiUsage } from './cli/openapi.ts'
import { outliveReaders, processOutput, UsageError, type Output } from './cli/output.ts'
import { pay, payUsage } from './cli/pay.ts'
import { revoke, revokeUsage } from './cli/revoke.ts'
import { routes, routesUsage } from './cli/routes.ts'
import { start, startUsage } from './cli/start.ts'
import { packageVersion } from './cli/version.ts'
import { ConfigError } from './config/diagnose.ts'
import { isConnectionFault } from './database/errors.ts'
import { codeOf, type ErrorCode } from './errors/codes.ts'

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

/** The command line. Answers the exit code: 0 done, 1 failed, 2 called wrongly. */
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
    out.complain(`There is no command "${name}".\n\n${overview()}`)
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

/**
 * Runs a command as a process of its own, which ends with its exit code when the command is done. A gateway that was
 * stopped ends by itself, or says in its log what holds it.
 */
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
    out.complain(withCode(`${error.message}\n\n${command.usage}`, 'BG_USAGE'))
    return 2
  }
  out.complain(withCode(error instanceof Error ? describe(error) : String(error), startCode(error)))
  return 1
}

/** The name of the error stands at the end of its first line, as it does for mistakes in the configuration. */
function withCode(message: string, code: ErrorCode): string {
  const end = message.indexOf('\n')
  return end === -1 ? `${message} [${code}]` : `${message.slice(0, end)} [${code}]${message.slice(end)}`
}

/** What ended a command; the system's own errors get the names of what they mean here. */
function startCode(error: unknown): ErrorCode {
  const own = codeOf(error)
  if (own !== null) return own
  const { code, syscall, cause } = error instanceof Error ? (error as NodeJS.ErrnoException) : {}
  if (syscall === 'listen')
    return code === 'EADDRINUSE' ? 'BG_LISTEN_IN_USE' : code === 'EACCES' ? 'BG_LISTEN_DENIED' : 'BG_LISTEN_ADDRESS'
  if (syscall !== undefined && syscall !== 'connect' && code !== undefined) return 'BG_FILE_ACCESS'
  return isConnectionFault(error) || isConnectionFault(cause) ? 'BG_NOT_REACHED' : 'BG_UNEXPECTED'
}

/** The message, and those of its causes; the stack only where BOLTGATE_DEBUG asks for it. */
function describe(error: Error): string {
  if (process.env['BOLTGATE_DEBUG'] !== undefined) return error.stack ?? error.message
  return error.cause instanceof Error && !error.message.includes(error.cause.message)
    ? `${error.message}: ${error.cause.message}`
    : error.message
}
