import { type ConfigurationCode, formatPath, type Path, type Problem } from './diagnose.ts'
import type { Origin } from './document.ts'

/** Collects what is wrong, each at its place in the file. */
export class Findings {
  readonly problems: Problem[] = []
  /** What is allowed and probably not meant. */
  readonly warnings: Problem[] = []
  readonly #origin: Origin

  constructor(origin: Origin) {
    this.#origin = origin
  }

  /** Notes one problem at a value or its key. */
  report(code: ConfigurationCode, path: Path, message: string, part: 'key' | 'value' = 'value'): void {
    this.problems.push({ code, ...this.#origin.position(path, part), path: formatPath(path), message })
  }

  /** Notes what is allowed and probably not meant. */
  warn(code: ConfigurationCode, path: Path, message: string, part: 'key' | 'value' = 'value'): void {
    this.warnings.push({ code, ...this.#origin.position(path, part), path: formatPath(path), message })
  }

  /** The text as it was written, where a variable was put into it: its value is not for messages. */
  expression(path: Path): string | undefined {
    return this.#origin.expression(path)
  }

  /** Takes over problems that were found elsewhere. */
  add(problems: readonly Problem[]): void {
    this.problems.push(...problems)
  }

  /** Whether nothing is wrong at, below or above a path, so that its value has the type that the schema says. */
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
