import type { RouteConfig } from './schema.ts'

/** Parts of the gateway's own API; `use` names those that a file mounts. */
export const PRESET_NAMES = ['service', 'sandbox', 'merchant-api', 'operator-api', 'storefront', 'pages'] as const
export type PresetName = (typeof PRESET_NAMES)[number]

/** What a file has that does not say what it uses. */
export const DEFAULT_USE: readonly PresetName[] = ['service', 'sandbox']

/**
 * Whether a route takes requests for a path, whatever host it is asked at; a parameter of the path is taken by a
 * parameter or `*`.
 */
export function takes({ match }: Pick<RouteConfig, 'match'>, method: string, path: string): boolean {
  if (match.host !== undefined) return false
  if (
    match.method !== undefined &&
    !match.method.includes(method) &&
    !(method === 'HEAD' && match.method.includes('GET'))
  )
    return false
  const asked = path.split('/')
  return match.path.some(pattern => {
    const segments = pattern.split('/')
    if (segments.at(-1) === '*' ? asked.length < segments.length : segments.length !== asked.length) return false
    return segments.every((segment, at) => segment === '*' || segment.startsWith(':') || segment === asked[at])
  })
}

/** What a route is called that has no name of its own. */
export function routeName({ host, method, path }: RouteConfig['match']): string {
  return `${method?.join(',') ?? '*'} ${host ?? ''}${path[0] ?? ''}`
}
