import type { RouteConfig } from '../config/schema.ts'

export interface RouteInfo {
  /**
   * Label for logs and metrics: the route's name, else its method and path pattern. Never made from a request's path.
   */
  readonly name: string
  /** The route in the configuration file; null on the placeholder for no match. */
  readonly config: RouteConfig | null
  /** The service itself answers (internal operations, merchants' proxies): its own X-API-Version replaces any other. */
  readonly own: boolean
}

export const NO_ROUTE: RouteInfo = Object.freeze({ name: 'none', config: null, own: true })
