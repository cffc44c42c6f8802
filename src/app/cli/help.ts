/** What `--help` shows of a command; shells complete its `words` and flags. */
export interface Help {
  /** One sentence. */
  readonly about: string
  /** Arguments in the usage line. */
  readonly takes?: string
  /** Words of which one follows the name, and what they are: an action unless said. */
  readonly words?: readonly string[]
  readonly word?: string
  readonly details?: string
  /**
   * Description by flag, such as `-c, --config <file>`, or `<header>...` for one that may be repeated. Lines after the
   * first are indented below it.
   */
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

/** A flag of the table: its long name, its letter, what follows, and the first line of its description. */
export interface Flag {
  readonly long: string
  readonly short: string | undefined
  readonly takes: 'value' | 'values' | null
  readonly about: string
}

export function flagsOf({ flags }: Help): Flag[] {
  return Object.entries({ ...flags, ...OWN_FLAG }).map(([flag, description]) => ({
    long: /--[a-z-]+/.exec(flag)?.[0] ?? '',
    short: /^-[a-zA-Z]/.exec(flag)?.[0],
    takes: flag.endsWith('>') ? 'value' : flag.endsWith('...') ? 'values' : null,
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

export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

/** In single quotes, as bash and zsh read them. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}

/** `name:description`, as zsh's `_describe` reads it. */
function described(name: string, about: string): string {
  return quoted(`${name}:${about.replaceAll(':', '\\:')}`)
}

export function completionScript(shell: Shell, commands: ReadonlyArray<readonly [name: string, help: Help]>): string {
  switch (shell) {
    case 'bash':
      return `_boltgate() {
  local cur=\${COMP_WORDS[COMP_CWORD]} words=
  case \${COMP_WORDS[1]} in
${commands.map(([name, help]) => `    ${name}) words='${[...(help.words ?? []), ...flagsOf(help).map(({ long }) => long)].join(' ')}' ;;`).join('\n')}
  esac
  [ "$COMP_CWORD" -gt 1 ] || words='${commands.map(([name]) => name).join(' ')} --help --version'
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  [ \${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$cur"))
}
complete -o filenames -F _boltgate boltgate`
    case 'zsh':
      return `#compdef boltgate
_boltgate() {
  local -a words_ flags
  if (( CURRENT == 2 )); then
    words_=(
${commands.map(([name, { about }]) => `      ${described(name, about)}`).join('\n')}
    )
    flags=('--help:Show this help' '--version:Show version, commit and build')
  else
    case $words[2] in
${commands
  .map(
    ([name, help]) =>
      `      ${name}) words_=(${(help.words ?? []).join(' ')}); flags=(${flagsOf(help)
        .map(({ long, about }) => described(long, about))
        .join(' ')}) ;;`
  )
  .join('\n')}
    esac
  fi
  if [[ $PREFIX == -* ]]; then _describe -o flag flags
  elif (( CURRENT == 3 && $#words_ )) || (( CURRENT == 2 )); then _describe word words_
  else _files
  fi
}
# Autoloaded from $fpath, this file is the function; sourced, it registers it.
if [ "$funcstack[1]" = _boltgate ]; then _boltgate "$@"; else compdef _boltgate boltgate; fi`
    case 'fish':
      return [
        "complete -c boltgate -n __fish_use_subcommand -f -l help -d 'Show this help'",
        "complete -c boltgate -n __fish_use_subcommand -f -l version -d 'Show version, commit and build'",
        ...commands.flatMap(([name, help]) => [
          `complete -c boltgate -n __fish_use_subcommand -f -a ${name} -d ${fishQuoted(help.about)}`,
          ...(help.words ?? []).map(
            word => `complete -c boltgate -n '__fish_seen_subcommand_from ${name}' -f -a ${word}`
          ),
          ...flagsOf(help).map(
            ({ long, short, takes, about }) =>
              `complete -c boltgate -n '__fish_seen_subcommand_from ${name}'${short === undefined ? '' : ` -s ${short.slice(1)}`} -l ${long.slice(2)}${takes === null ? '' : ' -r'} -d ${fishQuoted(about)}`
          )
        ])
      ].join('\n')
  }
}

function fishQuoted(text: string): string {
  return `'${text.replaceAll(/['\\]/g, '\\$&')}'`
}
