import { Type, type Static, type TSchema, type TUnsafe } from 'typebox'

/** Unknown keys are errors in every object of the file. */
export const strict = { additionalProperties: false } as const

/** The same, with what the reference page says of the object. */
export function described(description: string): { additionalProperties: false; description: string } {
  return { ...strict, description }
}

export type DeepReadonly<T> = T extends readonly (infer Item)[]
  ? readonly DeepReadonly<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> }
    : T

/** Freezes a plain value recursively and returns it, since requests share the configuration. */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  Object.freeze(value)
  for (const inner of Object.values(value)) deepFreeze(inner)
  return value
}

export type ReferenceKind = 'policy' | 'chain' | 'upstream'

/**
 * A text that no error message, log or reference page may show, such as a provider key. Marks the schema with
 * `x-secret`.
 */
export function SecretText(options: Record<string, unknown> = {}): TUnsafe<string> {
  return Type.Unsafe<string>({ type: 'string', 'x-secret': true, ...options })
}

/** One value or a list, always loaded as a list; empty only by default. Marks the schema with `x-list`. */
export function List<const Item extends TSchema>(
  item: Item,
  options: Record<string, unknown> = {}
): TUnsafe<Static<Item>[]> {
  const fallback = options['default']
  const minItems = Array.isArray(fallback) && fallback.length === 0 ? 0 : 1
  return Type.Unsafe<Static<Item>[]>({
    anyOf: [item, { type: 'array', items: item, minItems }],
    'x-list': item,
    ...options
  })
}

export function Reference(kind: ReferenceKind, options: Record<string, unknown> = {}): TUnsafe<string> {
  return Type.Unsafe<string>({
    type: 'string',
    minLength: 1,
    'x-reference': kind,
    'x-allowed': `the name of ${kind === 'upstream' ? 'an upstream' : `a ${kind}`}`,
    ...options
  })
}

export function PolicyName(options: Record<string, unknown> = {}): TUnsafe<string> {
  return Reference('policy', options)
}
