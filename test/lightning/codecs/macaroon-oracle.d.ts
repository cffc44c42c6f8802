/** The little of npm `macaroon` that the tests use: reading and verifying, never its export. */
declare module 'macaroon' {
  interface Imported {
    readonly identifier: Uint8Array
    readonly location: string
    verify(rootKey: Uint8Array, check: (caveat: string) => string | null): void
  }
  const oracle: { importMacaroon(bytes: Uint8Array): Imported }
  export default oracle
}
