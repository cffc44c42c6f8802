import type { Context } from '../../engine/message/context.ts'

/** Media type of a form that a page sends. */
export const FORM_TYPE = 'application/x-www-form-urlencoded'

/** What a form holds; nothing where there is none, or one of more bytes than a form of ours can have. */
export async function sentForm(ctx: Context, most: number): Promise<URLSearchParams> {
  const type = ctx.headers.get('content-type')?.split(';', 1)[0]?.trim().toLowerCase()
  if (type !== FORM_TYPE || (ctx.body.length ?? 0) > most) return new URLSearchParams()
  const bytes = await ctx.body.bytes()
  return new URLSearchParams(bytes.byteLength > most ? '' : Buffer.from(bytes).toString('utf8'))
}
