import { METHODS } from 'node:http'
import findMyWay from 'find-my-way'
import type { Config, HTTPMethod, HTTPVersion } from 'find-my-way'
import { comparablePath } from '../message/path.ts'
import type { ValueConfig } from '../sections/when.ts'
import { valueTests, type RequestValues } from './entry.ts'

/** Longest route parameter; an order id of 100 characters may be percent-encoded to 1,200. */
const MAX_PARAM_LENGTH = 4096

export interface Match<T> {
  readonly value: T
  readonly params: Readonly<Record<string, string>>
}

export interface Mount extends ValueConfig {
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

/** What a route compares besides host, method and path. */
class Narrowing {
  readonly conditions: number
  /** Functions, by which find-my-way, which compares members, knows two routes for different ones. */
  readonly tests: ReturnType<typeof valueTests>

  constructor(config: ValueConfig) {
    this.tests = valueTests(config)
    this.conditions = this.tests.length
  }

  holds(request: RequestValues): boolean {
    return this.tests.every(test => test(request))
  }
}

/** find-my-way's store of the routes at one path that compare values: the first that holds, most conditions first. */
function narrowed(): object {
  const known: Array<readonly [Narrowing, mask: number]> = []
  return {
    // While the tree is built it asks for what it is about to set, of which each is new.
    get: (request: RequestValues | Narrowing) =>
      request instanceof Narrowing ? 0 : known.find(([narrowing]) => narrowing.holds(request))?.[1],
    set(narrowing: Narrowing, mask: number): void {
      known.push([narrowing, mask])
      known.sort(([a], [b]) => b.conditions - a.conditions)
    }
  }
}

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
  /** Whether any route compares values; find-my-way takes a shorter way otherwise. */
  #isNarrowed = false

  constructor() {
    this.#any = newTree()
  }

  /** Throws when the same host, method and path were added before, unless one of both compares values. */
  add(mount: Mount, value: T): void {
    const tree = mount.host === null ? this.#any : this.#treeOf(mount.host.toLowerCase())
    const entry: Entry<T> = { value }
    const number = ++this.#mounted
    const narrowing = new Narrowing(mount)
    const constraints = narrowing.conditions === 0 ? {} : { values: narrowing }
    this.#isNarrowed ||= narrowing.conditions > 0
    for (const method of methodsOf(mount.methods)) {
      tree.on(method, mount.path, { constraints }, hit, entry)
      this.#mounts.set(method, `${this.#mounts.get(method) ?? ''} ${number}`)
    }
  }

  /** Whether routes at one path may differ by what `find` is given as `request`. */
  get isNarrowed(): boolean {
    return this.#isNarrowed
  }

  /**
   * `host` may include a port; `path` is raw, without the query. Without `request` only routes that compare no values.
   * @throws LongError 400 if an upstream could read a compared value otherwise
   */
  find(host: string, method: string, path: string, request?: RequestValues): Match<T> | null {
    const values = this.#isNarrowed ? request : undefined
    if (this.#hosts.size > 0 || this.#suffixes.length > 0) {
      const name = hostName(host)
      const own = this.#hosts.get(name)
      const found = own === undefined ? null : lookUp<T>(own, method, path, values)
      if (found !== null) return found
      for (const { suffix, tree } of this.#suffixes) {
        if (!name.endsWith(suffix)) continue
        const below = lookUp<T>(tree, method, path, values)
        if (below !== null) return below
      }
    }
    return lookUp<T>(this.#any, method, path, values)
  }

  /** The values at host and path by method, for 405 and OPTIONS. */
  methodsAt(host: string, path: string, request?: RequestValues): ReadonlyMap<string, T> {
    const found = new Map<string, T>()
    // Methods with the same mounts share one lookup: a few walks instead of thirty.
    const looked = new Map<string, Match<T> | null>()
    for (const [method, mounts] of this.#mounts) {
      let match = looked.get(mounts)
      if (match === undefined) looked.set(mounts, (match = this.find(host, method, path, request)))
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

// The types say that a store has handlers by text; find-my-way puts bit masks into it, by what `on` and `find` are given.
// `deriveConstraint` is for `lookup`, which is not used.
const byValues = { name: 'values', storage: narrowed, deriveConstraint: () => null } as unknown as NonNullable<
  Config<HTTPVersion.V1>['constraints']
>[string]

function newTree<T>(): Tree<T> {
  return findMyWay({
    caseSensitive: true,
    ignoreTrailingSlash: false,
    maxParamLength: MAX_PARAM_LENGTH,
    onBadUrl: badPath,
    constraints: { values: byValues }
  })
}

const ANY_METHOD: readonly string[] = METHODS.filter(name => name !== 'CONNECT' && name !== 'TRACE')

function methodsOf(methods: readonly string[]): HTTPMethod[] {
  const wanted = methods.length === 0 ? [...ANY_METHOD] : [...methods]
  if (wanted.includes('GET') && !wanted.includes('HEAD')) wanted.push('HEAD')
  // find-my-way throws on methods outside node:http's METHODS.
  return wanted.filter(name => METHODS.includes(name)) as HTTPMethod[]
}

function lookUp<T>(tree: Tree<T>, method: string, path: string, request: RequestValues | undefined): Match<T> | null {
  const values = request === undefined ? undefined : { values: request }
  // Only a preflight can name a method unknown to node:http; find returns null for those without a route.
  let found = tree.find(method as HTTPMethod, path, values)
  // A path whose percent-encoding is not UTF-8 is legal and opaque. Compare it as written except for what every
  // upstream decodes: a broken octet at its end would otherwise hide `/%70aid` from the route of `/paid`.
  if (found !== null && !isEntry(found.store))
    found = tree.find(method as HTTPMethod, comparablePath(path).replaceAll('%', '%25'), values)
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
