// Prints as JSON the regular expressions of src and plugins whose worst case is not linear, and those that it cannot
// read from the source. Every literal, `RegExp(…)` and `pattern:` of a schema is taken, so a new one is checked too.
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { parse } from 'acorn'

process.env.RECHECK_BACKEND = 'pure'
const { checkSync } = await import('recheck')

/** Without time limits the verdict is the same on every machine. */
const LIMITS = { timeout: null, attackTimeout: null, incubationTimeout: null, seedingTimeout: null }
const CACHE = 'node_modules/.cache/boltgate/expressions.json'

function* nodesOf(node) {
  if (Array.isArray(node)) for (const each of node) yield* nodesOf(each)
  else if (typeof node?.type === 'string') {
    yield node
    for (const value of Object.values(node)) if (typeof value === 'object') yield* nodesOf(value)
  }
}

const constants = new Map()
const files = globSync('{src,plugins}/**/*.{ts,js,mjs}').map(name => {
  const text = readFileSync(name, 'utf8')
  const code = name.endsWith('.ts') ? stripTypeScriptTypes(text) : text
  const tree = parse(code, { ecmaVersion: 'latest', sourceType: 'module', locations: true, allowHashBang: true })
  const own = new Map()
  for (const { type, id, init } of nodesOf(tree))
    if (type === 'VariableDeclarator' && id.type === 'Identifier' && init) own.set(id.name, init)
  for (const [key, init] of own) if (!constants.has(key)) constants.set(key, { init, own })
  return { name, code, tree, own }
})

/** All pairs of a text of one list with a text of the other. */
function joined(one, other) {
  return one.flatMap(first => other.map(second => first + second))
}

/** The texts that an expression may come to; none where it is unknown. */
function textsOf(node, own) {
  switch (node?.type) {
    case 'Literal':
      return node.regex ? [node.regex.pattern] : typeof node.value === 'string' ? [node.value] : []
    case 'TemplateLiteral':
      return node.quasis.reduce(
        (texts, { value }, at) =>
          joined(at === 0 ? [''] : joined(texts, textsOf(node.expressions[at - 1], own)), [value.cooked]),
        []
      )
    case 'BinaryExpression':
      return joined(textsOf(node.left, own), textsOf(node.right, own))
    case 'ConditionalExpression':
      return [...textsOf(node.consequent, own), ...textsOf(node.alternate, own)]
    case 'MemberExpression':
      return node.property.name === 'source' ? textsOf(node.object, own) : []
    case 'Identifier': {
      const init = own.get(node.name)
      if (init) return textsOf(init, own)
      const elsewhere = constants.get(node.name)
      return elsewhere ? textsOf(elsewhere.init, elsewhere.own) : []
    }
    default:
      return []
  }
}

const found = new Map()
const unreadable = []
for (const { name, code, tree, own } of files) {
  const add = (node, texts, flags) => {
    if (texts.length === 0) unreadable.push(`${name}: ${code.slice(node.start, node.end)}`)
    for (const text of texts) {
      const key = `/${text}/${flags}`
      if (!found.has(key)) found.set(key, { text, flags, place: `${name}:${node.loc.start.line}` })
    }
  }
  for (const node of nodesOf(tree)) {
    const { type, callee, arguments: given, key, value } = node
    if (type === 'Literal' && node.regex) add(node, [node.regex.pattern], node.regex.flags)
    else if ((type === 'NewExpression' || type === 'CallExpression') && callee.name === 'RegExp')
      add(node, textsOf(given[0], own), textsOf(given[1], own)[0] ?? '')
    else if (type === 'Property' && key.name === 'pattern' && value.type !== 'NewExpression' && value.value !== null)
      add(node, textsOf(value, own), 'u')
    else if (type === 'Property' && key.name === 'patternProperties' && value.type === 'ObjectExpression')
      for (const property of value.properties) add(property, textsOf(property.key, own), 'u')
  }
}

function verdictOf({ text, flags }) {
  const { status, attack } = checkSync(text, flags.replace(/[dv]/g, ''), LIMITS)
  return status === 'safe' ? 'linear' : `${status}, such as ${attack?.pattern ?? 'unknown'}`
}

function readCache() {
  try {
    return JSON.parse(readFileSync(CACHE, 'utf8'))
  } catch {
    return {}
  }
}

const known = readCache()
const verdicts = Object.fromEntries([...found].map(([key, each]) => [key, known[key] ?? verdictOf(each)]))
mkdirSync('node_modules/.cache/boltgate', { recursive: true })
writeFileSync(CACHE, JSON.stringify(verdicts))
const slow = [...found]
  .filter(([key]) => verdicts[key] !== 'linear')
  .map(([key, { place }]) => ({ place, expression: key, verdict: verdicts[key] }))
process.stdout.write(JSON.stringify({ checked: found.size, slow, unreadable }))
