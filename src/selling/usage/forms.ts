import type { UnitPart } from '../../engine/checks/meter.ts'
import { FILLED, isFilled, type Found } from './json-scan.ts'
import { units, type Usage } from './usage.ts'
import { WantedMembers } from './wanted-members.ts'
import { JsonText } from '../prices/json-text.ts'

interface Count {
  readonly slot: number
  /** Position in what `UsageForm.usage` gets. */
  readonly at: number
  /** Audio in a list by modality, of this many items with two slots each; 0 for a member. */
  readonly items: number
}

export interface UsageForm {
  /** Members of `SHARED`, then the counts. */
  readonly wanted: WantedMembers
  readonly counts: readonly Count[]
  /** Parts with a price of their own; others are not read. */
  readonly parts: readonly UnitPart[]
  /** An event has a unit or more, except for a few at the stream's ends. */
  readonly isUnitByEvent: boolean
  /** Usage from the counts, with all known parts: undefined if absent, null if not a number. */
  usage(said: readonly Said[]): PartialUsage
}

type Said = number | null | undefined
type PartialUsage = Partial<Record<UnitPart, Said>> & {
  readonly input?: number | undefined
  readonly output?: number | undefined
  readonly isTotal?: true
}
type Parts = ReadonlySet<UnitPart>

const NO_PARTS: Parts = new Set()
/** Members of every form, by slot. */
const SHARED = ['type', 'object', 'error|response.error', 'choices', 'usage'] as const
const [TYPE, OBJECT, ERROR, CHOICES, USAGE] = [0, 1, 2, 3, 4] as const
/** Final events of OpenAI's Responses and Anthropic's streams. */
const LAST_TYPES: ReadonlySet<Found> = new Set([
  'response.completed',
  'response.incomplete',
  'message_stop',
  // Gemini's, in the same slot.
  'STOP',
  'MAX_TOKENS'
])
const FAILED_TYPES: ReadonlySet<Found> = new Set(['error', 'response.failed'])

interface FormOptions extends Pick<UsageForm, 'isUnitByEvent' | 'usage'> {
  readonly counts: ReadonlyArray<string | { readonly part: UnitPart; readonly paths: string; readonly items?: number }>
  readonly shared?: readonly string[]
  readonly content?: readonly string[]
  readonly unread?: readonly string[]
}

function formOf(
  { counts, shared = SHARED, content = [], unread = [], isUnitByEvent, usage }: FormOptions,
  parts: Parts = NO_PARTS
): UsageForm {
  const slots = [...shared]
  const read: Count[] = []
  for (const [at, count] of counts.entries()) {
    const { paths, items = 0, part = null } = typeof count === 'string' ? { paths: count } : count
    if (part !== null && !parts.has(part)) continue
    read.push({ slot: slots.length, at, items })
    if (items === 0) slots.push(paths)
    for (let item = 0; item < items; item++)
      for (const name of ['modality', 'tokenCount'])
        slots.push(paths.replaceAll(/$|\|/g, end => `.${item}.${name}${end}`))
  }
  return {
    wanted: new WantedMembers([...slots, ...unread], content),
    counts: read,
    parts: [...parts],
    isUnitByEvent,
    usage
  }
}

/** Detects failures as reported by OpenAI, Anthropic, Gemini, OpenRouter, vLLM, LiteLLM and llama.cpp. */
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

function audioOf(values: readonly Found[], { slot, items }: Count): Found {
  for (let at = slot; at < slot + 2 * items; at += 2) if (values[at] === 'AUDIO') return values[at + 1]
  return undefined
}

/**
 * Merges the usage reports of a response, count by count. Counts are running totals and never decrease. Null and
 * non-numbers are ignored.
 */
export class RunningTotals {
  readonly #form: UsageForm
  readonly #said: Said[] = []

  constructor(form: UsageForm) {
    this.#form = form
  }

  /** Returns whether anything changed. */
  take(values: readonly Found[]): boolean {
    let isNews = false
    for (const count of this.#form.counts) {
      const value = count.items === 0 ? values[count.slot] : audioOf(values, count)
      if (value === undefined || value === null) continue
      const number = units(value)
      const before = this.#said[count.at]
      if (typeof before === 'number' ? number !== null && number > before : number !== before) {
        this.#said[count.at] = number
        isNews = true
      }
    }
    return isNews
  }

  get usage(): Partial<Usage> {
    const { input, output, isTotal, ...known } = this.#form.usage(this.#said)
    const usage: { -readonly [Name in keyof Usage]?: Usage[Name] } = {}
    if (input !== undefined) usage.input = input
    if (output !== undefined) usage.output = output
    if (isTotal === true) usage.isTotal = true
    for (const part of this.#form.parts) {
      const count = known[part]
      if (typeof count === 'number' && count > 0) usage[part] = count
    }
    return usage
  }
}

function largest(...said: readonly Said[]): number | undefined {
  const numbers = said.filter(each => typeof each === 'number')
  return numbers.length === 0 ? undefined : Math.max(...numbers)
}

function under(parents: readonly string[], ...names: readonly string[]): string {
  return parents.flatMap(parent => names.map(name => `${parent}.${name}`)).join('|')
}

const OPENAI_USAGE = ['usage', 'response.usage']
const ofOpenAi = (...names: readonly string[]): string => under(OPENAI_USAGE, ...names)
const ofInput = (name: string): string => ofOpenAi(`prompt_tokens_details.${name}`, `input_tokens_details.${name}`)
const ofOutput = (name: string): string =>
  ofOpenAi(`completion_tokens_details.${name}`, `output_tokens_details.${name}`)
const SEARCHES = 'server_tool_use.web_search_requests'

/**
 * OpenAI: `prompt_tokens` and `completion_tokens`, or the newer `input_tokens` and `output_tokens`, in events under
 * `response`. Some servers send both pairs with one at 0. Some count reasoning in `total_tokens` only. Cached tokens
 * are inside the input, reasoning inside the output; DeepSeek, Moonshot, OpenRouter and LiteLLM have names of their own.
 */
const openAi = (parts: Parts): UsageForm =>
  formOf(
    {
      counts: [
        ofOpenAi('prompt_tokens'),
        ofOpenAi('input_tokens'),
        ofOpenAi('completion_tokens'),
        ofOpenAi('output_tokens'),
        ofOpenAi('total_tokens'),
        {
          part: 'cached',
          paths: `${ofInput('cached_tokens')}|${ofOpenAi('prompt_cache_hit_tokens', 'cached_tokens', 'cache_read_input_tokens')}`
        },
        {
          part: 'cacheWrite',
          paths: `${ofInput('cache_write_tokens')}|${ofInput('cache_creation_tokens')}|${ofOpenAi('cache_creation_input_tokens')}`
        },
        { part: 'audio', paths: ofInput('audio_tokens') },
        { part: 'reasoning', paths: ofOutput('reasoning_tokens') },
        { part: 'audioOutput', paths: ofOutput('audio_tokens') },
        // OpenRouter and LiteLLM; OpenAI reports none.
        { part: 'search', paths: `${ofOpenAi(SEARCHES)}|${ofInput('web_search_requests')}` }
      ],
      isUnitByEvent: true,
      content: ['choices.*.delta.*', 'choices.*.text', 'delta'],
      // A role comes before any content.
      unread: ['choices.*.delta.role'],
      usage([prompt, input, completion, output, total, cached, cacheWrite, audio, reasoning, audioOutput, search]) {
        const parts = { cached, cacheWrite, audio, reasoning, audioOutput, search }
        const goesIn = largest(prompt, input)
        const comesOut = largest(completion, output)
        if (goesIn === undefined)
          return comesOut === undefined && typeof total === 'number'
            ? { input: 0, output: total, isTotal: true }
            : { ...parts, output: comesOut }
        const rest = typeof total === 'number' ? Math.max(0, total - goesIn) : undefined
        // Embeddings have no completion.
        const isSilent = completion === undefined && output === undefined
        return { ...parts, input: goesIn, output: largest(completion, output, rest, isSilent ? 0 : undefined) }
      }
    },
    parts
  )

const ofMessage = (name: string): string => under(['usage', 'message.usage'], name)

/**
 * Anthropic: `usage` of a message, of `message_start` (in `message`) and `message_delta`. Cache reads and writes are
 * beside `input_tokens`, and those for an hour inside the writes.
 */
const anthropic = (parts: Parts): UsageForm =>
  formOf(
    {
      counts: [
        ofMessage('input_tokens'),
        ofMessage('cache_creation_input_tokens'),
        ofMessage('cache_read_input_tokens'),
        ofMessage('output_tokens'),
        { part: 'cacheWrite1h', paths: ofMessage('cache_creation.ephemeral_1h_input_tokens') },
        { part: 'search', paths: ofMessage(SEARCHES) }
      ],
      isUnitByEvent: true,
      content: ['delta.text', 'delta.partial_json', 'delta.thinking'],
      usage([input, written, read, output, hour, search]) {
        const writes = Math.max(written ?? 0, hour ?? 0)
        return {
          input: typeof input === 'number' ? input + writes + (read ?? 0) : undefined,
          output: output ?? undefined,
          cached: read,
          cacheWrite: writes - (hour ?? 0),
          cacheWrite1h: hour,
          search
        }
      }
    },
    parts
  )

/** An item of the list that Gemini streams without `alt=sse` is one response. */
const ofGemini = (name: string): string => under(['usageMetadata', '*.usageMetadata'], name)
/** Text, image, video, audio and document. */
const MODALITIES = 5

/**
 * Gemini: `usageMetadata`, in each event. Cached tokens are inside the prompt, thoughts and results of tools beside it
 * and the candidates. Counts of 0 are left out.
 */
const gemini = (parts: Parts): UsageForm =>
  formOf(
    {
      counts: [
        ofGemini('promptTokenCount'),
        ofGemini('toolUsePromptTokenCount'),
        ofGemini('candidatesTokenCount'),
        ofGemini('thoughtsTokenCount'),
        ofGemini('totalTokenCount'),
        { part: 'cached', paths: ofGemini('cachedContentTokenCount') },
        { part: 'audio', paths: ofGemini('promptTokensDetails'), items: MODALITIES },
        { part: 'cached', paths: ofGemini('cacheTokensDetails'), items: parts.has('audio') ? MODALITIES : 0 },
        { part: 'audioOutput', paths: ofGemini('candidatesTokensDetails'), items: MODALITIES }
      ],
      shared: ['candidates.*.finishReason', 'object', 'error|*.error', 'choices', 'usage'],
      isUnitByEvent: true,
      content: ['text', 'functionCall', 'inlineData', 'executableCode'].map(
        name => `candidates.*.content.parts.*.${name}`
      ),
      usage([prompt, tools, candidates, thoughts, total, cached, audio, cachedAudio, audioOutput]) {
        if (typeof prompt !== 'number') return {}
        const input = prompt + (tools ?? 0)
        const rest = typeof total === 'number' ? total - input : 0
        return {
          input,
          output: Math.max(0, rest, (candidates ?? 0) + (thoughts ?? 0)),
          cached,
          reasoning: thoughts,
          audio: (audio ?? 0) - (cachedAudio ?? 0),
          audioOutput
        }
      }
    },
    parts
  )

export const OPENAI = openAi(NO_PARTS)
export const ANTHROPIC = anthropic(NO_PARTS)
export const GEMINI = gemini(NO_PARTS)

const FORMS = { openai: openAi, anthropic, gemini }

/** Reads the parts that have prices of their own too. */
export function apiForm(api: keyof typeof FORMS, parts: Parts): UsageForm {
  return FORMS[api](parts)
}

/** A configured member that counts all units as one. */
export function memberForm(path: readonly string[]): UsageForm {
  return formOf({
    counts: [path.join('.')],
    isUnitByEvent: false,
    usage: ([output]) => ({ input: 0, output: output ?? undefined })
  })
}

const INCLUDE_USAGE = '"include_usage":true'

/**
 * Adds `stream_options.include_usage` to a streaming request for OpenAI completions. Null if it is there or the request
 * is another one. The meter has read the body already, so this scans nothing again.
 */
export function requestingUsage(body: Uint8Array): Buffer | null {
  const text = JsonText.of(body)
  if (typeof text === 'string') return null
  const stream = text.place(['stream'])
  if ('kind' in stream || text.textOf(stream) !== 'true') return null
  // Only `stream` and its options are refused in two spellings.
  const isMissing = (name: string): boolean => {
    const at = text.place([name])
    return 'kind' in at && at.kind === 'missing'
  }
  if (isMissing('messages') && isMissing('prompt')) return null
  const options = text.place(['stream_options'])
  if ('kind' in options)
    return options.kind === 'fault' ? null : text.inserted(text.whole, `"stream_options":{${INCLUDE_USAGE}}`)
  if (text.textOf(options) === 'null') return text.replaced(options, `{${INCLUDE_USAGE}}`)
  const include = text.place(['stream_options', 'include_usage'])
  if ('kind' in include) return include.kind === 'fault' ? null : text.inserted(options, INCLUDE_USAGE)
  return ['false', 'null'].includes(text.textOf(include)) ? text.replaced(include, 'true') : null
}
