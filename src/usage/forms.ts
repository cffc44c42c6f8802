import { memberAt, units, type Usage } from './usage.ts'

/** How one kind of API says what was used, in a JSON response or in the events of a stream. */
export interface UsageForm {
  /** The outermost member of a JSON response that it stands in. */
  readonly member: string
  /** An event of a stream brings a unit or more, but for a few at its ends. */
  readonly isUnitByEvent: boolean
  /** What an object says, after what earlier ones of the same stream said; the same again where it says nothing. */
  take(value: unknown, before: Partial<Usage>): Partial<Usage>
}

function said(before: Partial<Usage>, input: unknown, output: unknown): Partial<Usage> {
  const [i, o] = [units(input), units(output)]
  return { ...before, ...(i === null ? {} : { input: i }), ...(o === null ? {} : { output: o }) }
}

/**
 * OpenAI's: `usage.prompt_tokens` and `completion_tokens`, or `input_tokens` and `output_tokens` of its newer API, whose
 * events have them in `response`. The last word counts: some send running totals.
 */
export const OPENAI: UsageForm = {
  member: 'usage',
  isUnitByEvent: true,
  take(value, before) {
    const usage = memberAt(value, ['usage']) ?? memberAt(value, ['response', 'usage'])
    if (typeof usage !== 'object' || usage === null) return before
    const input = memberAt(usage, ['prompt_tokens']) ?? memberAt(usage, ['input_tokens'])
    const output = memberAt(usage, ['completion_tokens']) ?? memberAt(usage, ['output_tokens'])
    // An embedding has no completion.
    return said(before, input, output ?? (units(input) === null ? undefined : 0))
  }
}

/**
 * Anthropic's: `usage` of a message, or of the events `message_start` (in `message`) and `message_delta`, whose numbers
 * are running totals. Tokens that come out of a cache, or go into one, went in too.
 */
export const ANTHROPIC: UsageForm = {
  member: 'usage',
  isUnitByEvent: true,
  take(value, before) {
    const usage = memberAt(value, ['usage']) ?? memberAt(value, ['message', 'usage'])
    if (typeof usage !== 'object' || usage === null) return before
    const parts = ['input_tokens', 'cache_creation_input_tokens', 'cache_read_input_tokens'].map(name =>
      units(memberAt(usage, [name]))
    )
    const input = parts[0] === null ? undefined : parts.reduce<number>((sum, part) => sum + (part ?? 0), 0)
    return said(before, input, memberAt(usage, ['output_tokens']))
  }
}

/** A member of the file's choice, which counts all units as one. */
export function memberForm(path: readonly string[]): UsageForm {
  return {
    member: path[0] ?? '',
    isUnitByEvent: false,
    take: (value, before) => said({ ...before, input: 0 }, undefined, memberAt(value, path))
  }
}
