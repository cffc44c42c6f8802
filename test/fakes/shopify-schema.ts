import { readFileSync } from 'node:fs'
import {
  buildSchema,
  getNamedType,
  isCompositeType,
  isObjectType,
  isInterfaceType,
  Kind,
  type DocumentNode,
  type FieldNode,
  type GraphQLNamedType,
  type GraphQLSchema,
  type SelectionSetNode
} from 'graphql'

/** Versions of the Admin API whose published schema is at hand. */
export type AdminVersion = '2026-04' | '2026-10'

const schemas = new Map<AdminVersion, GraphQLSchema>()

/** The part of Shopify's published schema that our operations touch (shopify-admin/vendor.ts). */
export function adminSchema(version: AdminVersion): GraphQLSchema {
  const known = schemas.get(version)
  if (known !== undefined) return known
  const schema = buildSchema(readFileSync(new URL(`shopify-admin/${version}.graphql`, import.meta.url), 'utf8'))
  schemas.set(version, schema)
  return schema
}

/** Most points that one query may ask for. */
export const MOST_POINTS = 1000
const MUTATION_POINTS = 10

/**
 * Points that an operation asks for: one for an object, nothing for a scalar, two and its nodes for a connection, ten
 * for a mutation. The real formula is kinder to connections.
 */
export function pointsOf(
  schema: GraphQLSchema,
  document: DocumentNode,
  variables: Readonly<Record<string, unknown>>
): number {
  let points = 0
  for (const definition of document.definitions) {
    if (definition.kind !== Kind.OPERATION_DEFINITION) continue
    const root = schema.getRootType(definition.operation) ?? null
    if (root === null) continue
    const own = definition.selectionSet.selections.filter(selection => selection.kind === Kind.FIELD).length
    points += definition.operation === 'mutation' ? own * MUTATION_POINTS : 0
    points += selectionPoints(schema, root, definition.selectionSet, variables)
  }
  return points
}

function selectionPoints(
  schema: GraphQLSchema,
  parent: GraphQLNamedType,
  set: SelectionSetNode,
  variables: Readonly<Record<string, unknown>>
): number {
  let points = 0
  for (const selection of set.selections) {
    if (selection.kind === Kind.INLINE_FRAGMENT) {
      const type =
        selection.typeCondition === undefined ? parent : (schema.getType(selection.typeCondition.name.value) ?? parent)
      points += selectionPoints(schema, type, selection.selectionSet, variables)
    } else if (selection.kind === Kind.FIELD) {
      points += fieldPoints(schema, parent, selection, variables)
    }
  }
  return points
}

function fieldPoints(
  schema: GraphQLSchema,
  parent: GraphQLNamedType,
  field: FieldNode,
  variables: Readonly<Record<string, unknown>>
): number {
  if (!(isObjectType(parent) || isInterfaceType(parent)) || field.selectionSet === undefined) return 0
  const definition = parent.getFields()[field.name.value]
  if (definition === undefined) return 0
  const type = getNamedType(definition.type)
  if (!isCompositeType(type)) return 0
  const inner = selectionPoints(schema, type, field.selectionSet, variables)
  const many = timesOf(field, variables)
  if (type.name.endsWith('Connection')) return 2 + many * inner
  // `nodes` of a connection and the pages of it are counted by the connection; each node is an object of its own.
  if (field.name.value === 'pageInfo') return 0
  return field.name.value === 'nodes' && parent.name.endsWith('Connection') ? 1 + inner : many * (1 + inner)
}

function timesOf(field: FieldNode, variables: Readonly<Record<string, unknown>>): number {
  for (const argument of field.arguments ?? []) {
    const name = argument.name.value
    if (name !== 'first' && name !== 'ids') continue
    const value =
      argument.value.kind === Kind.VARIABLE
        ? variables[argument.value.name.value]
        : argument.value.kind === Kind.INT
          ? Number(argument.value.value)
          : 1
    return Array.isArray(value) ? value.length : typeof value === 'number' ? value : 1
  }
  return 1
}
