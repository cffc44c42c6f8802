import { formatPath, type Problem } from './diagnose.ts'
import type { Origin } from './document.ts'
import { interpolate, type Environment } from './interpolate.ts'

/** Settings that come from the environment where the file does not have them. */
const FALLBACKS = [
  ['mode', '', '${BOLTGATE_MODE:-}'],
  ['data', '', '${BOLTGATE_DATA:-}'],
  ['server', 'publicUrl', '${PUBLIC_URL:-}'],
  ['secrets', 'master', '${BOLTGATE_SECRET:-}'],
  ['secrets', 'adminKey', '${BOLTGATE_ADMIN_KEY:-}'],
  ['database', 'url', '${DATABASE_URL:-}'],
  ['state', 'url', '${REDIS_URL:-}'],
  ['mail', 'from', '${MAIL_FROM:-}'],
  ['mail', 'smtp', '${SMTP_URL:-}']
] as const

const LISTEN = ['server', 'listen', '${HOST:-127.0.0.1}:${PORT:-8080}'] as const

type Mapping = Record<string, unknown>

/**
 * Completes a parsed file: drops extensions, which hold anchors, and takes missing settings from the environment. Returns
 * the origin that also knows the latter.
 */
export function addFallbacks(
  value: unknown,
  origin: Origin,
  env: Environment
): { origin: Origin; problems: readonly Problem[] } {
  if (!isMapping(value)) return { origin, problems: [] }
  for (const name of Object.keys(value)) if (name.startsWith('x-')) Reflect.deleteProperty(value, name)
  const expressions = new Map<string, string>()
  const problems: Problem[] = []
  const { HOST: host = '', PORT: port = '' } = env
  // Platforms that want IPv6 set HOST=:: without brackets.
  const bracketed = { ...env, HOST: /^[^[].*:/.test(host) || host.startsWith(':') ? `[${host}]` : host }
  for (const [section, name, text] of host + port === '' ? FALLBACKS : [...FALLBACKS, LISTEN]) {
    const path = name === '' ? [section] : [section, name]
    const parent = name === '' ? value : sectionOf(value, section)
    const key = path.at(-1) ?? ''
    if (!isMapping(parent) || Object.hasOwn(parent, key)) continue
    const found = interpolate(text, bracketed)
    if ('problem' in found)
      problems.push({
        code: 'BG_CONFIG_VARIABLE',
        ...origin.position(path),
        path: formatPath(path),
        message: found.problem
      })
    else if (found.value !== '') {
      parent[key] = found.value
      expressions.set(JSON.stringify(path), text)
    }
  }
  if (value['mode'] !== 'production') {
    // Production needs one provider; where nothing costs money, merchants find both slots filled.
    const lightning = sectionOf(value, 'lightning')
    if (isMapping(lightning) && !Object.hasOwn(lightning, 'alternate')) lightning['alternate'] = { kind: 'sandbox' }
  }
  return {
    origin: {
      ...origin,
      expression: path => expressions.get(JSON.stringify(path)) ?? origin.expression(path)
    },
    problems
  }
}

function sectionOf(value: Mapping, name: string): unknown {
  if (!Object.hasOwn(value, name)) value[name] = {}
  return value[name]
}

function isMapping(value: unknown): value is Mapping {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
