import type { RouteConfig } from './schema.ts'

export const PRESET_NAMES = ['service', 'sandbox', 'merchant-api', 'operator-api', 'storefront', 'pages'] as const
export type PresetName = (typeof PRESET_NAMES)[number]

export const DEFAULT_USE: readonly PresetName[] = ['service', 'sandbox']

/** Whether a route matches a path on any host; a parameter of the path matches a parameter or `*`. */
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

export function routeName({ host, method, path }: RouteConfig['match']): string {
  return `${method?.join(',') ?? '*'} ${host ?? ''}${path[0] ?? ''}`
}
