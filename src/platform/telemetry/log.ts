import { pino, stdSerializers, type DestinationStream, type Logger } from 'pino'
import { hasCode } from '../system/errors.ts'

export type { Logger } from 'pino'

export interface Log {
  debug(message: string): void
  debug(fields: object, message: string): void
  info(message: string): void
  info(fields: object, message: string): void
  warn(message: string): void
  warn(fields: object, message: string): void
  error(message: string): void
  error(fields: object, message: string): void
  /**
   * Fast path for the line of each request: does not search the names of `fields` for secrets, so the caller vouches
   * for them. `fields` may also be the members as ASCII JSON text (`"a":1,"b":"c"`). Optional.
   */
  known?(level: 'debug' | 'info' | 'warn' | 'error', fields: object | string, message: string): void
}

interface LogOptions {
  level: 'debug' | 'info' | 'warn' | 'error' | 'silent'
  destination?: DestinationStream
}

// Lower case; compared case-insensitively, since header names come in any.
const hiddenNames = new Set([
  'authorization',
  'payment-authorization',
  'cookie',
  'set-cookie',
  'x-api-key',
  'x-admin-key',
  'payment-receipt',
  'payment-required',
  'payment-signature',
  'www-authenticate',
  'preimage',
  'macaroon',
  'credential',
  'apikey',
  'adminkey',
  'accesstoken',
  'claimtoken',
  'webhooksecret',
  'providerkey',
  'secret',
  'master',
  'password'
])
const redacted = '[redacted]'
const deepest = 4

function isPlain(value: object): value is Record<string, unknown> {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/**
 * The same fields, or a copy where something was hidden. Replaces pino's `redact`: with paths of two levels a line took
 * 43 µs, more than a whole verified request may; a flat line takes less than one this way.
 */
function hide(fields: Record<string, unknown>, depth = 1): Record<string, unknown> {
  let copy: Record<string, unknown> | null = null
  for (const name in fields) {
    const value = fields[name]
    let shown = value
    if (hiddenNames.has(name.toLowerCase())) shown = redacted
    else if (typeof value === 'object' && value !== null && depth < deepest) {
      if (Array.isArray(value)) shown = hideList(value, depth + 1)
      else if (isPlain(value)) shown = hide(value, depth + 1)
    }
    if (shown !== value) {
      copy ??= { ...fields }
      copy[name] = shown
    }
  }
  return copy ?? fields
}

function hideList(list: unknown[], depth: number): unknown[] {
  let copy: unknown[] | null = null
  for (const [index, value] of list.entries()) {
    if (typeof value !== 'object' || value === null || !isPlain(value)) continue
    const shown = hide(value, depth)
    if (shown === value) continue
    copy ??= [...list]
    copy[index] = shown
  }
  return copy ?? list
}

/**
 * One JSON object per line. Secrets are guarded first by their type (`Secret` prints itself redacted), then by known
 * names, in plain objects and lists down to the fourth level. Not covered by name: what is bound with `child`, which
 * pino does not format.
 */
export function createLog(options: LogOptions): Logger & Required<Pick<Log, 'known'>> {
  const settings = {
    level: options.level,
    base: null,
    timestamp: timeOfLine,
    serializers: { err: shownError },
    formatters: { level: (label: string) => ({ level: label }), log: (fields: Record<string, unknown>) => hide(fields) }
  }
  const destination: Destination = options.destination ?? gatheredOutput()
  const log = pino(settings, destination)
  return Object.assign(log, {
    // pino checks every member for a serializer and a formatter: a twentieth of a verified request.
    known(level: 'debug' | 'info' | 'warn' | 'error', fields: object | string, message: string): void {
      if (!log.isLevelEnabled(level)) return
      const members = typeof fields === 'string' ? fields : JSON.stringify(fields).slice(1, -1)
      const end = message === REQUEST ? REQUEST_END : `,"msg":${JSON.stringify(message)}}\n`
      const line = `{"level":"${level}"${timeOfLine()}${members === '' ? '' : ','}${members}${end}`
      if (destination.writeAscii !== undefined && typeof fields === 'string' && end === REQUEST_END)
        destination.writeAscii(line)
      else destination.write(line)
    }
  })
}

function shownError(error: unknown): unknown {
  const shown: unknown = error instanceof Error ? stdSerializers.err(error) : error
  if (error instanceof Error && 'code' in error && typeof error.code === 'string' && typeof shown === 'object')
    return { ...shown, code: error.code }
  return shown
}

const REQUEST = 'request'
const REQUEST_END = `,"msg":"${REQUEST}"}\n`

interface Destination extends DestinationStream {
  writeAscii?(line: string): void
}

/** Lines are buffered up to this many characters and milliseconds: a write for each cost a tenth of a request. */
const GATHERED_CHARS = 32_768
const GATHERED_MS = 100

/**
 * Standard output, written in batches of lines. Flushed on exit; SIGKILL loses the buffer. The destination's own
 * buffering took a twentieth of a verified request.
 */
function gatheredOutput(): Destination {
  const output = pino.destination({ fd: 1, sync: false, maxWrite: 2 * GATHERED_CHARS, contentMode: 'buffer' })
  let gathered = ''
  let ascii = true
  let passing: NodeJS.Timeout | null = null
  const pass = (): void => {
    passing = null
    if (gathered === '') return
    // As bytes: with text the output would count its bytes twice and write it in UTF-8, which costs more than the copy.
    const bytes = Buffer.from(gathered, ascii ? 'latin1' : 'utf8')
    // In this mode it takes bytes; its types know text alone.
    output.write(bytes as unknown as string)
    gathered = ''
    ascii = true
  }
  process.on('exit', () => {
    pass()
    try {
      output.flushSync()
    } catch (error) {
      // The reader is gone, and the process is ending.
      if (!hasCode(error, 'EPIPE')) throw error
    }
  })
  const writeAscii = (line: string): void => {
    gathered += line
    passing ??= setTimeout(pass, GATHERED_MS).unref()
    if (gathered.length < GATHERED_CHARS) return
    clearTimeout(passing)
    pass()
  }
  return {
    write(line) {
      ascii = false
      writeAscii(line)
    },
    writeAscii
  }
}

let timedAt = 0
let timeText = ''

function timeOfLine(): string {
  const now = Date.now()
  if (now !== timedAt) {
    timedAt = now
    timeText = `,"time":"${new Date(now).toISOString()}"`
  }
  return timeText
}

const secretParameters =
  /([?&](?:adminKey|(?:x-)?api[_-]?key|key|claimToken|(?:(?:access|refresh|id)_)?token|preimage|password|rune|macaroon|(?:client_)?secret|sig(?:nature)?)=)[^&#]*/gi

/** A request target for the log: replaces values of query parameters that carry keys (decision 38). */
export function cleanTarget(target: string): string {
  return target.includes('?') ? target.replace(secretParameters, '$1[redacted]') : target
}

export const silentLog: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
