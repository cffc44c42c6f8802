import type { Context } from '../../engine/message/context.ts'

export const FORM_TYPE = 'application/x-www-form-urlencoded'

export class SentForm extends URLSearchParams {
  /** Trimmed; empty for an absent member. */
  text(name: string): string {
    return (this.get(name) ?? '').trim()
  }

  /** Lines with text. */
  lines(name: string): string[] {
    return this.text(name)
      .split('\n')
      .map(line => line.trim())
      .filter(line => line !== '')
  }

  /** A whole number; any other text verbatim, for the API's message. */
  number(name: string): number | string {
    const typed = this.text(name)
    return /^\d{1,15}$/.test(typed) ? Number(typed) : typed
  }
}

/** Form of a request; empty without one or above `most` bytes. */
export async function sentForm(ctx: Context, most = 4096): Promise<SentForm> {
  const type = ctx.headers.get('content-type')?.split(';', 1)[0]?.trim().toLowerCase()
  if (type !== FORM_TYPE || (ctx.body.length ?? 0) > most) return new SentForm()
  const bytes = await ctx.body.bytes()
  return new SentForm(bytes.byteLength > most ? '' : Buffer.from(bytes).toString('utf8'))
}
