import type { Problem } from '../config/diagnose.ts'
import { alwaysHolds } from '../config/sale.ts'
import type { WhenConfig } from '../config/schema.ts'
import type { InternalUpstream } from './internal.ts'
import type { AnyOperation } from './operation.ts'
import type { Router } from './router.ts'
import type { CompiledRoute } from './snapshot.ts'

/** A kind of principal that an entry of a chain sees to, and the condition under which it does. */
export interface Establishes {
  readonly kind: string
  readonly when: WhenConfig | undefined
}

/** A route that has been built, with what its chain promises to what stands behind it. */
export interface BuiltRoute {
  readonly compiled: CompiledRoute
  readonly callers: readonly Establishes[]
  /** Every request of it is asked to pay. */
  readonly asks: boolean
}

/** An operation that requests come to through a chain which lacks what it needs. */
interface Lacking {
  readonly route: BuiltRoute
  readonly operation: AnyOperation
}

/**
 * Finds operations that no request could use, because the route that leads to them has a chain without the caller or the payment
 * that they need: each call would be 500. A route for everything else is only warned of, since a later version may bring operations
 * that its author could not know.
 */
export function checkReach (router: Router<CompiledRoute>, built: readonly BuiltRoute[], internals: ReadonlyMap<string, InternalUpstream>): { readonly problems: readonly Problem[], readonly warnings: readonly Problem[] } {
  const routes = new Map(built.map(route => [route.compiled, route]))
  const hosts = new Set(['', ...built.flatMap(({ compiled }) => compiled.info.config?.match.host ?? [])])
  const lacking = new Map<string, Lacking[]>()
  for (const [name, upstream] of internals) {
    for (const operation of upstream.operations) {
      for (const host of hosts) {
        const found = router.find(host, operation.method, operation.path.replaceAll(/:[A-Za-z_]+|\*$/g, 'x'))
        const route = found === null ? undefined : routes.get(found.value)
        const led = route?.compiled.info.config
        if (route === undefined || led?.upstream.kind !== 'internal' || led.upstream.name !== name || gives(route, operation)) continue
        const key = `${led.name} ${operation.access}`
        const list = lacking.get(key) ?? []
        if (!list.some(other => other.operation === operation)) list.push({ route, operation })
        lacking.set(key, list)
      }
    }
  }
  const problems: Problem[] = []
  const warnings: Problem[] = []
  for (const list of lacking.values()) {
    const [first] = list
    const config = first?.route.compiled.info.config
    if (first === undefined || config === null || config === undefined) continue
    const { access, method, path, needsPayment } = first.operation
    const more = list.length === 1 ? '' : ` and ${list.length - 1} more`
    const need = needsPayment === true
      ? 'a payment; allowed: a price, and a chain with credential and challenge'
      : `${access === 'admin' ? 'the admin key' : 'a merchant\'s key'}; allowed: a chain with { auth: { as: ${access} } }`
    const problem: Problem = { code: 'BG_CHAIN_CALLER', ...config.at, path: '', message: `found the chain ${JSON.stringify(config.chain)} before ${method} ${path}${more}, which needs ${need}` }
    if (config.match.path.every(pattern => pattern === '/*')) warnings.push(problem)
    else problems.push(problem)
  }
  return { problems, warnings }
}

/** Whether a route's chain gives an operation what it needs. */
function gives ({ callers, asks }: BuiltRoute, { access, method, path, needsPayment }: AnyOperation): boolean {
  if (needsPayment === true && !asks) return false
  if (access !== 'merchant' && access !== 'admin') return true
  return callers.some(({ kind, when }) => kind === access && alwaysHolds(when, { method: [method], path: [path] }))
}
