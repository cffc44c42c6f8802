import type { Usage, UsageReader } from './usage.ts'

export class ByteCount implements UsageReader {
  readonly seen = 0
  #bytes = 0

  chunk(bytes: Uint8Array): void {
    this.#bytes += bytes.byteLength
  }

  read(): Usage {
    return { input: 0, output: this.#bytes }
  }
}
