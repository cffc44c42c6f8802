import type { Clock } from '../../platform/system/clock.ts'
import { defineError } from '../../platform/system/errors.ts'

const MAIL_FAILED = defineError('BG_MAIL_FAILED', {
  cause: 'A mail could not be sent.',
  fix: 'Check `mail` and the mail server; transient failures are retried.'
})

/** One mail to one reader. */
export interface Mail {
  /** A plain address, without a name. */
  readonly to: string
  readonly subject: string
  readonly text: string
  /** The same for readers that show HTML; null for none. */
  readonly html: string | null
  /**
   * Ours, the same each time this mail is sent: its Message-ID is made of it, so that a repeated one can be recognised.
   * Letters, digits, `.`, `_` and `-`.
   */
  readonly id: string
}

/** Who mail comes from. */
export interface Sender {
  /** May be empty. */
  readonly name: string
  readonly address: string
}

/** Sends mail, or keeps it where somebody can read it. */
export interface Mailer {
  /** Resolves when the mail server has taken it. `signal` ends it early. @throws MailFailed */
  send(mail: Mail, signal?: AbortSignal): Promise<void>
  close(): Promise<void>
}

/** A mail could not be sent. The message is for operators: neither the reader's address nor a password is in it. */
export class MailFailed extends Error {
  override name = 'MailFailed'
  readonly code = MAIL_FAILED.code
  /** Whether it may go well later; false when the mail itself is refused. */
  readonly temporary: boolean

  constructor(message: string, temporary: boolean) {
    super(message)
    this.temporary = temporary
  }
}

/** What nodemailer is given for one mail. */
export interface Message {
  readonly from: Sender
  readonly to: Sender
  readonly envelope: { readonly from: string; readonly to: readonly string[] }
  readonly subject: string
  readonly text: string
  readonly html?: string
  readonly messageId: string
  readonly date: Date
  readonly headers: Readonly<Record<string, string>>
  readonly xMailer: false
  readonly disableFileAccess: true
  readonly disableUrlAccess: true
}

// No quoted names, no lists, no comments: nothing that a header could be ended or a second reader be added with.
const ADDRESS = /^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?$/
const LONGEST_ADDRESS = 254
const ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/
const LONGEST_SUBJECT = 500

/** Whether mail is sent to such an address: plain, without a name, at most 254 characters. */
export function isMailAddress(text: string): boolean {
  return text.length <= LONGEST_ADDRESS && ADDRESS.test(text)
}

/**
 * The message of a mail, with its addresses and header fields looked at.
 * @throws MailFailed, permanent, for an address, subject or id that could smuggle in header lines
 */
export function messageOf(mail: Mail, from: Sender, clock: Clock): Message {
  const { to, subject, text, html, id } = mail
  if (!isMailAddress(to)) throw new MailFailed('the address of the reader is not one that mail is sent to', false)
  if (/\p{Cc}/u.test(subject) || subject.length > LONGEST_SUBJECT)
    throw new MailFailed('the subject is too long or has a control character', false)
  if (!ID.test(id)) throw new MailFailed('the id has other characters than letters, digits, ".", "_" and "-"', false)
  return {
    // Its own object: nodemailer writes into what it is given.
    from: { ...from },
    to: { name: '', address: to },
    envelope: { from: from.address, to: [to] },
    subject,
    text,
    ...(html === null ? {} : { html }),
    messageId: `<${id}@${from.address.slice(from.address.lastIndexOf('@') + 1)}>`,
    date: new Date(clock.now()),
    // Keeps out-of-office answers away (RFC 3834).
    headers: { 'Auto-Submitted': 'auto-generated' },
    xMailer: false,
    disableFileAccess: true,
    disableUrlAccess: true
  }
}
