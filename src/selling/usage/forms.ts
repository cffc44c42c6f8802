import { FILLED, isFilled, type Found, JsonScan } from './json-scan.ts'
import { units, type Usage } from './usage.ts'
import { WantedMembers } from './wanted-members.ts'

interface Count {
  /** Member paths, separated by `|`. */
  readonly paths: string
  /** Counts output, which never decreases. */
  readonly isOutput: boolean
}

export interface UsageForm {
  /** Members of `SHARED`, then the counts. */
  readonly wanted: WantedMembers
  readonly counts: readonly Count[]
  /** An event has a unit or more, except for a few at the stream's ends. */
  readonly isUnitByEvent: boolean
  /** Usage from the counts: undefined if absent, null if not a number. */
  usage(said: readonly (number | null | undefined)[]): Partial<Usage>
}

/** Members of every form, by slot. */
const SHARED = ['type', 'object', 'error|response.error', 'choices', 'usage'] as const
const [TYPE, OBJECT, ERROR, CHOICES, USAGE] = [0, 1, 2, 3, 4] as const
/** Final events of OpenAI's Responses and Anthropic's streams. */
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

/** Detects failures as reported by OpenAI, Anthropic, OpenRouter, vLLM, LiteLLM and llama.cpp. */
export function isFailure(values: readonly Found[]): boolean {
  return FAILED_TYPES.has(values[TYPE]) || values[OBJECT] === 'error' || isFilled(values[ERROR])
}

/** The final event of its stream. */
export function isLast(values: readonly Found[]): boolean {
  return LAST_TYPES.has(values[TYPE])
}

export function isUsageChunk(values: readonly Found[]): boolean {
  return values[CHOICES] === null && values[USAGE] === FILLED && !isFailure(values)
}

/**
 * Merges the reports of a response. Counts are running totals: a later one replaces an earlier, but null, 0 and
 * non-numbers never do, and output never decreases.
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
 * OpenAI: `prompt_tokens` and `completion_tokens`, or the newer `input_tokens` and `output_tokens`, in events under
 * `response`. Some servers send both pairs with one at 0. Some count reasoning in `total_tokens` only.
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
      // Embeddings have no completion.
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
 * Anthropic: `usage` of a message, of `message_start` (in `message`) and `message_delta`. Cache reads and writes count
 * as input.
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

/** A configured member that counts all units as one. */
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

const NAMES = ['stream', 'messages', 'prompt', 'stream_options', 'stream_options.include_usage'] as const
const [STREAM, MESSAGES, PROMPT, OPTIONS, INCLUDE] = [0, 1, 2, 3, 4] as const
const WANTED = new WantedMembers(NAMES)
const MARK = Buffer.from('"stream"')
/** Start of an escaped letter. */
const ESCAPED = Buffer.from('\\u00')
const INCLUDE_USAGE = '"include_usage":true'

/**
 * Adds `stream_options.include_usage` to a streaming request for OpenAI completions. Null if it is there or the request
 * is another one. The body must be valid JSON.
 */
export function askingForUsage(body: Uint8Array): Buffer | null {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  if (!bytes.includes(MARK) && !bytes.includes(ESCAPED)) return null
  let changed: Buffer | null = null
  const scan = new JsonScan(WANTED, () => {
    changed = changedBody(bytes, scan)
  })
  scan.feed(bytes, 0, bytes.length)
  return scan.isComplete ? changed : null
}

function changedBody(bytes: Buffer, { values, starts }: JsonScan): Buffer | null {
  if (values[STREAM] !== true || (values[MESSAGES] === undefined && values[PROMPT] === undefined)) return null
  const options = values[OPTIONS]
  const at = starts[OPTIONS] ?? -1
  if (options === undefined) return spliced(bytes, bytes.indexOf('{') + 1, 0, `"stream_options":{${INCLUDE_USAGE}},`)
  // `null` is also read for an empty object.
  if (options === null && bytes[at] === 0x6e) return spliced(bytes, at, 4, `{${INCLUDE_USAGE}}`)
  if (options !== null && options !== FILLED) return null
  const include = values[INCLUDE]
  if (include === undefined && bytes[at] === 0x7b)
    return spliced(bytes, at + 1, 0, options === FILLED ? `${INCLUDE_USAGE},` : INCLUDE_USAGE)
  if (include !== false && include !== null) return null
  return spliced(bytes, starts[INCLUDE] ?? -1, include === false ? 5 : 4, 'true')
}

function spliced(bytes: Buffer, at: number, length: number, text: string): Buffer {
  return Buffer.concat([bytes.subarray(0, at), Buffer.from(text), bytes.subarray(at + length)])
}
