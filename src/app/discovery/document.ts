import { gzipSync } from 'node:zlib'
import type { Context } from '../../engine/message/context.ts'
import type { Result } from '../../engine/operations/operation.ts'

/**
 * A text that is made when it is first asked for, and again when what it is made of has changed: when `version` answers
 * another value than the last time. It is sent compressed to clients that take gzip.
 */
export class PublishedDocument {
  readonly #version: () => unknown
  readonly #make: () => string
  #made: { readonly version: unknown; readonly plain: string; gzip: Uint8Array | null } | null = null

  constructor(version: () => unknown, make: () => string) {
    this.#version = version
    this.#make = make
  }

  /** The reply to a request for it. */
  reply(ctx: Context): Result {
    const version = this.#version()
    let made = this.#made
    if (made === null || made.version !== version) made = this.#made = { version, plain: this.#make(), gzip: null }
    const headers = ['Cache-Control', 'public, max-age=60', 'Vary', 'Accept-Encoding']
    if (!takesGzip(ctx.headers.get('accept-encoding'))) return { status: 200, body: made.plain, headers }
    return {
      status: 200,
      body: (made.gzip ??= gzipSync(made.plain)),
      headers: [...headers, 'Content-Encoding', 'gzip']
    }
  }
}

/** Whether `Accept-Encoding` takes gzip (RFC 9110, 12.5.3); a name with `q=0` refuses it, and goes before `*`. */
export function takesGzip(accepted: string | undefined): boolean {
  let any = false
  for (const part of (accepted ?? '').toLowerCase().split(',')) {
    const [coding = '', ...parameters] = part.split(';').map(text => text.trim())
    const refused = parameters.some(text => /^q=0(?:\.0*)?$/.test(text))
    if (coding === 'gzip' || coding === 'x-gzip') return !refused
    if (coding === '*') any = !refused
  }
  return any
}
