import { readFileSync } from 'node:fs'

export type Environment = Readonly<Record<string, string | undefined>>

/** `changed` when a variable or a default was interpolated. */
type Interpolated = { readonly value: string; readonly changed: boolean } | { readonly problem: string }

/**
 * Interpolates environment variables. `${NAME}` must be set and not empty; `${NAME:-default}` has a default. An unset
 * NAME is read from the file named by NAME_FILE, trailing white space removed, as container platforms provide secrets.
 * `$${` is a literal `${`. Not recursive. Problems never show a value.
 */
export function interpolate(text: string, env: Environment): Interpolated {
  let value = ''
  let changed = false
  let at = 0
  for (;;) {
    const open = text.indexOf('${', at)
    if (open === -1) return { value: value + text.slice(at), changed }
    if (open > at && text[open - 1] === '$') {
      value += `${text.slice(at, open - 1)}\${`
      at = open + 2
      continue
    }
    value += text.slice(at, open)
    const close = text.indexOf('}', open)
    if (close === -1)
      return { problem: 'found "${" without its "}"; allowed: ${NAME}, ${NAME:-default}, or "$${" for a plain "${"' }
    const match = /^([A-Za-z_][A-Za-z0-9_]*)(?::-([^]*))?$/.exec(text.slice(open + 2, close))
    const [, name, fallback] = match ?? []
    if (name === undefined)
      return {
        problem:
          'found "${" without the name of a variable; allowed: ${NAME}, ${NAME:-default}, or "$${" for a plain "${"'
      }
    let found = Object.hasOwn(env, name) ? env[name] : undefined
    const file = Object.hasOwn(env, `${name}_FILE`) ? env[`${name}_FILE`] : undefined
    if ((found === undefined || found === '') && file !== undefined && file !== '') {
      try {
        // Windows editors begin a file with a byte order mark.
        found = readFileSync(file, 'utf8')
          .replace(/^\uFEFF/, '')
          .trimEnd()
      } catch (error) {
        const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
        return {
          problem: `the file ${file}, which ${name}_FILE names, cannot be read (${code}); name a readable file, or set ${name}`
        }
      }
      if (found === '') return { problem: `the file ${file}, which ${name}_FILE names, is empty` }
    }
    if (found === undefined || found === '') {
      if (fallback === undefined) {
        const state = found === undefined ? 'is not set' : 'is empty'
        return { problem: `the environment variable ${name} ${state}; set it, or give a default: \${${name}:-default}` }
      }
      value += fallback
    } else value += found
    changed = true
    at = close + 1
  }
}
