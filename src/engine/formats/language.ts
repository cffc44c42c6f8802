import { AsyncLocalStorage } from 'node:async_hooks'
import { acceptedLanguages } from '../message/accept.ts'
import type { Context } from '../message/context.ts'
import type { ReadonlyHeaders } from '../message/headers.ts'
import type { Result } from '../operations/operation.ts'
import de from './languages/de.json' with { type: 'json' }
import es from './languages/es.json' with { type: 'json' }

/** Languages of the pages by their own names. The sources are in the first, which is the fallback. */
export const LANGUAGES = { en: 'English', de: 'Deutsch', es: 'Español' } as const

export type Language = keyof typeof LANGUAGES

interface Reader {
  readonly language: Language
  /** Query of the page, which its links to other languages keep; null where its address is another's. */
  readonly query: string | null
}

const COOKIE = 'boltgate-language'
const YEAR_SECONDS = 31_536_000
const CATALOGS = {
  en: new Map<string, string>(),
  de: new Map(Object.entries<string>(de)),
  es: new Map(Object.entries<string>(es))
}
const readers = new AsyncLocalStorage<Reader>()

function isLanguage(name: string | null | undefined): name is Language {
  return name !== null && name !== undefined && Object.hasOwn(LANGUAGES, name)
}

export function readerLanguage(headers: ReadonlyHeaders): Language {
  const kept = new RegExp(`(?:^|;) *${COOKIE}=([a-z]{2}) *(?:;|$)`).exec(headers.all('cookie').join(';'))?.[1]
  if (isLanguage(kept)) return kept
  return acceptedLanguages(headers.all('accept-language').join(',')).find(isLanguage) ?? 'en'
}

export function speaking<T>(language: Language, run: () => T, query: string | null = null): T {
  return readers.run({ language, query }, run)
}

export function currentLanguage(): Language {
  return readers.getStore()?.language ?? 'en'
}

/** Addresses of the same page in each language; null where it has none. */
export function languageLinks(): ReadonlyArray<readonly [Language, string]> | null {
  const search = readers.getStore()?.query ?? null
  if (search === null) return null
  const query = new URLSearchParams(search)
  return (Object.keys(LANGUAGES) as Language[]) /* its own keys */
    .map(language => {
      query.set('lang', language)
      return [language, `?${query}`]
    })
}

export async function inReadersLanguage(
  ctx: Pick<Context, 'headers' | 'query' | 'secure'>,
  page: () => Result | Promise<Result>
): Promise<Result> {
  const chosen = new URLSearchParams(ctx.query).get('lang')
  const language = isLanguage(chosen) ? chosen : readerLanguage(ctx.headers)
  const result = await speaking(language, page, ctx.query)
  const headers = [...(result.headers ?? []), 'Content-Language', language, 'Vary', 'Accept-Language']
  if (language === chosen)
    headers.push(
      'Set-Cookie',
      `${COOKIE}=${language}; Path=/; Max-Age=${YEAR_SECONDS}; HttpOnly; SameSite=Lax${ctx.secure ? '; Secure' : ''}`
    )
  return { ...result, headers }
}

export function translated(message: string): string {
  return CATALOGS[currentLanguage()].get(message) ?? message
}

/**
 * The text in the reader's language: `` t`${count} sales` `` is the message `{0} sales`. Values stay as they are. Called
 * outside of a request, as in a constant, it only marks a message.
 */
export function t(message: TemplateStringsArray | string, ...values: ReadonlyArray<string | number>): string {
  if (typeof message === 'string') return translated(message)
  const text = message.reduce((before, part, at) => `${before}{${at - 1}}${part}`)
  return translated(text).replaceAll(/\{(\d+)\}/g, (_, at) => String(values[Number(at)]))
}
