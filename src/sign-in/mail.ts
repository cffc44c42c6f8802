import { oneLine, shortSubject } from '../mail/plain-text.ts'
import type { Mail } from '../mail/mail.ts'
import { LINK_LIFE } from './lives.ts'

/** What a mail with a link is written from. */
export interface LinkMailFacts {
  readonly to: string
  /** Of the account. */
  readonly name: string
  readonly token: string
  readonly requestId: string
  /** Without a slash at the end. */
  readonly publicUrl: string
  /** Whether it says that a subscription was approved (decision 155); else that somebody asked for it. */
  readonly approved: boolean
}

/** The mail with a sign-in link (decision 170). Its address is a secret of the reader's. */
export function linkMail({ to, name, token, requestId, publicUrl, approved }: LinkMailFacts): Mail {
  const where = oneLine(new URL(publicUrl).host)
  const minutes = LINK_LIFE / 60_000
  return {
    to,
    subject: shortSubject(approved ? `Your account at ${where} is ready` : `Sign in to ${where}`),
    text: [
      `Hello ${oneLine(name)},`,
      '',
      approved
        ? 'Your subscription was approved. Sign in to your account with this link:'
        : 'Sign in to your account with this link:',
      '',
      `${publicUrl}/sign-in/${token}`,
      '',
      `It works once, and for ${minutes} minutes. For another one go to ${publicUrl}/sign-in`,
      approved
        ? 'Your API key comes from the operator, never by mail.'
        : 'If you did not ask for it, somebody else has typed your address: without the link nothing happens.',
      ''
    ].join('\n'),
    html: null,
    id: `sign-in.${requestId}`
  }
}
