import { JsonText } from '../prices/json-text.ts'

const INCLUDE_USAGE = '"include_usage":true'

/**
 * Adds `stream_options.include_usage` to a streaming request for OpenAI completions. Null if it is there or the request
 * is another one. The meter has read the body already, so this scans nothing again.
 */
export function askingForUsage(body: Uint8Array): Buffer | null {
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
