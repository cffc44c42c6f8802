import type { RouteConfig } from '../config/schema.ts'

/** What plugins may know of the route that a request took; decided when the configuration is compiled. */
export interface RouteInfo {
  /**
   * Label for logs and metrics: the route's name, else its method and path pattern. Never made from a request's own
   * path.
   */
  readonly name: string
  /** The route as the configuration file has it; null on the placeholder of a request that matched none. */
  readonly config: RouteConfig | null
  /**
   * The responses belong to the service itself (internal operations, merchants' proxies): its own X-API-Version
   * replaces any other.
   */
  readonly own: boolean
}

/** Stands for the route of a request that matched none. */
export const NO_ROUTE: RouteInfo = Object.freeze({ name: 'none', config: null, own: true })
