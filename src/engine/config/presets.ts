import { METHOD_NAMES } from './formats.ts'
import type { RouteConfig } from './schema.ts'

/** Sets of chains and routes of the gateway's own that a file need not spell out; `use` names them. */
export const PRESET_NAMES = ['service', 'sandbox', 'merchant-api', 'operator-api', 'storefront', 'pages'] as const
export type PresetName = (typeof PRESET_NAMES)[number]

/** What a file has that does not say what it uses. */
export const DEFAULT_USE: readonly PresetName[] = ['service', 'sandbox']

/** A preset, in the form of a configuration file. */
interface PresetFile {
  /** How messages name it. */
  readonly file: string
  readonly text: string
}

/** Chains and routes of the gateway's own. */
export interface Presets {
  /** A preset; `chains` are those that every file can name. */
  read(name: PresetName | 'chains'): PresetFile
}

/** What a route of the file takes of hosts, methods and paths. */
type Taken = Pick<RouteConfig, 'match'> & Partial<Pick<RouteConfig, 'upstream'>>

/**
 * Whether a route takes requests for a path, whatever host it is asked at; a parameter of the path is taken by a
 * parameter or `*`. What a file's route takes, no preset takes from it.
 */
export function takes({ match }: Taken, method: string, path: string): boolean {
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

/**
 * The routes of a file that go before its presets. One for everything (`/*`) does so only in a file that does not say
 * what it uses: where `use` is written, it takes what nothing else does, and the front page, unless it leads to the
 * gateway itself.
 */
export function goingFirst(routes: readonly Taken[], usesNamed: boolean): readonly Taken[] {
  if (!usesNamed) return routes
  return routes
    .map(({ match, upstream }) => ({
      match: {
        ...match,
        path: match.path.flatMap(path => (path !== '/*' ? [path] : upstream?.kind === 'internal' ? [] : ['/']))
      }
    }))
    .filter(({ match }) => match.path.length > 0)
}

/**
 * What is left of a preset's route by the routes of the file: itself, or one route for each path of which some methods
 * are left.
 */
export function leftOf(route: RouteConfig, first: readonly Taken[]): readonly RouteConfig[] {
  const methods = route.match.method ?? METHOD_NAMES
  const left = route.match.path.map(path => ({
    path,
    methods: methods.filter(method => !first.some(other => takes(other, method, path)))
  }))
  if (left.every(part => part.methods.length === methods.length)) return [route]
  return left
    .filter(part => part.methods.length > 0)
    .map(({ path, methods }) => ({
      ...route,
      name: routeName({ ...route.match, path: [path] }),
      match: { ...route.match, method: methods, path: [path] }
    }))
}

/** What a route is called that has no name of its own. */
export function routeName({ host, method, path }: RouteConfig['match']): string {
  return `${method?.join(',') ?? '*'} ${host ?? ''}${path[0] ?? ''}`
}
