import type { RouteConfig } from './schema.ts'

/** Sets of routes that a file has without spelling them out; `use` names them. */
export const PRESET_NAMES = ['service', 'sandbox'] as const
export type PresetName = typeof PRESET_NAMES[number]

/** Chains and routes of the gateway's own, each the text of a file. */
export interface Presets {
  readonly chains: string
  readonly routes: Readonly<Record<PresetName, string>>
}

/**
 * Whether a route takes requests for a path without parameters, whatever host it is asked at. What a file's route takes, no preset
 * takes from it.
 */
export function takes ({ match }: RouteConfig, method: string, path: string): boolean {
  if (match.host !== undefined) return false
  if (match.method !== undefined && !match.method.includes(method)) return false
  const asked = path.split('/')
  return match.path.some(pattern => {
    const segments = pattern.split('/')
    if (segments.at(-1) !== '*' && segments.length !== asked.length) return false
    return segments.every((segment, at) => segment === '*' || segment.startsWith(':') || segment === asked[at])
  })
}
