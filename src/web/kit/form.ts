import type { Context } from '../../engine/message/context.ts'

export const FORM_TYPE = 'application/x-www-form-urlencoded'

/** Form of a request; empty without one or above `most` bytes. */
export async function sentForm(ctx: Context, most: number): Promise<URLSearchParams> {
  const type = ctx.headers.get('content-type')?.split(';', 1)[0]?.trim().toLowerCase()
  if (type !== FORM_TYPE || (ctx.body.length ?? 0) > most) return new URLSearchParams()
  const bytes = await ctx.body.bytes()
  return new URLSearchParams(bytes.byteLength > most ? '' : Buffer.from(bytes).toString('utf8'))
}
