import { currentLanguage, t } from '../../engine/formats/language.ts'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Type } from 'typebox'
import { notFound } from '../../engine/operations/errors.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'

/** File names under `/assets/` with content hashes, so that caches never go stale. */
export interface AssetNames {
  readonly style: string
  readonly script: string
  readonly shopStyle: string
  readonly shopScript: string
}

interface Asset {
  /** Without the extension. */
  readonly stem: string
  readonly name: string
  readonly text: string
}

const HEADERS: readonly string[] = Object.freeze([
  'Cache-Control',
  'public, max-age=31536000, immutable',
  'X-Content-Type-Options',
  'nosniff'
])

/** Styles and scripts of the pages, read from the folder `assets` at construction. */
export class PageAssets {
  readonly #style = readAsset('css', 'tokens', 'base', 'pay')
  readonly #shopStyle = readAsset('css', 'tokens', 'base', 'shop')
  readonly #jobsStyle = readAsset('css', 'tokens', 'jobs')
  readonly #script = readAsset('js', 'invoice', 'pay')
  readonly #shopScript = readAsset('js', 'shop')
  readonly #consoleStyle = readAsset('css', 'tokens', 'console')
  readonly #consoleScript = readAsset('js', 'passkeys', 'console')
  readonly #passkeyScript = readAsset('js', 'passkeys')

  get names(): AssetNames {
    return {
      style: this.#style.name,
      script: this.#script.name,
      shopStyle: this.#shopStyle.name,
      shopScript: this.#shopScript.name
    }
  }

  get jobsStyle(): string {
    return this.#jobsStyle.name
  }

  get consoleStyle(): string {
    return this.#consoleStyle.name
  }

  get consoleScript(): string {
    return this.#consoleScript.name
  }

  get passkeyScript(): string {
    return this.#passkeyScript.name
  }

  /** `GET /assets/:name.css` and `GET /assets/:name.js`; 404 for unknown names. */
  operations(): AnyOperation[] {
    return [
      assetOperation(
        [this.#style, this.#shopStyle, this.#jobsStyle, this.#consoleStyle],
        'css',
        'text/css; charset=utf-8',
        'getPageStyle',
        'The style of the pages'
      ),
      assetOperation(
        [this.#script, this.#shopScript, this.#consoleScript, this.#passkeyScript],
        'js',
        'text/javascript; charset=utf-8',
        'getPageScript',
        'The program of the pages'
      )
    ]
  }
}

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

function readAsset(ending: 'css' | 'js', ...files: readonly string[]): Asset {
  const text = assetText(ending, ...files)
  const stem = `${files.at(-1)}-${createHash('sha256').update(text).digest('hex').slice(0, 12)}`
  return { stem, name: `${stem}.${ending}`, text }
}

function assetOperation(
  assets: readonly Asset[],
  ending: string,
  mediaType: string,
  id: string,
  summary: string
): AnyOperation {
  return defineOperation({
    id,
    method: 'GET',
    path: `/assets/:name.${ending}`,
    summary,
    description: 'The name holds a hash of the content. Names of other versions are 404.',
    tag: 'pages',
    access: 'public',
    mount: { use: 'pages', chain: 'assets', below: '/assets/*' },
    params: Type.Object({ name: Type.String() }),
    responses: {
      200: { description: 'The file. Cacheable forever, because its name changes with its content.', mediaType }
    },
    handle({ params }) {
      const asset = assets.find(({ stem }) => stem === params.name)
      if (asset === undefined) throw notFound()
      return { status: 200, body: asset.text, headers: HEADERS }
    }
  })
}
