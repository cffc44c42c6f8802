import { entrySiblings } from '../checks/chains.ts'
import { isRequired } from './json-schema.ts'
import { describeAllowed } from './allowed.ts'
import { choicesOf, keywordsOf, type Keywords } from './keywords.ts'
import { fileSchema, type PluginFacts } from './schema.ts'
import type { ProviderFacts } from '../sections/lightning.ts'
import { builtInPolicies } from '../sections/policy.ts'
import { formatDuration, formatUnit } from './units.ts'

interface Row {
  readonly key: string
  readonly type: string
  readonly fallback: string
  readonly description: string
}

/**
 * The reference page of `gateway.yaml` as Markdown: every key with its type, default and description, the built-in
 * policies, the entries of chains, and each given plugin with its settings and what it needs and provides.
 */
export function referencePage(plugins: Iterable<PluginFacts>, providers: readonly ProviderFacts[] = []): string {
  const sections = [
    '# Configuration',
    'This page is generated from the schemas; do not edit it.',
    'A text may hold `${NAME}`, which must be set and not empty, or `${NAME:-default}`; `$${` is a plain `${`. An optional key or list item whose variable is empty counts as left out. Unknown keys are errors. Relative paths start from the folder of the file.'
  ]
  const file = keywordsOf(fileSchema(providers))
  const single: Row[] = []
  const shown: Shown = new Map()
  const groups: string[] = []
  for (const [name, property] of Object.entries(file.properties ?? {})) {
    const rows = rowsOf(property, name, isRequired(file, name), shown)
    if (rows.length === 1) single.push(...rows)
    // The heading says what a list or mapping with names is.
    else groups.push(`## ${name}`, property.description ?? '', table(rows.filter(({ key }) => key !== name)))
    if (name === 'policies') groups.push('Built in:', policyTable())
  }
  sections.push(table(single), ...groups)
  sections.push(
    '## Entries of a chain',
    'An entry is the name of a plugin, the path of a plugin file (`./my-plugin.ts`), or either as a key with its settings below it. Beside that key, an entry may have:',
    table(rowsOf(keywordsOf(entrySiblings), '', false))
  )
  sections.push('## Plugins')
  for (const plugin of plugins) sections.push(...pluginSection(plugin))
  return `${sections.filter(section => section !== '').join('\n\n')}\n`
}

function pluginSection(plugin: PluginFacts): string[] {
  const settings = keywordsOf(plugin.config)
  const rows = rowsOf(settings, '', false).filter(row => row.key !== '')
  const traits = [
    ...(plugin.needs ?? []).map(need => `needs the ${need}`),
    ...(plugin.provides ?? []).map(fact => `provides the ${fact}`),
    ...(plugin.terminal === true ? ['comes last in its chain'] : []),
    ...(plugin.before ?? []).map(other => `comes before \`${other}\``),
    ...(plugin.after ?? []).map(other => `comes after \`${other}\``)
  ]
  const sentence = traits.join('; ')
  return [
    `### ${plugin.name}`,
    plugin.description ?? '',
    sentence === '' ? '' : `${sentence[0]?.toUpperCase() ?? ''}${sentence.slice(1)}.`,
    rows.length === 0 ? 'No settings.' : table(rows)
  ]
}

/** The mapping under which the page has shown a name with its description: mappings that share it refer to the first. */
type Shown = Map<string, string>

function rowsOf(schema: Keywords, key: string, required: boolean, shown: Shown = new Map()): Row[] {
  const inner = objectsOf(schema)
  const own = rowOf(schema, key, required)
  const rows: Row[] = []
  // Alternatives may share keys, which are listed once.
  const listed = new Set([key])
  let like: string | undefined
  const alike: string[] = []
  for (const { object, suffix } of inner) {
    const prefix = `${key}${suffix}`
    for (const [name, property] of Object.entries(object.properties ?? {})) {
      const said = `${name}: ${property.description}`
      const first = shown.get(said)
      if (first !== undefined) {
        like = first
        alike.push(`\`${name}\``)
        continue
      }
      shown.set(said, prefix)
      const below = rowsOf(property, prefix === '' ? name : `${prefix}.${name}`, isRequired(object, name), shown)
      rows.push(...below.filter(row => !listed.has(row.key)))
      for (const row of below) listed.add(row.key)
    }
  }
  if (like !== undefined)
    rows.unshift({
      ...own,
      description:
        `${own.description} Has ${alike.length > 3 ? 'the settings' : alike.join(', ')} of \`${like}\`.`.trim()
    })
  else if (!inner.some(({ object }) => object === schema)) rows.unshift(own)
  return rows
}

function objectsOf(schema: Keywords): ReadonlyArray<{ readonly object: Keywords; readonly suffix: string }> {
  if (schema['x-unit'] !== undefined) return []
  const list = schema['x-list']
  if (list?.type === 'object' && list.properties !== undefined) return [{ object: list, suffix: '' }]
  if (list !== undefined)
    return list.anyOf?.some(form => form.properties !== undefined) === true ? withSuffix(list, '[]') : []
  if (schema.type === 'object' && schema.properties !== undefined) return [{ object: schema, suffix: '' }]
  const [record] = Object.values(schema.patternProperties ?? {})
  if (record !== undefined && schema.properties === undefined) return withSuffix(record, '.<name>')
  if (schema.type === 'array' && schema.items !== undefined && !Array.isArray(schema.items))
    return withSuffix(keywordsOf(schema.items), '[]')
  // The type and the description tell a mapping with a single key, such as { json: model }.
  return (schema.anyOf ?? []).filter(form => Object.keys(form.properties ?? {}).length !== 1).flatMap(objectsOf)
}

function withSuffix(schema: Keywords, suffix: string): ReturnType<typeof objectsOf> {
  return objectsOf(schema).map(({ object, suffix: inner }) => ({ object, suffix: `${suffix}${inner}` }))
}

function rowOf(schema: Keywords, key: string, required: boolean): Row {
  return {
    key,
    type: typeOf(schema),
    fallback: required ? '*required*' : defaultOf(schema),
    description: schema.description ?? ''
  }
}

function typeOf(schema: Keywords): string {
  if (schema['x-unit'] !== undefined) return schema['x-unit']
  if (schema['x-secret'] === true) return 'text (secret)'
  const item = schema['x-list']
  if (item !== undefined) return `${typeOf(item)}, or a list of such`
  if (schema['x-form'] === 'chain-entry') return 'entry of a chain'
  const choices = choicesOf(schema)
  if (choices !== undefined) return choices.map(choice => `\`${String(choice)}\``).join(', ')
  if (schema['x-reference'] !== undefined)
    return `name of ${schema['x-reference'] === 'upstream' ? 'an' : 'a'} ${schema['x-reference']}`
  if (schema.type === 'array')
    return schema.items === undefined || Array.isArray(schema.items)
      ? 'list'
      : `list of: ${typeOf(keywordsOf(schema.items))}`
  const [record] = Object.values(schema.patternProperties ?? {})
  if (record !== undefined) return `mapping of name to: ${typeOf(record)}`
  if (schema.type === 'object') return 'mapping'
  return describeAllowed(schema)
}

function defaultOf(schema: Keywords): string {
  const value = schema.default
  if (value === undefined) return ''
  if (typeof value === 'number' && schema['x-unit'] !== undefined) return `\`${formatUnit(schema['x-unit'], value)}\``
  if (value === '') return 'empty'
  return `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``
}

function table(rows: readonly Row[]): string {
  const lines = rows.map(
    row => `| ${[`\`${row.key}\``, row.type, row.fallback, row.description].map(cell).join(' | ')} |`
  )
  return ['| Key | Type | Default | Meaning |', '|---|---|---|---|', ...lines].join('\n')
}

function policyTable(): string {
  const lines = Object.entries(builtInPolicies).map(
    ([name, policy]) =>
      `| \`${name}\` | ${policy.limit} | ${formatDuration(policy.window)}${policy.sliding === undefined ? '' : `, sliding in ${policy.sliding} segments`} | ${policy.by} |`
  )
  return ['| Policy | Limit | Window | By |', '|---|---|---|---|', ...lines].join('\n')
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ')
}
