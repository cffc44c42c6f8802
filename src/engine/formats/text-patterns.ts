import { Type } from 'typebox'

/** Pattern of one line without control characters; PostgreSQL cannot store NUL. */
export const LINE = '^[^\\u0000-\\u001f\\u007f]*$'
export const TEXT = '^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f]*$'

/** A text or null. */
export const nullableText = (description?: string): ReturnType<typeof Type.Unsafe<string | null>> =>
  Type.Unsafe<string | null>({ type: ['string', 'null'], ...(description === undefined ? {} : { description }) })
