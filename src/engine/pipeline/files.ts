import { createReadStream } from 'node:fs'
import { realpath, stat } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { Readable } from 'node:stream'
import send from '@fastify/send'
import type { Context } from '../message/context.ts'
import type { Reply, StreamBody } from '../message/reply.ts'
import { methodNotAllowed, notFound } from '../operations/errors.ts'

/** Encodings of characters that need none, of slashes and of NUL: other spellings of a path that has its own price. */
const OTHER_SPELLING = /%(?:00|2[46B-F]|3[0-9ABD]|[46][1-9A-F]|[57][0-9A]|40|5[CF]|7E)/i

/** Request headers that choose a part or a version of a file. */
const CONDITIONS = [
  'range',
  'if-range',
  'if-match',
  'if-none-match',
  'if-modified-since',
  'if-unmodified-since',
  'cache-control'
]

/** Longer lists of ranges are ignored, as RFC 9110, 14.2 allows: the library reads them in quadratic time. */
const MAX_RANGE_CHARS = 256

const SERVED = ['GET', 'HEAD', 'OPTIONS']

/**
 * Serves the files of a folder below the star of a route, or one file. No listings, no dot files, no symbolic links.
 * Each file has one spelling, so that no request reaches it through a cheaper route.
 */
export class FileServer {
  readonly #root: string
  readonly #file: string | null

  private constructor(root: string, file: string | null) {
    this.#root = root
    this.#file = file
  }

  /** @throws the system's error when `path` cannot be read */
  static async open(path: string): Promise<FileServer> {
    const real = await realpath(path)
    return (await stat(real)).isDirectory()
      ? new FileServer(real, null)
      : new FileServer(dirname(real), encodeURIComponent(basename(real)))
  }

  /** Throws the 404 or 405 of `handle` before payment is requested. OPTIONS is free. */
  async requireServed(ctx: Context): Promise<Reply | void> {
    if (ctx.method === 'OPTIONS') return await this.handle(ctx)
    await this.#look(ctx)
  }

  async handle(ctx: Context): Promise<Reply> {
    if (ctx.method === 'OPTIONS') return { status: 204, headers: ['Allow', SERVED.join(', ')], body: null }
    const { status, headers, path } = await this.#look(ctx)
    const start = Number(/^bytes (\d+)-/.exec(headers['Content-Range'] ?? '')?.[1] ?? 0)
    const length = Number(headers['Content-Length'])
    return {
      status,
      headers: [
        ...Object.entries(headers).flatMap(([name, value]) => [name, String(value)]),
        'X-Content-Type-Options',
        'nosniff',
        'Cache-Control',
        'private, no-cache'
      ],
      body:
        path === null || length === 0
          ? null
          : streamOf(() => createReadStream(path, { start, end: start + length - 1 }), length)
    }
  }

  /** Status and headers of a file; `path` is null where there is no body. */
  async #look(
    ctx: Context
  ): Promise<{ status: number; headers: Readonly<Record<string, string>>; path: string | null }> {
    if (!SERVED.includes(ctx.method)) throw methodNotAllowed(ctx.method, SERVED)
    const path = this.#file ?? pathBelow(ctx)
    const headers = Object.fromEntries(
      CONDITIONS.flatMap(name => {
        const value = ctx.headers.get(name)
        return value === undefined || (name === 'range' && value.length > MAX_RANGE_CHARS) ? [] : [[name, value]]
      })
    )
    // Opens nothing for HEAD; `handle` reads the file once the client takes the body.
    const request = Object.assign(new Readable(), { method: 'HEAD', headers })
    const found = await send(request, path, {
      root: this.#root,
      dotfiles: 'ignore',
      index: false,
      cacheControl: false
    })
    found.stream.destroy()
    if (found.type === 'file') {
      const { path: file, stat: facts } = found.metadata
      if ((await realpath(file)) !== file || !facts.isFile()) throw notFound()
      return { status: found.statusCode, headers: found.headers, path: found.statusCode === 304 ? null : file }
    }
    if (found.statusCode !== 412 && found.statusCode !== 416) throw notFound()
    const range = found.headers['Content-Range']
    return { status: found.statusCode, headers: range === undefined ? {} : { 'Content-Range': range }, path: null }
  }
}

/** The part of the request's path that the star of its route takes. */
function pathBelow({ path, route }: Context): string {
  const pattern = route.config?.match.path.find(each => each.endsWith('/*') && covers(each, path))
  const below = path
    .split('/')
    .slice((pattern?.split('/').length ?? 1) - 1)
    .join('/')
  const isOdd =
    OTHER_SPELLING.test(below) || below.split('/').some(part => part === '' || part === '.' || part === '..')
  if (pattern === undefined || isOdd || !isDecodable(below)) throw notFound()
  return below
}

function covers(pattern: string, path: string): boolean {
  const parts = path.split('/')
  return pattern
    .slice(0, -2)
    .split('/')
    .every((part, index) => part === parts[index] || part.startsWith(':'))
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch (error) {
    if (error instanceof URIError) return false
    throw error
  }
}

/** `length`: bytes that the head promised. A file that grows or shrinks meanwhile must not break the framing. */
function streamOf(open: () => Readable, length: number): StreamBody {
  return {
    open(sink) {
      const stream = open()
      let left = length
      sink.onDrain = () => stream.resume()
      stream
        .on('data', (piece: Buffer) => {
          left -= piece.length
          if (!sink.write(piece)) stream.pause()
        })
        .on('end', () => {
          if (left === 0) sink.end()
          else sink.fail(new Error('The file was cut short while it was sent.'))
        })
        .on('error', error => {
          sink.fail(error)
        })
      return () => stream.destroy()
    }
  }
}
