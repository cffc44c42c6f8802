import { oneLine, shortSubject } from '../../mail/plain-text.ts'
import type { Mail } from '../../mail/mail.ts'

/** The mail that tells somebody of a passkey that was added in their name. */
export function passkeyMail(
  to: string,
  { id, name }: { readonly id: string; readonly name: string },
  publicUrl: string
): Mail {
  const where = oneLine(new URL(publicUrl).host)
  return {
    to,
    subject: shortSubject(`A passkey was added at ${where}`),
    text: [
      'Hello,',
      '',
      `The passkey "${oneLine(name)}" was added to your address at ${where}. Whoever has it can sign in as you.`,
      '',
      `If that was not you, sign in with a link by mail at ${publicUrl}/sign-in, and remove it in the settings of the console.`,
      ''
    ].join('\n'),
    html: null,
    id: `passkey.${id}`
  }
}
