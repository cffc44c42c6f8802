import '@tapjs/asserts'

/** Members of an error, of ours or anyone's: tap compares those that are given, and its own type asks for some of them. */
type Members = Readonly<Record<string, unknown>>

declare module '@tapjs/asserts' {
  interface Assertions {
    throws(run: () => unknown, wanted: Members, message?: string): boolean | Error
    rejects(
      promise: Promise<unknown> | (() => Promise<unknown>),
      wanted: Members,
      message?: string
    ): Promise<boolean | Error>
  }
}
