import { FILLED, isFilled, type Found } from './json-scan.ts'
import { units, type Usage } from './usage.ts'
import { WantedMembers } from './wanted-members.ts'

/** Where an API reports a number of units. */
interface Count {
  /** Paths of its members, separated by `|`. */
  readonly paths: string
  /** Counts what came out, which never becomes less. */
  readonly isOutput: boolean
}

/** How one kind of API reports usage, in a JSON response or in the events of a stream. */
export interface UsageForm {
  /** Members that are read: those of `SHARED`, then the counts. */
  readonly wanted: WantedMembers
  readonly counts: readonly Count[]
  /** An event of a stream brings a unit or more, except for a few at its ends. */
  readonly isUnitByEvent: boolean
  /** The usage by what each count says; undefined for one that nothing was said of, null for one that is no number. */
  usage(said: readonly (number | null | undefined)[]): Partial<Usage>
}

/** Members that every form reads, by slot. */
const SHARED = ['type', 'object', 'error|response.error', 'choices', 'usage'] as const
const [TYPE, OBJECT, ERROR, CHOICES, USAGE] = [0, 1, 2, 3, 4] as const
/** The last events of OpenAI's Responses and of Anthropic's streams. */
const LAST_TYPES: ReadonlySet<Found> = new Set(['response.completed', 'response.incomplete', 'message_stop'])
const FAILED_TYPES: ReadonlySet<Found> = new Set(['error', 'response.failed'])

function formOf(
  form: Omit<UsageForm, 'wanted'>,
  content: readonly string[],
  unread: readonly string[] = []
): UsageForm {
  return {
    ...form,
    wanted: new WantedMembers([...SHARED, ...form.counts.map(({ paths }) => paths), ...unread], content)
  }
}

/** Whether a text reports a failure, in the ways of OpenAI, Anthropic, OpenRouter, vLLM, LiteLLM and llama.cpp. */
export function isFailure(values: readonly Found[]): boolean {
  return FAILED_TYPES.has(values[TYPE]) || values[OBJECT] === 'error' || isFilled(values[ERROR])
}

/** Whether an event is the last of its kind of stream. */
export function isLast(values: readonly Found[]): boolean {
  return LAST_TYPES.has(values[TYPE])
}

/** Whether an event is the chunk that `include_usage` adds, and nothing else. */
export function isUsageChunk(values: readonly Found[]): boolean {
  return values[CHOICES] === null && values[USAGE] === FILLED && !isFailure(values)
}

/**
 * Merges the reports of one response. Each count is a running total: a later report replaces an earlier one, except that
 * null, 0 and what is no number never do, and that what came out is never taken back.
 */
export class RunningTotals {
  readonly #form: UsageForm
  readonly #said: (number | null | undefined)[]

  constructor(form: UsageForm) {
    this.#form = form
    this.#said = form.counts.map(() => undefined)
  }

  /** Returns whether anything changed. */
  take(values: readonly Found[]): boolean {
    const { counts } = this.#form
    let isNews = false
    for (let at = 0; at < counts.length; at++) {
      const value = values[SHARED.length + at]
      if (value === undefined || value === null) continue
      const count = units(value)
      const before = this.#said[at]
      if (typeof before !== 'number') this.#said[at] = count
      else if (count !== null && count > 0)
        this.#said[at] = counts[at]?.isOutput === true ? Math.max(before, count) : count
      if (this.#said[at] !== before) isNews = true
    }
    return isNews
  }

  get usage(): Partial<Usage> {
    return this.#form.usage(this.#said)
  }
}

function largest(...said: (number | null | undefined)[]): number | undefined {
  const numbers = said.filter(each => typeof each === 'number')
  return numbers.length === 0 ? undefined : Math.max(...numbers)
}

function partial(input: number | undefined, output: number | undefined): Partial<Usage> {
  return { ...(input === undefined ? {} : { input }), ...(output === undefined ? {} : { output }) }
}

const inUsage = (name: string): string => `usage.${name}|response.usage.${name}`

/**
 * OpenAI's: `prompt_tokens` and `completion_tokens`, or `input_tokens` and `output_tokens` of its newer API, whose events
 * have `usage` in `response`. Some servers send both pairs and leave one at 0. Some leave a model's reasoning out of
 * `completion_tokens`, and have it in `total_tokens` alone.
 */
export const OPENAI: UsageForm = formOf(
  {
    counts: [
      { paths: inUsage('prompt_tokens'), isOutput: false },
      { paths: inUsage('input_tokens'), isOutput: false },
      { paths: inUsage('completion_tokens'), isOutput: true },
      { paths: inUsage('output_tokens'), isOutput: true },
      { paths: inUsage('total_tokens'), isOutput: true }
    ],
    isUnitByEvent: true,
    usage([prompt, input, completion, output, total]) {
      const goesIn = largest(prompt, input)
      const comesOut = largest(completion, output)
      if (goesIn === undefined)
        return comesOut === undefined && typeof total === 'number'
          ? { input: 0, output: total, isTotal: true }
          : partial(undefined, comesOut)
      const rest = typeof total === 'number' ? Math.max(0, total - goesIn) : undefined
      // An embedding has no completion.
      const isSilent = completion === undefined && output === undefined
      return partial(goesIn, largest(completion, output, rest, isSilent ? 0 : undefined))
    }
  },
  ['choices.*.delta.*', 'choices.*.text', 'delta'],
  // A role comes before any content.
  ['choices.*.delta.role']
)

const inMessage = (name: string): string => `usage.${name}|message.usage.${name}`

/**
 * Anthropic's: `usage` of a message, or of the events `message_start` (in `message`) and `message_delta`. Tokens that are
 * read from a cache, or written to one, went in too.
 */
export const ANTHROPIC: UsageForm = formOf(
  {
    counts: [
      { paths: inMessage('input_tokens'), isOutput: false },
      { paths: inMessage('cache_creation_input_tokens'), isOutput: false },
      { paths: inMessage('cache_read_input_tokens'), isOutput: false },
      { paths: inMessage('output_tokens'), isOutput: true }
    ],
    isUnitByEvent: true,
    usage([input, written, read, output]) {
      const goesIn = typeof input === 'number' ? input + (written ?? 0) + (read ?? 0) : undefined
      return partial(goesIn, output ?? undefined)
    }
  },
  ['delta.text', 'delta.partial_json', 'delta.thinking']
)

/** A member of the file's choice, which counts all units as one. */
export function memberForm(path: readonly string[]): UsageForm {
  return formOf(
    {
      counts: [{ paths: path.join('.'), isOutput: true }],
      isUnitByEvent: false,
      usage: ([output]) => ({ input: 0, ...partial(undefined, output ?? undefined) })
    },
    []
  )
}
