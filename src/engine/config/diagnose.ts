import type { Origin } from './document.ts'
import { defineError, type ErrorCode, type ErrorText } from '../../platform/system/errors.ts'
import type { Position } from './schema.ts'

/** Errors of `gateway.yaml`, reported by `boltgate check`, a start and a reload with file, line and column. */
export const configurationErrors = {
  BG_CONFIG_FILE: {
    cause: 'The configuration, or a file that it names such as a certificate, cannot be read.',
    fix: "Check the path, which is relative to the folder of the configuration, and the permissions of the gateway's user."
  },
  BG_CONFIG_SYNTAX: {
    cause:
      'The file is not YAML that boltgate accepts: a syntax error, an unsupported feature (tabs, tags, several documents), no content, or too large.',
    fix: 'Fix the reported line, or the line above it. `boltgate init` writes a first file.'
  },
  BG_CONFIG_DUPLICATE: {
    cause: 'A key, list item, name or route appears twice, so one of them would have no effect.',
    fix: 'Remove one, or give them different names, hosts, methods or paths.'
  },
  BG_CONFIG_VARIABLE: {
    cause: 'An environment variable is unset or empty, or `${…}` is malformed.',
    fix: 'Set the variable, or give a default: `${NAME:-default}`. `$${` is a literal `${`.'
  },
  BG_CONFIG_VALUE: {
    cause: 'A setting has a value that is not allowed.',
    fix: 'Use a value that the message allows; docs/reference/configuration.md lists all settings.'
  },
  BG_CONFIG_UNKNOWN_KEY: {
    cause: 'The setting does not exist here, or was removed.',
    fix: 'Use the name that the message suggests, and check the indentation.'
  },
  BG_CONFIG_MISSING_KEY: {
    cause: 'A required setting is missing.',
    fix: 'Add it; the message lists the allowed values.'
  },
  BG_CONFIG_REFERENCE: {
    cause: 'A chain, policy, upstream, internal upstream or plugin is named that is not defined.',
    fix: 'Define it, or use a name from the message. Name your own plugin by its path, such as `./my-plugin.ts`.'
  },
  BG_CONFIG_CONFLICT: {
    cause: 'Two settings contradict each other, such as a route and its chain or upstream, or one needs another.',
    fix: 'Change one of them as the message says.'
  },
  BG_CONFIG_PRODUCTION: {
    cause: 'The setting puts money, keys or links at risk and is rejected in production.',
    fix: 'Set what the message asks for, or use `mode: development` to try things out.'
  },
  BG_CONFIG_PROVIDER_KEY: {
    cause: 'The key of a payment provider is missing or malformed.',
    fix: 'Copy the complete key from the provider; the key of a node is an address, such as `lndconnect://` for lnd.'
  },
  BG_CONFIG_PROVIDER_RECEIVES: {
    cause: 'Warning: the provider kind only receives payments, so refunds through it are rejected.',
    fix: 'Use a kind that pays out, unless you never refund.'
  },
  BG_CHAIN_ORDER: {
    cause: 'A plugin is missing from a chain, or is placed before one that it needs or after one that ends the chain.',
    fix: 'Add or move the plugin that the message names.'
  },
  BG_CHAIN_SALE: {
    cause: 'The chain of a priced route would serve without payment, or take payment without serving.',
    fix: 'Use `chain: paid`, or put `credential` and `challenge` into the chain unconditionally, without `mode: observe`.'
  },
  BG_ROUTE_MISSING: {
    cause: 'Warning: the file routes only some operations of an API; a release may have added others.',
    fix: 'Name the preset in `use`, or add routes for the operations to serve.'
  },
  BG_PLUGIN_SETUP: {
    cause:
      'A plugin cannot be loaded or set up: its file is missing, exports no plugin, or its `setup` failed, took over 10 seconds, or returned unknown hooks.',
    fix: 'Fix the plugin or its settings as the message says; docs/how-to/plugins.md has an example.'
  }
} as const satisfies Record<ErrorCode, ErrorText>

export type ConfigurationCode = keyof typeof configurationErrors

for (const [code, text] of Object.entries(configurationErrors)) defineError(code as ErrorCode, text) // its keys

/** Keys of mappings and indexes of lists, from the top of the file. */
export type Path = readonly (string | number)[]

export interface Problem extends Position {
  readonly code: ConfigurationCode
  /** Such as `routes[0].match.path`; empty for the file as a whole. */
  readonly path: string
  /** What was found and what is allowed; one line, without any secret. */
  readonly message: string
}

export class ConfigError extends Error {
  readonly problems: readonly Problem[]
  readonly code: ConfigurationCode | undefined

  /** Takes at least one problem and sorts them in file order. */
  constructor(problems: readonly Problem[], options?: ErrorOptions) {
    const sorted = [...problems].sort((a, b) => a.line - b.line || a.column - b.column)
    super(sorted.map(formatProblem).join('\n'), options)
    this.name = 'ConfigError'
    this.problems = sorted
    this.code = sorted[0]?.code
  }
}

/** `gateway.yaml:12:5: routes[0].price: what was found; what is allowed [BG_CONFIG_VALUE]`: always one line. */
export function formatProblem(problem: Problem): string {
  const path = problem.path === '' ? '' : `${problem.path}: `
  return oneLine(`${problem.file}:${problem.line}:${problem.column}: ${path}${problem.message} [${problem.code}]`)
}

/** Such as `routes[0].match.path`, with unusual keys quoted. */
export function formatPath(path: Path): string {
  let text = ''
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`
    else if (/^\w[\w-]{0,63}$/.test(step)) text += text === '' ? step : `.${step}`
    else text += `[${quote(step)}]`
  }
  return text
}

export function formatMessage(found: string, allowed: string, suggestion?: string | number | boolean): string {
  return `found ${found}; allowed: ${allowed}${didYouMean(suggestion)}`
}

export function didYouMean(suggestion: string | number | boolean | undefined): string {
  if (suggestion === undefined) return ''
  if (typeof suggestion === 'number') return `. Did you mean ${suggestion}, without quotes?`
  return `. Did you mean ${typeof suggestion === 'string' ? quote(suggestion) : String(suggestion)}?`
}

/** The first word of a key such as "throttle { policy", which YAML reads when the colon is missing. */
export function wordBeforeLostColon(key: string): string | undefined {
  return /^([A-Za-z][A-Za-z0-9_-]*)[ :]+[{["'A-Za-z0-9]/.exec(key)?.[1]
}

/** URL parameters, also of provider keys that are URLs, that carry a secret. */
const secretValues = /([?&](?:password|webhook|rune|macaroon|key|secret|token)=)[^&#\s]*/gi

/** Quotes a text, shortened to 40 characters, without passwords in URLs. */
export function quote(text: string): string {
  const safe = text.replace(/\/\/[^/@\s]*@/g, '//[redacted]@').replace(secretValues, '$1[redacted]')
  return oneLine(JSON.stringify(safe.length > 40 ? `${safe.slice(0, 37)}...` : safe))
}

export function formatNames(names: readonly string[]): string {
  if (names.length === 0) return 'none'
  const shown = names.slice(0, 12).join(', ')
  return names.length > 12 ? `${shown} and ${names.length - 12} more` : shown
}

export function kindOf(value: unknown): string {
  if (value === null || value === undefined) return 'nothing'
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'object') return 'a mapping'
  if (typeof value === 'string') return value === '' ? 'an empty text' : 'a text'
  return typeof value === 'number' ? 'a number' : `a ${typeof value}`
}

export function showValue(value: unknown): string {
  if (typeof value === 'string' && value !== '') return quote(value)
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  return kindOf(value)
}

export function nearest(name: string, candidates: Iterable<string>): string | undefined {
  const wanted = name.toLowerCase()
  const most = wanted.length < 4 ? 1 : Math.min(3, Math.floor(wanted.length / 3) + 1)
  let best: string | undefined
  let least = most + 1
  // The distance is at least the difference in length; names are short, so very long keys are skipped.
  for (const candidate of candidates) {
    if (Math.abs(candidate.length - name.length) >= least || candidate === name) continue
    const distance = editDistance(wanted, candidate.toLowerCase())
    if (distance < least) {
      least = distance
      best = candidate
    }
  }
  return best
}

function editDistance(a: string, b: string): number {
  let before: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      let cost = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + (same ? 0 : 1))
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        cost = Math.min(cost, (before[j - 2] ?? 0) + 1)
      row.push(cost)
    }
    before = last
    last = row
  }
  return last[b.length] ?? 0
}

/** Terminals and log readers end a line at more than a line feed. */
function oneLine(text: string): string {
  return text.replace(
    /[\p{Cc}\u2028\u2029]/gu,
    character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  )
}

export class Findings {
  readonly problems: Problem[] = []
  readonly warnings: Problem[] = []
  readonly #origin: Origin

  constructor(origin: Origin) {
    this.#origin = origin
  }

  /** `instead`: what to point at where the file has nothing of the setting. */
  report(
    code: ConfigurationCode,
    path: Path,
    message: string,
    part: 'key' | 'value' = 'value',
    instead: Path = path
  ): void {
    const place = this.#origin.isWritten(path.slice(0, 1)) ? path : instead
    this.problems.push({ code, ...this.#origin.position(place, part), path: formatPath(path), message })
  }

  warn(code: ConfigurationCode, path: Path, message: string, part: 'key' | 'value' = 'value'): void {
    this.warnings.push({ code, ...this.#origin.position(path, part), path: formatPath(path), message })
  }

  /** The text as written, where a variable was interpolated: its value must not appear in messages. */
  expression(path: Path): string | undefined {
    return this.#origin.expression(path)
  }

  add(problems: readonly Problem[]): void {
    this.problems.push(...problems)
  }

  /** Whether nothing is wrong at, below or above a path, so that its value has the schema's type. */
  isSound(path: Path): boolean {
    const text = formatPath(path)
    return !this.problems.some(
      problem => isWithin(problem.path, text) || (problem.path !== '' && isWithin(text, problem.path))
    )
  }
}

function isWithin(path: string, outer: string): boolean {
  return path === outer || path.startsWith(`${outer}.`) || path.startsWith(`${outer}[`)
}
