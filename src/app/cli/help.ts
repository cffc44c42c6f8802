/** What `--help` shows of a command; shells complete its `words` and flags. */
export interface Help {
  /** One sentence. */
  readonly about: string
  /** Arguments in the usage line. */
  readonly takes?: string
  /** Words that may follow the name. */
  readonly words?: readonly string[]
  readonly details?: string
  /** Description by flag, such as `-c, --config <file>`. Lines after the first are indented below it. */
  readonly flags?: Readonly<Record<string, string>>
  readonly examples: readonly string[]
}

export const CONFIG_FLAG = { '-c, --config <file>': 'Configuration (default: ./gateway.yaml)' } as const

/** Of commands that call the admin API. */
export const GATEWAY_FLAGS = {
  '--url <url>': 'Gateway to call (default: the listen address of the configuration)',
  ...CONFIG_FLAG
} as const

const OWN_FLAG = { '-h, --help': 'Show this help' } as const

/** A flag of the table: its long name, its letter, whether a value follows, and the first line of its description. */
export interface Flag {
  readonly long: string
  readonly short: string | undefined
  readonly hasValue: boolean
  readonly about: string
}

export function flagsOf({ flags }: Help): Flag[] {
  return Object.entries({ ...flags, ...OWN_FLAG }).map(([flag, description]) => ({
    long: /--[a-z-]+/.exec(flag)?.[0] ?? '',
    short: /^-[a-zA-Z]/.exec(flag)?.[0],
    hasValue: flag.endsWith('>'),
    about: description.split('\n', 1)[0] ?? ''
  }))
}

export function helpText(name: string, help: Help): string {
  const { about, takes, details, flags, examples } = help
  const rows = Object.entries({ ...flags, ...OWN_FLAG }).map(
    ([flag, description]) => [flag.startsWith('--') ? `    ${flag}` : flag, description] as const
  )
  const width = Math.max(...rows.map(([flag]) => flag.length)) + 3
  const table = rows.map(
    ([flag, description]) => `  ${flag.padEnd(width)}${description.replaceAll('\n', `\n${' '.repeat(width + 2)}`)}`
  )
  return [
    `Usage: boltgate ${[name, takes, '[flags]'].filter(part => part !== undefined).join(' ')}`,
    `${about}.${details === undefined ? '' : `\n\n${details}`}`,
    `Flags:\n${table.join('\n')}`,
    `Examples:\n${examples.map(line => `  ${line}`).join('\n')}`,
    'Exit codes: 0 success, 1 failure, 2 invalid usage.'
  ].join('\n\n')
}
