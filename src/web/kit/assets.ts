import { currentLanguage, t } from '../../engine/formats/language.ts'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Type } from 'typebox'
import { notFound } from '../../engine/operations/errors.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'

/** Files of the folder `assets` of which each style and script consists, shared parts first. */
const PARTS = {
  style: ['css', 'tokens', 'base', 'pay'],
  shopStyle: ['css', 'tokens', 'base', 'shop'],
  consoleStyle: ['css', 'tokens', 'console'],
  script: ['js', 'invoice', 'pay'],
  shopScript: ['js', 'shop'],
  consoleScript: ['js', 'passkeys', 'console'],
  passkeyScript: ['js', 'passkeys']
} as const satisfies Record<string, readonly ['css' | 'js', ...string[]]>

/** File names under `/assets/` with content hashes, so that caches never go stale. */
export type AssetNames = Readonly<Record<keyof typeof PARTS, string>>

let texts: ReadonlyMap<string, string> | null = null
let names: AssetNames | null = null

/** Read once, at the first call. */
export function assetNames(): AssetNames {
  if (names !== null) return names
  const found = Object.entries(PARTS).map(([key, [ending, ...files]]) => {
    const text = assetText(ending, ...files)
    return [
      key,
      `${files.at(-1)}-${createHash('sha256').update(text).digest('hex').slice(0, 12)}.${ending}`,
      text
    ] as const
  })
  texts = new Map(found.map(([, name, text]) => [name, text]))
  // Its keys are those of PARTS.
  return (names = Object.fromEntries(found) as AssetNames)
}

/** `GET /assets/:name.css` and `GET /assets/:name.js`; 404 for unknown names. */
export function assetOperations(): AnyOperation[] {
  return [
    assetOperation('css', 'text/css; charset=utf-8', 'getPageStyle', 'The style of the pages'),
    assetOperation('js', 'text/javascript; charset=utf-8', 'getPageScript', 'The program of the pages')
  ]
}

const HEADERS: readonly string[] = Object.freeze([
  'Cache-Control',
  'public, max-age=31536000, immutable',
  'X-Content-Type-Options',
  'nosniff'
])

const scriptMessages = new Set<string>()

/** Messages of all scripts in the reader's language, as JSON for their `data-words`; null in English. */
export function scriptWords(): string | null {
  if (currentLanguage() === 'en') return null
  if (scriptMessages.size === 0)
    for (const [, message = ''] of assetText('js', ...SCRIPTS).matchAll(/\bt\('([^']+)'\)/g))
      scriptMessages.add(message)
  return JSON.stringify(Object.fromEntries([...scriptMessages].map(message => [message, t(message)])))
}

const SCRIPTS = ['invoice', 'pay', 'paywall', 'passkeys', 'console', 'shop']

/** Concatenates files of the folder `assets` in this order, shared parts (`tokens`) first. Saves requests. */
export function assetText(ending: 'css' | 'js', ...files: readonly string[]): string {
  const parts = ending === 'js' ? ['words', ...files] : files
  return parts.map(file => readFileSync(new URL(`./assets/${file}.${ending}`, import.meta.url), 'utf8')).join('\n')
}

function assetOperation(ending: 'css' | 'js', mediaType: string, id: string, summary: string): AnyOperation {
  return defineOperation({
    id,
    method: 'GET',
    path: `/assets/:name.${ending}`,
    summary,
    description: 'The name holds a hash of the content. Names of other versions are 404.',
    tag: 'pages',
    access: 'public',
    mount: { use: ['pages', 'storefront'], chain: 'assets', below: '/assets/*' },
    params: Type.Object({ name: Type.String() }),
    responses: {
      200: { description: 'The file. Cacheable forever, because its name changes with its content.', mediaType }
    },
    handle({ params }) {
      assetNames()
      const body = texts?.get(`${params.name}.${ending}`)
      if (body === undefined) throw notFound()
      return { status: 200, body, headers: HEADERS }
    }
  })
}
