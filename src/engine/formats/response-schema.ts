import { Type, type StaticDecode, type TArray, type TCodec, type TObject, type TSchema, type TUnknown } from 'typebox'
import { Compile } from 'typebox/compile'
import { isObject } from '../../platform/system/json.ts'

/**
 * Reads responses of other services by a schema, which also maps them: a `Type.Decode` in it is applied to what fits.
 * Members that the schema does not name are ignored. An absent member reads like null, so that `orNull` and `fittingItems`
 * take it. Of objects `properties` count, of arrays `items` and `maxItems`. Nothing of a value is repeated in an error: it may be a secret.
 */

/** A text that is not empty. */
export const Text = Type.String({ minLength: 1 })

/** A number that counts exactly. */
export const SafeInteger = Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER })

/** Null in place of what does not fit, so that only what a caller needs makes a response unusable. */
export function orNull<T extends TSchema>(schema: T): TCodec<TUnknown, StaticDecode<T> | null> {
  return Type.Decode(Type.Unknown(), value => readResponse(schema, value))
}

/** Null for null and for nothing; anything else must fit. */
export function nullable<T extends TSchema>(schema: T): TCodec<TUnknown, StaticDecode<T> | null> {
  return Type.Decode(
    Type.Unknown(),
    // A mismatch leaves `walk` as one.
    value => (value === null || value === undefined ? null : walk(schema, value)) as StaticDecode<T> | null
  )
}

/** An object that may be missing; of its members each by its own schema. */
export function part<P extends Record<string, TSchema>>(
  properties: P
): TCodec<TUnknown, StaticDecode<TObject<P>> | null> {
  return orNull(Type.Object(properties))
}

/** What fits `schema` and `map` makes something of; where it gives null, the value does not fit. */
export function mapped<T extends TSchema, R>(
  schema: T,
  map: (value: StaticDecode<T>) => R | null
): TCodec<T, NonNullable<R>> {
  return Type.Decode(schema, value => map(value) ?? new Mismatch('', wordsOf(schema), 'another')) as TCodec<
    T,
    NonNullable<R>
  > /* a mismatch leaves `walk` as one */
}

/** The items of a list that fit; none in place of what is no list. */
export function fittingItems<T extends TSchema>(schema: T): TCodec<TUnknown, Array<StaticDecode<T>>> {
  return Type.Decode(Type.Unknown(), value =>
    Array.isArray(value) ? fitting(value.map(item => readResponse(schema, item))) : []
  )
}

export function fitting<T>(items: ReadonlyArray<T | null>): T[] {
  return items.filter(item => item !== null)
}

export function readResponse<T extends TSchema>(schema: T, value: unknown): StaticDecode<T> | null {
  const read = walk(schema, value)
  // What walked through a schema has its type.
  return read instanceof Mismatch ? null : (read as StaticDecode<T>)
}

/** The same. `unusable` makes the error from what does not fit, such as `items[2].id: expected string, found null`. */
export function parseResponse<T extends TSchema>(
  schema: T,
  value: unknown,
  unusable: (mismatch: string) => Error
): StaticDecode<T> {
  const read = walk(schema, value)
  if (read instanceof Mismatch)
    throw unusable(`${read.path.replace(/^\./, '') || 'the response'}: expected ${read.expected}, found ${read.found}`)
  // As above.
  return read as StaticDecode<T>
}

/** Returned and not thrown, since lists are full of members that do not fit. */
class Mismatch {
  readonly path: string
  readonly expected: string
  readonly found: string

  constructor(path: string, expected: string, found: string) {
    this.path = path
    this.expected = expected
    this.found = found
  }
}

type Read = (value: unknown) => unknown

/** Each schema is compiled once, when it is first used. */
const readers = new WeakMap<TSchema, Read>()

function walk(schema: TSchema, value: unknown): unknown {
  let read = readers.get(schema)
  if (read === undefined) {
    read = readerOf(schema)
    readers.set(schema, read)
  }
  return read(value)
}

function readerOf(schema: TSchema): Read {
  const read = plainReaderOf(schema)
  if (!Type.IsCodec(schema)) return read
  const { decode } = schema['~codec']
  return value => {
    const plain = read(value)
    return plain instanceof Mismatch ? plain : decode(plain)
  }
}

function plainReaderOf(schema: TSchema): Read {
  if (Type.IsObject(schema)) return objectReader(schema.properties)
  if (Type.IsArray(schema)) return arrayReader(schema)
  if (Type.IsUnknown(schema)) return value => value
  const validator = Compile(schema)
  return value => (validator.Check(value) ? value : new Mismatch('', wordsOf(schema), kindOf(value)))
}

function objectReader(properties: Readonly<Record<string, TSchema>>): Read {
  const reads = Object.entries(properties).map(([name, schema]) => [name, readerOf(schema)] as const)
  return value => {
    if (!isObject(value)) return new Mismatch('', 'object', kindOf(value))
    const members: Record<string, unknown> = {}
    for (const [name, read] of reads) {
      const member = read(Object.hasOwn(value, name) ? value[name] : undefined)
      if (member instanceof Mismatch) return new Mismatch(`.${name}${member.path}`, member.expected, member.found)
      members[name] = member
    }
    return members
  }
}

function arrayReader(schema: TArray): Read {
  // The keyword that an array schema may have; others are not read here.
  const { items, maxItems = Infinity } = schema as TArray & { readonly maxItems?: number }
  const read = readerOf(items)
  return value => {
    if (!Array.isArray(value) || value.length > maxItems) return new Mismatch('', 'array', kindOf(value))
    const list: unknown[] = []
    for (const item of value) {
      const member = read(item)
      if (member instanceof Mismatch)
        return new Mismatch(`[${list.length}]${member.path}`, member.expected, member.found)
      list.push(member)
    }
    return list
  }
}

function wordsOf(schema: TSchema): string {
  const { description, const: only, enum: values, type, pattern } = schema as Readonly<Record<string, unknown>>
  if (description !== undefined) return String(description)
  if (only !== undefined) return JSON.stringify(only)
  if (Array.isArray(values)) return values.map(value => JSON.stringify(value)).join(' or ')
  return `${String(type ?? 'another value')}${pattern === undefined ? '' : ` of the form ${String(pattern)}`}`
}

function kindOf(value: unknown): string {
  if (value === undefined) return 'nothing'
  return value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value
}
