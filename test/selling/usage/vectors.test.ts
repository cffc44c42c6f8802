/** Responses of each API, in every form in which their bytes can come: pieces, line ends, padding, order, escapes. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { EventUsage } from '../../../src/selling/usage/events.ts'
import { ANTHROPIC, memberForm, OPENAI } from '../../../src/selling/usage/forms.ts'
import type { Usage, UsageReader } from '../../../src/selling/usage/usage.ts'
import { JsonUsage } from '../../../src/selling/usage/json.ts'

type Json = Readonly<Record<string, unknown>>
/** An event, by its data or with its fields. `field` replaces `data` where a server uses another one. */
type Event = string | Json | { readonly event?: string; readonly field?: string; readonly data: Json }

interface Vector {
  readonly name: string
  readonly form: string
  readonly events?: readonly Event[]
  readonly body?: Json
  readonly usage: Usage | null
}

// The file is a part of this test.
const vectors = JSON.parse(
  readFileSync(new URL('vectors/responses.json', import.meta.url), 'utf8')
) as readonly Vector[]
/** Units that go in by the estimate, which is charged where a failed stream has reported none. */
const ESTIMATE = 33

function formOf(name: string) {
  if (name === 'openai') return OPENAI
  return name === 'anthropic' ? ANTHROPIC : memberForm(name.split('.'))
}

/** What a reader reads of bytes that come in these pieces, from memory that is used again. */
function read(make: () => UsageReader, bytes: Buffer, cuts: readonly number[]) {
  const reader = make()
  const memory = Buffer.alloc(bytes.length)
  let from = 0
  for (const to of [...cuts, bytes.length]) {
    const length = bytes.copy(memory, 0, from, to)
    reader.chunk(memory.subarray(0, length))
    memory.fill(0x22)
    from = to
  }
  return reader.read(true)
}

function everySize(size: number, length: number) {
  return Array.from({ length: Math.max(0, Math.ceil(length / size) - 1) }, (_, at) => (at + 1) * size)
}

/** Text that has all that is looked for, inside a string. */
function padding(size: number) {
  const decoy = '"usage":{"prompt_tokens":1,"completion_tokens":1},"error":{"a":1}}\\\n\ndata: [DONE]\n\n'
  return decoy.repeat(Math.ceil(size / decoy.length)).slice(0, size)
}

interface Variant {
  readonly end: string
  readonly space: string
  readonly pad: number
  readonly comments: boolean
  readonly bom: boolean
}

const PLAIN: Variant = { end: '\n', space: ' ', pad: 0, comments: false, bom: false }

function textOf(data: Json, pad: number) {
  return JSON.stringify(pad === 0 ? data : { pad: padding(pad), ...data, rest: [padding(64), { usage: 1 }] })
}

function streamOf(events: readonly Event[], { end, space, pad, comments, bom }: Variant) {
  const lines: string[] = []
  for (const each of events) {
    if (comments) lines.push(': keep-alive', '')
    if (typeof each === 'string') {
      lines.push(`data:${space}${each}`, '')
      continue
    }
    // The vectors have events of these kinds.
    const event = (each['data'] === undefined ? { data: each } : each) as { event?: string; field?: string; data: Json }
    if (event.event !== undefined) lines.push(`event:${space}${event.event}`)
    if (comments) lines.push('id: 7', ': in an event', 'retry: 3', 'unknown')
    lines.push(`${event.field ?? 'data'}:${space}${textOf(event.data, pad)}`, '')
  }
  return Buffer.from((bom ? '\ufeff' : '') + lines.map(line => line + end).join(''))
}

for (const { name, form, events, body, usage } of vectors) {
  const expected = JSON.stringify(usage)
  const kind = formOf(form)
  if (events !== undefined)
    t.test(`events: ${name}`, async t => {
      const make = () => new EventUsage(kind, ESTIMATE)
      const check = (bytes: Buffer, cuts: readonly number[], what: string) => {
        const got = JSON.stringify(read(make, bytes, cuts))
        if (got !== expected) t.equal(got, expected, what)
      }
      for (const end of ['\n', '\r', '\r\n'])
        for (const isBusy of [false, true]) {
          const bytes = streamOf(events, { ...PLAIN, end, bom: isBusy, comments: isBusy, space: isBusy ? '' : ' ' })
          const what = JSON.stringify({ end, isBusy })
          for (let at = 0; at < bytes.length; at++) check(bytes, [at], `${what} cut at ${at}`)
          for (const size of [1, 2, 3, 7, 64]) check(bytes, everySize(size, bytes.length), `${what} by ${size}`)
        }
      for (const pad of [15_000, 16_383, 16_384, 16_385, 65_536, 1_000_000]) {
        const bytes = streamOf(events, { ...PLAIN, pad })
        const sizes = pad > 70_000 ? [65_536] : [1_000, 16_384, bytes.length]
        for (const size of sizes) check(bytes, everySize(size, bytes.length), `padded by ${pad}, pieces of ${size}`)
      }
      const lines = streamOf(events, PLAIN).toString().replaceAll('","', '",\ndata: "')
      check(Buffer.from(lines), everySize(5, lines.length), 'data of several lines')
      t.pass()
    })
  if (body !== undefined)
    t.test(`JSON: ${name}`, async t => {
      const make = () => new JsonUsage(kind)
      const check = (text: string, cuts: readonly number[], what: string) => {
        const got = JSON.stringify(read(make, Buffer.from(text), cuts))
        if (got !== expected) t.equal(got, expected, what)
      }
      const reversed = Object.fromEntries(Object.entries(body).toReversed())
      const texts = [
        JSON.stringify(body),
        JSON.stringify(reversed),
        JSON.stringify(body, null, 2),
        `\ufeff${JSON.stringify(body)}\r\n`,
        JSON.stringify(body).replaceAll('"usage"', '"us\\u0061ge"').replaceAll('_tokens"', '\\u005ftokens"'),
        JSON.stringify({ '📦\\"': 'ü', ...body })
      ]
      for (const text of texts) {
        const { length } = Buffer.from(text)
        for (let at = 0; at < length; at++) check(text, [at], `cut at ${at}: ${text}`)
        for (const size of [1, 3, 64]) check(text, everySize(size, length), `by ${size}: ${text}`)
      }
      for (const pad of [15_000, 16_384, 65_536, 1_000_000])
        for (const text of [textOf(body, pad), JSON.stringify({ ...body, pad: padding(pad) })])
          for (const size of pad > 70_000 ? [65_536] : [999, 16_384])
            check(text, everySize(size, Buffer.byteLength(text)), `padded by ${pad}, pieces of ${size}`)
      t.pass()
    })
}
