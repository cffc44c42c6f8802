/** What a shell completes of a command. */
export interface Completable {
  readonly about: string
  readonly usage: string
  /** Words that may follow its name. */
  readonly words?: readonly string[]
}

export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

function flagsOf({ usage }: Completable): string[] {
  return [...new Set(usage.match(/(?<![\w-])--[a-z][a-z-]*/g) ?? []), '--help']
}

function wordsOf(command: Completable): string[] {
  return [...(command.words ?? []), ...flagsOf(command)]
}

export function completionScript(shell: Shell, commands: ReadonlyMap<string, Completable>): string {
  const names = [...commands.keys()]
  switch (shell) {
    case 'bash':
      return `_boltgate() {
  local cur=\${COMP_WORDS[COMP_CWORD]} words=
  case \${COMP_WORDS[1]} in
${[...commands].map(([name, command]) => `    ${name}) words='${wordsOf(command).join(' ')}' ;;`).join('\n')}
  esac
  [ "$COMP_CWORD" -gt 1 ] || words='${names.join(' ')} --help --version'
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  [ \${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$cur"))
}
complete -o filenames -F _boltgate boltgate`
    case 'zsh':
      return `#compdef boltgate
_boltgate() {
  if (( CURRENT == 2 )); then
    local -a commands=(
${[...commands].map(([name, { about }]) => `      '${name}:${about.replaceAll("'", "'\\''").replaceAll(':', '\\:')}'`).join('\n')}
    )
    _describe command commands
    return
  fi
  case $words[2] in
${[...commands].map(([name, command]) => `    ${name}) compadd -- ${wordsOf(command).join(' ')} ;;`).join('\n')}
  esac
  _files
}
compdef _boltgate boltgate`
    case 'fish':
      return [...commands]
        .flatMap(([name, command]) => [
          `complete -c boltgate -n __fish_use_subcommand -f -a ${name} -d '${command.about.replaceAll("'", "\\'")}'`,
          ...(command.words ?? []).map(
            word => `complete -c boltgate -n '__fish_seen_subcommand_from ${name}' -a ${word}`
          ),
          ...flagsOf(command).map(
            flag => `complete -c boltgate -n '__fish_seen_subcommand_from ${name}' -l ${flag.slice(2)}`
          )
        ])
        .join('\n')
  }
}
