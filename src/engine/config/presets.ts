import { nameAndValue, type ValueConfig } from '../sections/when.ts'
import type { RouteConfig } from './schema.ts'

export const PRESET_NAMES = ['service', 'sandbox', 'merchant-api', 'operator-api', 'storefront', 'pages'] as const
export type PresetName = (typeof PRESET_NAMES)[number]

export const DEFAULT_USE: readonly PresetName[] = ['service', 'sandbox']

/** Whether a route matches every request for a path, on any host; a parameter of the path matches a parameter or `*`. */
export function takes({ match }: Pick<RouteConfig, 'match'>, method: string, path: string): boolean {
  if (match.host !== undefined || match.header !== undefined || match.query !== undefined) return false
  if (
    match.method !== undefined &&
    !match.method.includes(method) &&
    !(method === 'HEAD' && match.method.includes('GET'))
  )
    return false
  const requested = path.split('/')
  return match.path.some(pattern => {
    const segments = pattern.split('/')
    if (segments.at(-1) === '*' ? requested.length < segments.length : segments.length !== requested.length)
      return false
    return segments.every((segment, at) => segment === '*' || segment.startsWith(':') || segment === requested[at])
  })
}

/** Names of what is compared, without the values: price lists and invoices may show it. */
export function routeName({ host, method, path, header = [], query = [] }: RouteConfig['match']): string {
  const names = (list: readonly string[]): string[] => list.map(text => nameAndValue(text)[0])
  const compared = valueWords({ header: names(header), query: names(query) })
  return `${method?.join(',') ?? '*'} ${host ?? ''}${path[0] ?? ''}${compared}`
}

/** Such as `?format=pdf x-plan=gold` behind a path. */
export function valueWords({ header = [], query = [] }: ValueConfig): string {
  return [query.length === 0 ? '' : `?${query.join('&')}`, ...header].join(' ')
}
