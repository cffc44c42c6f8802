import { METHODS } from 'node:http'
import findMyWay from 'find-my-way'
import type { HTTPMethod } from 'find-my-way'
import { comparablePath } from '../message/path.ts'

/** Longest route parameter; an order id of 100 characters may be percent-encoded to 1,200. */
const MAX_PARAM_LENGTH = 4096

export interface Match<T> {
  readonly value: T
  readonly params: Readonly<Record<string, string>>
}

export interface Mount {
  /**
   * Host name without a port; `*.example.com` takes every name below. Null takes hosts without a route for the path.
   */
  readonly host: string | null
  /** Empty takes all. GET includes HEAD (decision 6). */
  readonly methods: readonly string[]
  readonly path: string
}

interface Entry<T> {
  readonly value: T
}

type Tree<T> = ReturnType<typeof findMyWay> & { readonly type?: T }

function badPath(): void {}
function hit(): void {}

/**
 * Finds the value for host, method and path: first for the host, then for any host. Compares the path with
 * percent-encoded unreserved characters decoded: `/%61` and `/a`, the same to an upstream, have the same price. The raw
 * bytes go upstream unchanged.
 */
export class Router<T> {
  readonly #any: Tree<T>
  readonly #hosts = new Map<string, Tree<T>>()
  readonly #suffixes: Array<{ readonly suffix: string; readonly tree: Tree<T> }> = []
  readonly #mounts = new Map<string, string>()
  #mounted = 0

  constructor() {
    this.#any = newTree()
  }

  /** Throws when the same host, method and path were added before. */
  add(mount: Mount, value: T): void {
    const tree = mount.host === null ? this.#any : this.#treeOf(mount.host.toLowerCase())
    const entry: Entry<T> = { value }
    const number = ++this.#mounted
    for (const method of methodsOf(mount.methods)) {
      tree.on(method, mount.path, hit, entry)
      this.#mounts.set(method, `${this.#mounts.get(method) ?? ''} ${number}`)
    }
  }

  /** `host` may include a port; `path` is raw, without the query. */
  find(host: string, method: string, path: string): Match<T> | null {
    if (this.#hosts.size > 0 || this.#suffixes.length > 0) {
      const name = hostName(host)
      const own = this.#hosts.get(name)
      const found = own === undefined ? null : lookUp<T>(own, method, path)
      if (found !== null) return found
      for (const { suffix, tree } of this.#suffixes) {
        if (!name.endsWith(suffix)) continue
        const below = lookUp<T>(tree, method, path)
        if (below !== null) return below
      }
    }
    return lookUp<T>(this.#any, method, path)
  }

  /** The values at host and path by method, for 405 and OPTIONS. */
  methodsAt(host: string, path: string): ReadonlyMap<string, T> {
    const found = new Map<string, T>()
    // Methods with the same mounts share one lookup: a few walks instead of thirty.
    const looked = new Map<string, Match<T> | null>()
    for (const [method, mounts] of this.#mounts) {
      let match = looked.get(mounts)
      if (match === undefined) looked.set(mounts, (match = this.find(host, method, path)))
      if (match !== null) found.set(method, match.value)
    }
    return found
  }

  #treeOf(host: string): Tree<T> {
    if (host.startsWith('*.')) {
      const suffix = host.slice(1)
      const known = this.#suffixes.find(entry => entry.suffix === suffix)
      if (known !== undefined) return known.tree
      const tree = newTree<T>()
      this.#suffixes.push({ suffix, tree })
      this.#suffixes.sort((a, b) => b.suffix.length - a.suffix.length)
      return tree
    }
    let tree = this.#hosts.get(host)
    if (tree === undefined) this.#hosts.set(host, (tree = newTree()))
    return tree
  }
}

function newTree<T>(): Tree<T> {
  return findMyWay({
    caseSensitive: true,
    ignoreTrailingSlash: false,
    maxParamLength: MAX_PARAM_LENGTH,
    onBadUrl: badPath
  })
}

const ANY_METHOD: readonly string[] = METHODS.filter(name => name !== 'CONNECT' && name !== 'TRACE')

function methodsOf(methods: readonly string[]): HTTPMethod[] {
  const wanted = methods.length === 0 ? [...ANY_METHOD] : [...methods]
  if (wanted.includes('GET') && !wanted.includes('HEAD')) wanted.push('HEAD')
  // find-my-way throws on methods outside node:http's METHODS.
  return wanted.filter(name => METHODS.includes(name)) as HTTPMethod[]
}

function lookUp<T>(tree: Tree<T>, method: string, path: string): Match<T> | null {
  // Only a preflight can name a method unknown to node:http; find returns null for those without a route.
  let found = tree.find(method as HTTPMethod, path)
  // A path whose percent-encoding is not UTF-8 is legal and opaque. Compare it as written except for what every
  // upstream decodes: a broken octet at its end would otherwise hide `/%70aid` from the route of `/paid`.
  if (found !== null && !isEntry(found.store))
    found = tree.find(method as HTTPMethod, comparablePath(path).replaceAll('%', '%25'))
  if (found === null || !isEntry(found.store)) return null
  const entry = found.store as Entry<T>
  return { value: entry.value, params: found.params as Record<string, string> }
}

function isEntry(store: unknown): boolean {
  return store !== null && store !== undefined
}

/**
 * Drops the port and the trailing dot of a fully qualified name, which is the same host (RFC 9110, section 4.2.3; RFC
 * 3986, 3.2.2).
 */
export function hostName(host: string): string {
  const end = host.lastIndexOf(':')
  const name = end > host.lastIndexOf(']') ? host.slice(0, end) : host
  return (name.endsWith('.') ? name.slice(0, -1) : name).toLowerCase()
}
