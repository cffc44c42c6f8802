import { isUtf8 } from 'node:buffer'
import { readFile } from 'node:fs/promises'
import { ConfigError } from './diagnose.ts'

/**
 * Reads a configuration file without its byte order mark.
 * @throws ConfigError for invalid UTF-8
 */
export async function readSource(file: string): Promise<string> {
  const fail = (code: 'BG_CONFIG_SYNTAX' | 'BG_CONFIG_FILE', message: string, line = 1, column = 1): never => {
    throw new ConfigError([{ code, file, line, column, path: '', message }])
  }
  let bytes: Buffer
  try {
    bytes = await readFile(file)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
    return fail('BG_CONFIG_FILE', `the file cannot be read (${code}); name a readable file`)
  }
  if (isUtf16(bytes))
    return fail('BG_CONFIG_SYNTAX', 'found a file in UTF-16; allowed: YAML in UTF-8, as which any editor can save it')
  const text = bytes.toString('utf8')
  if (isUtf8(bytes)) return text.replace(/^\uFEFF/, '')
  // The first byte that decoding did not keep.
  const again = Buffer.from(text)
  const before = bytes
    .subarray(
      0,
      bytes.findIndex((byte, index) => byte !== again[index])
    )
    .toString('utf8')
  return fail(
    'BG_CONFIG_SYNTAX',
    'found bytes that are not UTF-8, such as Latin-1; allowed: YAML in UTF-8, as which any editor can save it',
    before.split('\n').length,
    before.length - before.lastIndexOf('\n')
  )
}

/** By the byte order mark that editors on Windows write. */
function isUtf16(bytes: Buffer): boolean {
  return (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff)
}
