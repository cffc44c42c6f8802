import type { TSchema } from 'typebox'
import type { ReferenceKind } from './fields.ts'
import type { Unit } from './units.ts'

export interface Keywords {
  readonly type?: string
  readonly description?: string
  readonly default?: unknown
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly Keywords[]
  readonly properties?: Readonly<Record<string, Keywords>>
  readonly required?: readonly string[]
  readonly minProperties?: number
  readonly maxProperties?: number
  readonly additionalProperties?: boolean | Keywords
  readonly patternProperties?: Readonly<Record<string, Keywords>>
  readonly items?: Keywords | readonly Keywords[]
  readonly minItems?: number
  readonly maxItems?: number
  readonly uniqueItems?: boolean
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string | RegExp
  readonly minimum?: number
  readonly maximum?: number
  readonly exclusiveMinimum?: number
  readonly exclusiveMaximum?: number
  readonly multipleOf?: number
  readonly 'x-unit'?: Unit
  readonly 'x-list'?: Keywords
  /** The name of the setting in earlier releases, which is still read. */
  readonly 'x-former'?: string
  readonly 'x-secret'?: boolean
  readonly 'x-reference'?: ReferenceKind
  readonly 'x-format'?: string
  readonly 'x-allowed'?: string
  readonly 'x-form'?: string
  readonly 'x-name'?: string
}

export function keywordsOf(schema: TSchema): Keywords {
  // A typebox schema is a JSON Schema object; its type has no index signature.
  return schema as Keywords
}

export function choicesOf(schema: Keywords): readonly unknown[] | undefined {
  if (schema.enum !== undefined) return schema.enum
  if (schema.anyOf === undefined || schema.anyOf.length === 0) return undefined
  const constants = schema.anyOf.map(alternative => alternative.const)
  return constants.every(constant => constant !== undefined) ? constants : undefined
}

export function leastItems(schema: Keywords): number {
  return schema.anyOf?.find(form => form.type === 'array')?.minItems ?? 0
}

export function isTuple(items: Keywords | readonly Keywords[]): items is readonly Keywords[] {
  return Array.isArray(items)
}
