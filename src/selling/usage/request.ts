import { FILLED, JsonScan } from './json-scan.ts'
import { WantedMembers } from './wanted-members.ts'

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
