import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parseAllDocuments,
  Scalar,
  visit,
  type Document,
  type Node,
  type ParsedNode,
  type YAMLError
} from 'yaml'
import { type ConfigurationCode, formatPath, quote, type Path, type Problem } from './diagnose.ts'
import { interpolate, type Environment } from './interpolate.ts'
import type { Position } from './schema.ts'

/** Positions of a file's values, and which of them come from the environment. */
export interface Origin {
  position(path: Path, part?: 'key' | 'value'): Position
  /** The text as written, when a variable or a default was interpolated. */
  expression(path: Path): string | undefined
  isWritten(path: Path): boolean
}

interface ParsedFile {
  readonly value: unknown
  readonly origin: Origin
  readonly problems: readonly Problem[]
}

export function noOrigin(file: string): Origin {
  return { position: () => ({ file, line: 1, column: 1 }), expression: () => undefined, isWritten: () => true }
}

// Far above a configuration of thousands of routes, and below an alias bomb or a binary file.
const maxCharacters = 1024 * 1024
const maxNodes = 100_000
// Resolving an alias reads the document from its start.
const maxAliases = 1000
const maxDepth = 64

interface Place {
  readonly key: number | undefined
  readonly value: number
}

/**
 * Parses YAML strictly: one document, no duplicate keys, no tags, no tabs. Reports only the first syntax error, since
 * later ones usually follow from it. Never throws.
 */
export function parseFile(file: string, text: string, env: Environment): ParsedFile {
  const lines = new LineCounter()
  const places = new Map<string, Place>()
  const expressions = new Map<string, string>()
  const problems: Problem[] = []
  const at = (offset: number): Position => {
    const { line, col } = lines.linePos(offset)
    return { file, line: Math.max(line, 1), column: Math.max(col, 1) }
  }
  const origin: Origin = {
    position(path, part = 'value') {
      for (let length = path.length; length >= 0; length--) {
        const place = places.get(JSON.stringify(path.slice(0, length)))
        // What is missing is reported at the key of the mapping that lacks it.
        if (place !== undefined)
          return at(part === 'value' && length === path.length ? place.value : (place.key ?? place.value))
      }
      return { file, line: 1, column: 1 }
    },
    expression: path => expressions.get(JSON.stringify(path)),
    isWritten: path => places.has(JSON.stringify(path))
  }
  const report = (code: ConfigurationCode, offset: number, path: Path, message: string): void => {
    problems.push({ code, ...at(offset), path: formatPath(path), message })
  }
  const failed = (): ParsedFile => ({ value: undefined, origin, problems })

  if (text.length > maxCharacters) {
    report('BG_CONFIG_SYNTAX', 0, [], `found ${text.length} characters; allowed: at most ${maxCharacters}`)
    return failed()
  }
  let document: Document.Parsed | undefined
  try {
    const documents = parseAllDocuments(text, {
      lineCounter: lines,
      prettyErrors: false,
      uniqueKeys: false,
      logLevel: 'silent',
      stringKeys: false
    })
    if (Array.isArray(documents)) {
      const [first, second] = documents
      document = first
      const error = first?.errors[0]
      if (error !== undefined) {
        const colon = missingColon(text, error.pos[0], at(error.pos[0]).line)
        if (colon === undefined) report('BG_CONFIG_SYNTAX', syntaxOffset(error, first), [], syntaxMessage(error, text))
        else report('BG_CONFIG_SYNTAX', colon, [], NO_COLON)
        return failed()
      }
      if (second !== undefined) {
        report(
          'BG_CONFIG_SYNTAX',
          second.range[0],
          [],
          'found a second document (a line with ---); allowed: one document in the file'
        )
        return failed()
      }
      const warning = first?.warnings[0]
      if (warning !== undefined)
        report(
          'BG_CONFIG_SYNTAX',
          warning.pos[0],
          [],
          'found a YAML tag or directive; allowed: plain YAML 1.2 without tags (quote a text that begins with "!")'
        )
    }
  } catch (error) {
    // The parser is recursive: text makes it throw only by nesting beyond the stack.
    if (!(error instanceof RangeError)) throw error
    report('BG_CONFIG_SYNTAX', 0, [], `found values nested too deeply; allowed: at most ${maxDepth} levels`)
    return failed()
  }
  if (
    document === undefined ||
    document.contents === null ||
    (isScalar(document.contents) && document.contents.value === null)
  ) {
    report(
      'BG_CONFIG_SYNTAX',
      0,
      [],
      'found an empty file; allowed: a mapping with keys such as mode, server, chains and routes'
    )
    return failed()
  }

  const parsed = document
  const open = new Set<Node>()
  let nodes = 0
  let aliases = 0
  const walk = (
    node: ParsedNode | Node | null,
    path: Path,
    keyOffset: number | undefined,
    outside: number
  ): unknown => {
    const offset = node?.range?.[0] ?? keyOffset ?? outside
    places.set(JSON.stringify(path), { key: keyOffset, value: offset })
    if (node === null) return null
    if (++nodes > maxNodes || path.length > maxDepth) {
      if (nodes <= maxNodes + 1)
        report(
          'BG_CONFIG_SYNTAX',
          offset,
          [],
          `found too many or too deeply nested values; allowed: at most ${maxNodes} values in ${maxDepth} levels`
        )
      nodes = maxNodes + 1
      return undefined
    }
    if (isAlias(node)) {
      if (++aliases > maxAliases) {
        if (aliases === maxAliases + 1)
          report(
            'BG_CONFIG_SYNTAX',
            offset,
            path,
            `found more than ${maxAliases} aliases; allowed: at most ${maxAliases}`
          )
        return undefined
      }
      const target = node.resolve(parsed)
      if (target === undefined || open.has(target)) {
        report(
          'BG_CONFIG_SYNTAX',
          offset,
          path,
          `found the alias *${node.source}${target === undefined ? ' without its anchor' : ' inside its own anchor'}; allowed: an alias of a value above it`
        )
        return undefined
      }
      return walkOpen(target, path, offset)
    }
    return walkOpen(node, path, offset)
  }
  const walkOpen = (node: Node, path: Path, offset: number): unknown => {
    open.add(node)
    try {
      if (isMap(node)) return walkMap(node.items, path, offset)
      if (isSeq(node)) return walkList(node.items, path, offset)
      if (!isScalar(node)) return undefined
      return readScalar(node.value, path, offset)
    } finally {
      open.delete(node)
    }
  }
  const walkMap = (
    items: readonly { key: unknown; value: unknown }[],
    path: Path,
    outside: number
  ): Record<string, unknown> => {
    const result: Record<string, unknown> = {}
    const first = new Map<string, number>()
    take(items, path, outside, result, first, false)
    return result
  }
  /** Takes a mapping's own members, then those of its merge keys. The first of equal keys wins. */
  const take = (
    items: readonly { key: unknown; value: unknown }[],
    path: Path,
    outside: number,
    result: Record<string, unknown>,
    first: Map<string, number>,
    isMerged: boolean
  ): void => {
    const merges: Array<readonly [Node, number]> = []
    for (const item of items) {
      const key = item.key as Node | null // The parser makes nodes; its type does not say so.
      const offset = key?.range?.[0] ?? outside
      const plain = isScalar(key) ? key.value : undefined
      if (typeof plain !== 'string' && typeof plain !== 'number' && typeof plain !== 'boolean') {
        report(
          'BG_CONFIG_SYNTAX',
          offset,
          path,
          'found a key that is no text; allowed: plain text as a key (quote it if it is meant as text)'
        )
        continue
      }
      const name = String(plain)
      const source = name === '<<' ? item.value : undefined
      const isMerge = isAlias(source) || isMap(source) || isSeq(source)
      if (isMerged && isMerge) {
        merges.push([source, offset])
        continue
      }
      const earlier = first.get(name)
      if (isMerged && earlier !== undefined) continue
      if (earlier !== undefined) {
        report(
          'BG_CONFIG_DUPLICATE',
          offset,
          [...path, name],
          `found the key ${quote(name)} a second time; allowed: each key once (the first is on line ${at(earlier).line})`
        )
        continue
      }
      first.set(name, offset)
      if (isMerge) {
        merges.push([source, offset])
        continue
      }
      if (name === '__proto__') {
        report('BG_CONFIG_SYNTAX', offset, path, 'found the key "__proto__"; allowed: any other name')
        continue
      }
      result[name] = walk(item.value as Node | null, [...path, name], offset, offset)
    }
    for (const [node, offset] of merges) mergeInto(node, path, offset, result, first)
  }
  const mergeInto = (
    node: Node,
    path: Path,
    offset: number,
    result: Record<string, unknown>,
    first: Map<string, number>
  ): void => {
    // The items of a parsed list are nodes.
    if (isSeq(node)) return node.items.forEach(item => mergeInto(item as Node, path, offset, result, first))
    const target = isAlias(node) ? (++aliases > maxAliases ? undefined : node.resolve(parsed)) : node
    if (!isMap(target) || open.has(target)) {
      report(
        'BG_CONFIG_SYNTAX',
        node.range?.[0] ?? offset,
        path,
        'found a merge key << without a mapping; allowed: an alias of a mapping that is defined above, such as <<: *name, or a list of them'
      )
      return
    }
    open.add(target)
    take(target.items, path, offset, result, first, true)
    open.delete(target)
  }
  const walkList = (items: readonly unknown[], path: Path, outside: number): unknown[] => {
    const result: unknown[] = []
    for (const item of items) {
      const at: Path = [...path, result.length]
      // As above: the items of a parsed list are nodes.
      const value = walk(item as Node | null, at, undefined, outside)
      // An empty optional variable, as in ["${EXTRA_PROXY:-}"], drops the item.
      if (value === '' && expressions.delete(JSON.stringify(at))) continue
      result.push(value)
    }
    return result
  }
  const readScalar = (value: unknown, path: Path, offset: number): unknown => {
    if (typeof value !== 'string') return value
    const outcome = interpolate(value, env)
    if ('problem' in outcome) {
      report('BG_CONFIG_VARIABLE', offset, path, outcome.problem)
      return undefined
    }
    // Shells replace it, boltgate does not.
    const [, bare] = outcome.changed ? [] : (/(?:^|\s)\$([A-Z_][A-Z0-9_]+)$/.exec(value) ?? [])
    if (bare !== undefined) {
      report('BG_CONFIG_VARIABLE', offset, path, `found "$${bare}", which is not replaced; allowed: "\${${bare}}"`)
      return undefined
    }
    if (outcome.changed) expressions.set(JSON.stringify(path), value)
    return outcome.value
  }
  const value = walk(parsed.contents, [], undefined, 0)
  return { value, origin, problems }
}

const NO_COLON = 'found a line without the colon of "key: value"; allowed: a key, a colon and a space, then the value'
const TAB = 'found a tab in the indentation; allowed: spaces only, such as two for each tab'
/** Lines before an error to try: a missing colon surfaces where its block continues. */
const LOST_COLON_LINES = 10

/**
 * The key of a line that lost its colon, if putting it back lets the parser continue. The parser reads such a line as a
 * continued text and reports a later line.
 */
function missingColon(text: string, offset: number, line: number): number | undefined {
  const rows = text.split('\n')
  const first = Math.max(0, line - LOST_COLON_LINES)
  for (let row = line - 1; row >= first; row--) {
    const [, before = '', key = '', rest = ''] =
      /^([ ]*(?:- )?)([A-Za-z][A-Za-z0-9_-]*)(:?\S.*|[ ].*)?$/s.exec(rows[row] ?? '') ?? []
    if (key === '' || /:(?:\s|$)/.test(rest.replace(/ #.*|(?<! ) *[{["'].*/, ''))) continue
    const put = rest.startsWith(':') ? `: ${rest.slice(1)}` : `:${rest}`
    const fixed = rows.with(row, `${before}${key}${put}`).join('\n')
    const [error] = parseAllDocuments(fixed, { prettyErrors: false, uniqueKeys: false, logLevel: 'silent' }).flatMap(
      document => document.errors
    )
    if (error === undefined || error.pos[0] > offset + 2)
      return rows.slice(0, row).reduce((sum, above) => sum + above.length + 1, 0) + before.length
  }
}

/** The parser reports an unclosed bracket where the file continues; the reader needs the opening one. */
function syntaxOffset(error: YAMLError, document: Document.Parsed | undefined): number {
  const quoted = error.code === 'MISSING_CHAR' && /quote/.test(error.message)
  const flow = error.code === 'BAD_INDENT' && error.message.startsWith('Flow')
  if (document === undefined || (!quoted && !flow)) return error.pos[0]
  let opened = error.pos[0]
  visit(document, (_key, node) => {
    const candidate =
      (quoted && isScalar(node) && (node.type === Scalar.QUOTE_DOUBLE || node.type === Scalar.QUOTE_SINGLE)) ||
      (flow && (isMap(node) || isSeq(node)) && node.flow === true)
    // Visiting goes inwards, so the innermost open one comes last.
    const range = candidate ? node.range : undefined
    if (range !== undefined && range !== null && range[0] < error.pos[0] && range[1] >= error.pos[0] - 1)
      opened = range[0]
  })
  return opened
}

/** Own wording: the parser's can repeat parts of the file, perhaps a secret. */
function syntaxMessage(error: YAMLError, text: string): string {
  const start = text.lastIndexOf('\n', error.pos[0] - 1) + 1
  if (error.code === 'TAB_AS_INDENT' || /^[ ]*\t/.test(text.slice(start, error.pos[1]))) return TAB
  // Braces begin a nested mapping inside brackets.
  if (
    /(?:^|[\s,[\]{}])[^\s,[\]{}/]*\/[^\s,[\]{}]*$/.test(text.slice(start, error.pos[0])) &&
    text[error.pos[0]] === '{'
  ) {
    return 'found a path with braces; allowed: ":name" for a segment of a path, such as /v1/items/:id'
  }
  const [, variable] = /[:,[]\s*(\$\{[^}$]*\})/.exec(text.slice(start).split('\n', 1)[0] ?? '') ?? []
  if (variable !== undefined && error.code !== 'MISSING_CHAR')
    return `found ${variable} without quotes inside braces or brackets; allowed: "${variable}"`
  switch (error.code) {
    case 'BAD_INDENT':
      return error.message.startsWith('Flow')
        ? 'found a list or mapping in brackets that is not closed; allowed: every [ with its ] and every { with its }, indented below its key'
        : 'found an indentation that fits nothing above it; allowed: the keys of a mapping, or the dashes of a list, in one column'
    case 'BLOCK_AS_IMPLICIT_KEY':
      return 'found a second "key: value" where a value should be (a wrong indentation, or a colon in an unquoted text); allowed: one value; quote a text with ": " in it'
    case 'MULTILINE_IMPLICIT_KEY':
      return NO_COLON
    case 'BAD_SCALAR_START':
      return 'found a text that begins with a reserved character; allowed: the same text in quotes'
    case 'MISSING_CHAR':
      return /quote/.test(error.message)
        ? 'found a text that begins with a quote and has no closing one; allowed: a quote at both ends'
        : 'found something missing, such as a colon, a comma or a bracket; allowed: "key: value" pairs and "- item" lists'
    case 'BAD_DQ_ESCAPE':
      return 'found an unknown escape after a backslash; allowed: single quotes around a text with backslashes'
    case 'UNEXPECTED_TOKEN':
      return 'found something after the end of a value (a list and a mapping mixed, or text after a closing quote or bracket); allowed: one value'
    default:
      return 'found text that is no valid YAML; allowed: "key: value" pairs and "- item" lists, indented by spaces'
  }
}
