/**
 * Bytes that were allocated between the first and the last collection of a program's output under --trace-gc, or null
 * where there were not two: what the heap has grown by from the end of each to the beginning of the next. V8 prints
 * megabytes with one place.
 */
export function allocatedBetweenCollections(output: string): number | null {
  let after: number | null = null
  let allocated: number | null = null
  // Such as: [4242:0x…:0] 812 ms: Scavenge 24.1 (38.2) -> 12.0 (38.5) MB, …
  for (const [, before = '', left = ''] of output.matchAll(
    /^\[\d+:[^\]]*\]\s+\d+ ms: [^\n]*?([\d.]+) \([\d.]+\) -> ([\d.]+) \([\d.]+\) MB/gm
  )) {
    if (after !== null) allocated = (allocated ?? 0) + (Number(before) - after) * 2 ** 20
    after = Number(left)
  }
  return allocated
}
