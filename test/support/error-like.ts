/** What `t.throws` and `t.rejects` compare an error with, with the members that our own errors add to Error's. */
export function errorLike(members: Readonly<Record<string, unknown>>): Error {
  // tap compares only what is there, but asks for the whole type.
  return members as unknown as Error
}
