import { createRequire, Module } from 'node:module'
import { dirname, join } from 'node:path'

/**
 * A class of ioredis that extends `String`. Once any class does, V8 (Node 24) no longer inlines `charCodeAt` in this
 * process: reading JSON takes five times as long. Only RESP3 verbatim strings are instances, which Redis sends for no
 * command of ours.
 */
class VerbatimString {
  readonly format: string
  readonly #value: string

  constructor(format: string, value: string) {
    this.format = format
    this.#value = value
  }

  toString(): string {
    return this.#value
  }
}

const { resolve, cache } = createRequire(import.meta.url)
const file = join(dirname(resolve('ioredis')), 'resp/verbatim-string.js')
const replacement = new Module(file)
replacement.filename = file
replacement.loaded = true
replacement.exports = { VerbatimString }
cache[file] = replacement
