import { isObject } from '../../platform/system/json.ts'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parse, YAMLError } from 'yaml'
import { quote, type Findings, type Path } from '../config/diagnose.ts'

type Json = Record<string, unknown>

/** An operation of the API behind a route, as its OpenAPI file describes it. */
export interface ApiOperation {
  /** In OpenAPI's form, behind the path of the file's server. */
  readonly path: string
  /** Lower case. */
  readonly method: string
  readonly summary: string | null
  /** `parameters`, `requestBody` and `responses`. */
  readonly members: Json
}

export interface ApiFile {
  readonly base: string
  readonly operations: readonly ApiOperation[]
  /** By kind and name; names begin with the route's own, as references in `operations` do. */
  readonly components: Readonly<Record<string, Readonly<Record<string, Json>>>>
}

const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch']
const KINDS = ['schemas', 'parameters', 'requestBodies', 'responses', 'headers', 'examples']
const MAX_BYTES = 2_000_000
const MAX_OPERATIONS = 500
/** Deeper members become schemas of anything. */
const MAX_DEPTH = 100

/** Reads `openapi` of a route. Undefined, with a problem reported, if it cannot be used. */
export function readApi(name: string, folder: string, [, index = 0]: Path, findings: Findings): ApiFile | undefined {
  const at: Path = ['routes', index, 'openapi']
  let text: string
  try {
    text = readFileSync(resolve(folder, name), 'utf8')
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
    findings.report('BG_CONFIG_FILE', at, `the file ${quote(name)} cannot be read (${code})`)
    return undefined
  }
  const api = text.length > MAX_BYTES ? null : apiOf(documentOf(text), `api${index}_`)
  if (api !== null) return api
  findings.report(
    'BG_CONFIG_VALUE',
    at,
    `found no OpenAPI document in ${quote(name)}; allowed: OpenAPI 3, as YAML or JSON of 2 MB at most`
  )
  return undefined
}

/** Reads an OpenAPI 3 document; null for any other. `own`: prefix of its components' names. */
export function apiOf(document: unknown, own: string): ApiFile | null {
  const version = isObject(document) ? document['openapi'] : null
  const paths = isObject(document) ? document['paths'] : null
  if (!isObject(document) || typeof version !== 'string' || !version.startsWith('3.') || !isObject(paths)) return null
  const operations: ApiOperation[] = []
  for (const [path, item] of Object.entries(paths)) {
    if (!isObject(item) || !path.startsWith('/')) continue
    for (const method of METHODS) {
      const operation = item[method]
      if (!isObject(operation) || operations.length >= MAX_OPERATIONS) continue
      const { summary, description, parameters = [], requestBody, responses } = operation
      const shared = Array.isArray(item['parameters']) ? (item['parameters'] as unknown[]) : []
      const all = [...shared, ...(Array.isArray(parameters) ? (parameters as unknown[]) : [])]
      const said = [summary, description].find(words => typeof words === 'string')
      operations.push({
        path,
        method,
        summary: typeof said === 'string' ? said.slice(0, 500) : null,
        members: renamed(
          {
            ...(all.length === 0 ? {} : { parameters: all }),
            ...(requestBody === undefined ? {} : { requestBody }),
            ...(isObject(responses) ? { responses } : {})
          },
          own
        ) as Json // `renamed` keeps the kind of what it is given.
      })
    }
  }
  const given = isObject(document['components']) ? document['components'] : {}
  return {
    base: basePath(document['servers']),
    operations,
    components: Object.fromEntries(
      KINDS.map(kind => [
        kind,
        Object.fromEntries(
          Object.entries(isObject(given[kind]) ? given[kind] : {}).map(([key, component]) => [
            own + key,
            isObject(component) ? (renamed(component, own) as Json) /* as above */ : {}
          ])
        )
      ])
    )
  }
}

function documentOf(text: string): unknown {
  try {
    return parse(text)
  } catch (error) {
    // ReferenceError: aliases that would grow without bounds.
    if (error instanceof YAMLError || error instanceof ReferenceError) return null
    throw error
  }
}

/** References lead to components of this file alone; others become schemas of anything. */
function renamed(value: unknown, own: string, depth = 0): unknown {
  if (depth > MAX_DEPTH) return {}
  if (Array.isArray(value)) return value.map(item => renamed(item, own, depth + 1))
  if (!isObject(value)) return value
  const target = value['$ref']
  if (typeof target === 'string') {
    const found = /^#\/components\/([A-Za-z]+)\/([A-Za-z0-9._-]+)$/.exec(target)
    return found === null ? {} : { $ref: `#/components/${found[1]}/${own}${found[2]}` }
  }
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, renamed(member, own, depth + 1)]))
}

function basePath(servers: unknown): string {
  const first: unknown = Array.isArray(servers) ? servers[0] : null
  const url = isObject(first) && typeof first['url'] === 'string' ? first['url'] : '/'
  return URL.canParse(url, 'http://x') ? new URL(url, 'http://x').pathname.replace(/\/$/, '') : ''
}
