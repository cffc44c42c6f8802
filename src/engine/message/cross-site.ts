import type { Context } from './context.ts'

/**
 * Whether a page of another origin sent this request, by Sec-Fetch-Site, or Origin where the browser omits it (plain
 * HTTP). Clients can forge both, so this must grant nothing.
 */
export function isCrossSite({ headers, host }: Pick<Context, 'headers' | 'host'>): boolean {
  const site = headers.get('sec-fetch-site')
  if (site !== undefined) return site === 'cross-site' || site === 'same-site'
  const origin = headers.get('origin')
  return origin !== undefined && !(URL.canParse(origin) && new URL(origin).host === host)
}
