import { isFailure, RunningTotals, type UsageForm } from './forms.ts'
import { JsonScan } from './json-scan.ts'
import type { Usage, UsageReader } from './usage.ts'

export class JsonUsage implements UsageReader {
  readonly seen = 0
  readonly #scan: JsonScan
  readonly #totals: RunningTotals
  #hasFailed = false

  constructor(form: UsageForm) {
    this.#totals = new RunningTotals(form)
    this.#scan = new JsonScan(form.wanted, () => {
      this.#totals.take(this.#scan.values)
      if (isFailure(this.#scan.values)) this.#hasFailed = true
    })
  }

  chunk(bytes: Uint8Array): void {
    this.#scan.feed(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), 0, bytes.byteLength)
  }

  read(isWhole: boolean): Usage | null {
    if (!isWhole || !this.#scan.isComplete) return null
    const { input, output, ...rest } = this.#totals.usage
    if (this.#hasFailed && (output ?? 0) === 0) return { input: 0, output: 0 }
    return input === undefined || output === undefined ? null : { input, output, ...rest }
  }
}

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
