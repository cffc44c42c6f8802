/** Pattern of a line: the database holds no NUL, and other control characters have no business in it. */
export const LINE = '^[^\\u0000-\\u001f\\u007f]*$'
/** Pattern of a text, which may have several lines. */
export const TEXT = '^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f]*$'
