import { oneLine, shortSubject } from '../mail/plain-text.ts'
import type { Mail } from '../mail/mail.ts'
import { INVITATION_LIFE, LINK_LIFE } from './tokens.ts'

/**
 * Why a link is mailed: somebody asked for it, a subscription was approved (decision 155), or an owner of an account
 * invites a member.
 */
export type LinkReason = 'asked' | 'approval' | 'invitation'

/** What a mail with a link is written from. */
export interface LinkMailFacts {
  readonly to: string
  /** Of the account. */
  readonly name: string
  readonly token: string
  readonly requestId: string
  /** Without a slash at the end. */
  readonly publicUrl: string
  readonly reason: LinkReason
}

/** The mail with a sign-in link (decision 170). Its address is a secret of the reader's. */
export function linkMail({ to, name, token, requestId, publicUrl, reason }: LinkMailFacts): Mail {
  const where = oneLine(new URL(publicUrl).host)
  const account = oneLine(name)
  const words = {
    asked: {
      subject: `Sign in to ${where}`,
      greeting: `Hello ${account},`,
      why: 'Sign in to your account with this link:',
      end: 'If you did not ask for it, somebody else has typed your address: without the link nothing happens.'
    },
    approval: {
      subject: `Your account at ${where} is ready`,
      greeting: `Hello ${account},`,
      why: 'Your subscription was approved. Sign in to your account with this link:',
      end: 'Your API key is shown there, once; no mail ever has it.'
    },
    invitation: {
      subject: `You are invited to an account at ${where}`,
      greeting: 'Hello,',
      why: `An owner of the account ${account} at ${where} invites you to work in it. Accept with this link:`,
      end: 'If you do not know the account, do nothing: without the link nothing happens.'
    }
  }[reason]
  const life = reason === 'invitation' ? `${INVITATION_LIFE / 86_400_000} days` : `${LINK_LIFE / 60_000} minutes`
  return {
    to,
    subject: shortSubject(words.subject),
    text: [
      words.greeting,
      '',
      words.why,
      '',
      `${publicUrl}/sign-in/${token}`,
      '',
      `It works once, and for ${life}. For another one go to ${publicUrl}/sign-in`,
      words.end,
      ''
    ].join('\n'),
    html: null,
    id: `sign-in.${requestId}`
  }
}
