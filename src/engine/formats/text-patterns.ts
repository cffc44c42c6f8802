/** Pattern of one line without control characters; PostgreSQL cannot store NUL. */
export const LINE = '^[^\\u0000-\\u001f\\u007f]*$'
export const TEXT = '^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f]*$'
