import type { UsageForm } from './forms.ts'
import { TAIL, type Usage, type UsageReader } from './usage.ts'

/** Reads the usage of a JSON response: of a short one from the whole, of a long one from its last 16 KiB. */
export class JsonUsage implements UsageReader {
  readonly seen = 0
  readonly #form: UsageForm
  #pieces: Uint8Array[] = []
  #kept = 0
  #received = 0

  constructor(form: UsageForm) {
    this.#form = form
  }

  chunk(bytes: Uint8Array): void {
    this.#received += bytes.byteLength
    // A copy: the connection uses its memory again.
    this.#pieces.push(Buffer.from(bytes.byteLength > TAIL ? bytes.subarray(-TAIL) : bytes))
    this.#kept += Math.min(bytes.byteLength, TAIL)
    while (this.#kept - (this.#pieces[0]?.byteLength ?? 0) >= TAIL) {
      this.#kept -= this.#pieces[0]?.byteLength ?? 0
      this.#pieces.shift()
    }
  }

  read(isWhole: boolean): Usage | null {
    if (!isWhole || this.#received === 0) return null
    const text = Buffer.concat(this.#pieces).toString('utf8')
    const value = this.#received === this.#kept ? parsed(text) : lastMember(text, this.#form.member)
    const { input, output } = this.#form.take(value, {})
    return input === undefined || output === undefined ? null : { input, output }
  }
}

/** Undefined for what is no JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

/**
 * The member `name` of the outermost object, of whose text this is the end, in an object of its own. A key can be told
 * from letters in a text, where its quotes would have a backslash before them; that it is the outermost object's is seen
 * from what follows: it closes one object, and no more.
 */
function lastMember(end: string, name: string): unknown {
  const key = JSON.stringify(name)
  for (let at = end.lastIndexOf(key); at >= 0; at = at === 0 ? -1 : end.lastIndexOf(key, at - 1)) {
    if (!/^\s*:/.test(end.slice(at + key.length, at + key.length + 8)) || end[at - 1] === '\\') continue
    // With a brace in front it is an object again, if nothing in between was left open.
    const object = parsed(`{${end.slice(at)}`)
    if (typeof object === 'object' && object !== null && Object.hasOwn(object, name)) return object
  }
  return undefined
}
