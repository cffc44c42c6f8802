// `node .ci/messages.mjs`: messages of the pages that a catalog lacks, and entries that no page has any more.
import { globSync, readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { parse } from 'acorn'
import { rewritten } from '../src/web/kit/document.ts'

/** Where the kit of the consoles prints texts of its caller: places of arguments, and members of objects. */
const PRINTED = {
  action: [0],
  badge: [0],
  copyable: [1],
  danger: [0, 1],
  field: [1],
  figure: [0],
  'fieldsOf()': [1],
  guide: [0],
  table: [0],
  ticks: [1, 4],
  searchForm: [0],
  filterChoice: [1],
  input: [1],
  invalid: [1],
  searchField: [0],
  expectUnchanged: [],
  ApiRefusal: [1]
}
const MEMBERS = new Set(['title', 'label', 'hint', 'what'])
/** Texts of the API that the consoles translate: titles of jobs, and what providers' keys look like and may do. */
const SHOWN = { periodic: [2], queue: [1] }
const SHOWN_MEMBERS = new Set(['keyHint', 'purpose'])

function* nodesOf(node) {
  if (Array.isArray(node)) for (const each of node) yield* nodesOf(each)
  else if (typeof node?.type === 'string') {
    yield node
    for (const value of Object.values(node)) if (typeof value === 'object') yield* nodesOf(value)
  }
}

const textOf = ({ quasis }) =>
  quasis.map(({ value }) => value.cooked).reduce((text, part, at) => `${text}{${at - 1}}${part}`)

/** Texts that an expression may be. */
function textsOf(node) {
  switch (node?.type) {
    case 'Literal':
      return typeof node.value === 'string' ? [node.value] : []
    case 'TemplateLiteral':
      return node.quasis.length === 1 ? [node.quasis[0].value.cooked] : []
    case 'ConditionalExpression':
      return [...textsOf(node.consequent), ...textsOf(node.alternate)]
    case 'LogicalExpression':
      return [...textsOf(node.left), ...textsOf(node.right)]
    case 'ObjectExpression':
      return node.properties.flatMap(({ key, value }) => (key?.name === 'title' ? textsOf(value) : []))
    default:
      return []
  }
}

/** Every message with the files that have it. */
export function messages(root = new URL('..', import.meta.url)) {
  const found = new Map()
  const files = globSync(['src/**/*.ts', 'src/web/kit/assets/*.js'], { cwd: root })
  for (const file of files.sort()) {
    const text = readFileSync(new URL(file, root), 'utf8')
    if (!/\bhtml`|\bt[`(]|\b(?:periodic|queue)[<(]|\bkeyHint: /.test(text)) continue
    const add = message => {
      if (/\p{L}/u.test(message.replaceAll(/\{\d+\}/g, ''))) found.set(message, [...(found.get(message) ?? []), file])
      return message
    }
    const isConsole = file.startsWith('src/web/console/')
    for (const node of nodesOf(
      parse(file.endsWith('.ts') ? stripTypeScriptTypes(text) : text, { ecmaVersion: 'latest', sourceType: 'module' })
    )) {
      if (node.type === 'TaggedTemplateExpression' && node.tag.name === 'html') rewritten(textOf(node.quasi), add)
      else if (node.type === 'TaggedTemplateExpression' && node.tag.name === 't') add(textOf(node.quasi))
      else if (node.type === 'CallExpression' && node.callee.name === 't') node.arguments.flatMap(textsOf).forEach(add)
      else if (node.type === 'CallExpression' && Object.hasOwn(SHOWN, node.callee.name ?? ''))
        for (const at of SHOWN[node.callee.name]) textsOf(node.arguments[at]).forEach(add)
      else if (node.type === 'Property' && SHOWN_MEMBERS.has(node.key.name))
        textsOf(node.value)
          .filter(value => /^[A-Z]/.test(value))
          .forEach(add)
      else if (isConsole && (node.type === 'CallExpression' || node.type === 'NewExpression'))
        for (const at of PRINTED[node.callee.name ?? `${node.callee.callee?.name}()`] ?? [])
          textsOf(node.arguments[at]).forEach(add)
      // Columns of a table.
      else if (isConsole && node.type === 'ArrayExpression' && /Function|Identifier/.test(node.elements[1]?.type))
        textsOf(node.elements[0]).forEach(add)
      else if (isConsole && node.type === 'Property' && MEMBERS.has(node.key.name)) textsOf(node.value).forEach(add)
    }
  }
  return found
}

export function catalog(language, root = new URL('..', import.meta.url)) {
  return JSON.parse(readFileSync(new URL(`src/engine/formats/languages/${language}.json`, root), 'utf8'))
}

if (import.meta.main) {
  const all = messages()
  for (const language of ['de', 'es']) {
    const known = catalog(language)
    for (const [message, files] of all)
      if (!Object.hasOwn(known, message)) console.log(`${language} lacks ${JSON.stringify(message)} of ${files[0]}`)
    for (const message of Object.keys(known))
      if (!all.has(message)) console.log(`${language} has a stale ${JSON.stringify(message)}`)
  }
}
