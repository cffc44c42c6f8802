import type { Output } from '../../src/app/cli/output.ts'
import { main } from '../../src/app/main.ts'

/** Runs a command; answers with its exit code and what it prints. */
export async function printed(command: (output: Output) => Promise<number>) {
  const [out, err]: [string[], string[]] = [[], []]
  const code = await command({ print: line => out.push(line), complain: line => err.push(line) })
  return { code, out: out.join('\n'), err: err.join('\n') }
}

/** Runs `boltgate` with these arguments. */
export function boltgate(...args: readonly string[]) {
  return printed(output => main(args, output))
}
