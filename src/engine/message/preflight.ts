import type { Context } from './context.ts'

/**
 * The method that a CORS preflight announces; null for other requests, including a plain OPTIONS (Fetch standard,
 * CORS-preflight request; decision 6).
 */
export function announcedMethod(ctx: Pick<Context, 'method' | 'headers'>): string | null {
  if (ctx.method !== 'OPTIONS' || !ctx.headers.has('origin')) return null
  return ctx.headers.get('access-control-request-method') ?? null
}
