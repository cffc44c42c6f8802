import { parseArgs } from 'node:util'
import { didYouMean, nearest } from '../../engine/config/diagnose.ts'
import { flagsOf, type Help } from './help.ts'
import { UsageError, type Output } from './output.ts'

/** `config` of `-c, --config <file>`. */
type TextName<Flag> = Flag extends `${string}--${infer Name} <${string}>` ? Name : never
/** `header` of `-H, --header <header>...`. */
type ListName<Flag> = Flag extends `${string}--${infer Name} <${string}>...` ? Name : never
type SwitchName<Flag> = Flag extends `${string}--${infer Name}`
  ? Name extends `${string}<${string}`
    ? never
    : Name
  : never

/** What was given for the flags of a command, by their long names. */
type Given<Flags> = { readonly [Flag in keyof Flags as TextName<Flag>]?: string } & {
  readonly [Flag in keyof Flags as ListName<Flag>]?: string[]
} & { readonly [Flag in keyof Flags as SwitchName<Flag>]: boolean }

export interface Command {
  readonly help: Help
  /** @throws UsageError, and what the command throws */
  run(args: readonly string[], out: Output): Promise<number>
}

/** A command whose flags and arguments are those that its help shows. `words` are in the order of `help.takes`. */
export function defineCommand<const Flags extends NonNullable<Help['flags']>>(
  help: Omit<Help, 'flags'> & { readonly flags: Flags },
  run: (given: Given<Flags>, words: readonly string[], out: Output) => number | Promise<number>
): Command {
  const options = Object.fromEntries(
    flagsOf(help).map(({ long, short, takes }) => [
      long.slice(2),
      {
        ...(takes === null ? { type: 'boolean' as const, default: false } : { type: 'string' as const }),
        ...(takes === 'values' ? { multiple: true } : {}),
        ...(short === undefined ? {} : { short: short.slice(1) })
      }
    ])
  )
  return {
    help,
    run: async (args, out) => {
      const { values, positionals } = parseArgs({
        args: [...args],
        allowPositionals: help.takes !== undefined,
        options
      })
      checkWords(help, positionals)
      // The options were made from the flags that the type names.
      return await run(values as Given<Flags>, positionals, out)
    }
  }
}

/** @throws UsageError unless they are what the help says; optional ones are in brackets */
function checkWords({ takes = '', words, word = 'action' }: Help, given: readonly string[]): void {
  const names = takes === '' || takes.startsWith('[') ? [] : takes.split(' ')
  const [first] = given
  if (words !== undefined && (first === undefined || !words.includes(first)))
    throw new UsageError(
      `${first === undefined ? `Missing ${word}` : `Unknown ${word} "${first}"`}: use ${words.join(' or ')}${first === undefined ? '.' : didYouMean(nearest(first, words)) || '.'}`
    )
  const missing = names[given.length]
  if (missing !== undefined) throw new UsageError(`Missing ${missing}.`)
  const more = names.length === 0 ? undefined : given[names.length]
  if (more !== undefined) throw new UsageError(`Unexpected argument "${more}" after ${given[names.length - 1]}.`)
}
