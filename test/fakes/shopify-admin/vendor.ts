/**
 * Prints the part of Shopify's Admin schema that our operations touch, as SDL:
 *
 *     npx -y @shopify/dev-mcp  # has it as dist/data/admin_VERSION.json.gz
 *     node test/fakes/shopify-admin/vendor.ts INTROSPECTION.json > test/fakes/shopify-admin/VERSION.graphql
 */
import { readFileSync } from 'node:fs'
import {
  buildClientSchema,
  getNamedType,
  isAbstractType,
  isInputObjectType,
  isScalarType,
  Kind,
  parse,
  print,
  printSchema,
  TypeInfo,
  visit,
  visitWithTypeInfo,
  type IntrospectionQuery,
  type TypeNode
} from 'graphql'
import { OPERATIONS } from '../../../src/shop/shopify/operations.ts'

const { data } = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')) as {
  readonly data: IntrospectionQuery
} /* as Shopify publishes it */
const schema = buildClientSchema(data, { assumeValid: true })
const kept = new Set<string>()
const names = new Set<string>()
for (const { text } of OPERATIONS) {
  const info = new TypeInfo(schema)
  visit(
    parse(text),
    visitWithTypeInfo(info, {
      enter(node) {
        if (node.kind === Kind.NAME) names.add(node.value)
        for (const type of [info.getType(), info.getParentType(), info.getInputType()])
          if (type) kept.add(getNamedType(type).name)
        if (node.kind === Kind.NAMED_TYPE) kept.add(node.name.value)
      }
    })
  )
}
// A set gives what is added while it is read, too. `Node` is all that has an id.
for (const name of kept) {
  const type = schema.getType(name)
  if (isInputObjectType(type))
    for (const { type: member } of Object.values(type.getFields())) kept.add(getNamedType(member).name)
  else if (isAbstractType(type) && name !== 'Node')
    for (const { name: possible } of schema.getPossibleTypes(type)) kept.add(possible)
}

const ROOTS = new Set(['QueryRoot', 'Mutation'])
const DESCRIBED = new Set(['WebhookSubscriptionTopic'])
const nameOf = (type: TypeNode): string => (type.kind === Kind.NAMED_TYPE ? type.name.value : nameOf(type.type))
const isKept = ({ type }: { readonly type: TypeNode }): boolean =>
  kept.has(nameOf(type)) || isScalarType(schema.getType(nameOf(type)))
const isRequired = ({ type }: { readonly type: TypeNode }): boolean => type.kind === Kind.NON_NULL_TYPE
let within = ''
const part = visit(parse(printSchema(schema)), {
  enter(node) {
    if (node.kind === Kind.DIRECTIVE_DEFINITION) return null
    if ('name' in node && node.name !== undefined && node.kind.endsWith('TypeDefinition')) {
      within = node.name.value
      if (node.kind !== Kind.SCALAR_TYPE_DEFINITION && !kept.has(within)) return null
    }
    const isOfRoot = node.kind === Kind.FIELD_DEFINITION && ROOTS.has(within)
    if (isOfRoot && !names.has(node.name.value)) return null
    if (node.kind === Kind.FIELD_DEFINITION && node.arguments?.some(each => isRequired(each) && !isKept(each)))
      return null
    if ((node.kind === Kind.FIELD_DEFINITION || node.kind === Kind.INPUT_VALUE_DEFINITION) && !isKept(node)) return null
    if (node.kind === Kind.NAMED_TYPE && !isKept({ type: node })) return null
    return undefined
  },
  leave(node) {
    return 'description' in node && !DESCRIBED.has(within) ? { ...node, description: undefined } : undefined
  }
})
const text = print(part)
process.stdout.write(
  `# Part of the Admin API's schema from @shopify/dev-mcp. ISC License, Copyright 2025-present, Shopify Inc.\n${text.replaceAll(/^scalar (\w+).*\n*/gm, (line, name: string) => (new RegExp(`[:[] ?${name}\\b`).test(text) ? line : '')).trim()}\n`
)
