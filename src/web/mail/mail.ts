import type { SendMailOptions } from 'nodemailer'
import { Type } from 'typebox'
import type { Clock } from '../../platform/system/clock.ts'
import { defineError } from '../../platform/system/errors.ts'

const MAIL_FAILED = defineError('BG_MAIL_FAILED', {
  cause: 'A mail could not be sent.',
  fix: 'Check `mail` and the mail server; transient failures are retried.'
})

export interface Mail {
  /** A plain address without a name. */
  readonly to: string
  readonly subject: string
  readonly text: string
  readonly html: string | null
  /**
   * Basis of the Message-ID, the same for a resend, so that duplicates can be recognized. Letters, digits, `.`, `_` and
   * `-`.
   */
  readonly id: string
}

export interface Sender {
  /** May be empty. */
  readonly name: string
  readonly address: string
}

/** Sends mail, or stores it. */
export interface Mailer {
  /**
   * Resolves when the mail server has accepted it.
   * @throws MailFailed
   */
  send(mail: Mail, signal?: AbortSignal): Promise<void>
  close(): Promise<void>
}

/** A delivery failure. The message is for operators: no address of a reader, no password. */
export class MailFailed extends Error {
  override name = 'MailFailed'
  readonly code = MAIL_FAILED.code
  /** Whether a retry may succeed. */
  readonly temporary: boolean

  constructor(message: string, temporary: boolean) {
    super(message)
    this.temporary = temporary
  }
}

// No quoted names, lists or comments: prevents header injection.
const ADDRESS = /^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?$/
const LONGEST_ADDRESS = 254
const ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/
const LONGEST_SUBJECT = 500

/** Address that mail can be sent to, of a request's body. */
export function emailAddress(more: { readonly 'x-audit'?: true } = {}) {
  return Type.String({
    minLength: 3,
    maxLength: LONGEST_ADDRESS,
    pattern: ADDRESS.source,
    'x-email': true,
    'x-rule': 'Must be an email address, such as name@example.com.',
    ...more
  })
}

/** Whether the address is plain, without a name, at most 254 characters. */
export function isMailAddress(text: string): boolean {
  return text.length <= LONGEST_ADDRESS && ADDRESS.test(text)
}

/**
 * A mail as a nodemailer message with validated headers.
 * @throws MailFailed, permanent, for an address, subject or id that could inject headers
 */
export function messageOf(mail: Mail, from: Sender, clock: Clock): SendMailOptions & { readonly date: Date } {
  const { to, subject, text, html, id } = mail
  if (!isMailAddress(to)) throw new MailFailed('the address of the reader is not one that mail is sent to', false)
  if (/\p{Cc}/u.test(subject) || subject.length > LONGEST_SUBJECT)
    throw new MailFailed('the subject is too long or has a control character', false)
  if (!ID.test(id)) throw new MailFailed('the id has other characters than letters, digits, ".", "_" and "-"', false)
  return {
    // A copy: nodemailer mutates its input.
    from: { ...from },
    to: { name: '', address: to },
    envelope: { from: from.address, to: [to] },
    subject,
    text,
    ...(html === null ? {} : { html }),
    messageId: `<${id}@${from.address.slice(from.address.lastIndexOf('@') + 1)}>`,
    date: new Date(clock.now()),
    // Suppresses out-of-office replies (RFC 3834).
    headers: { 'Auto-Submitted': 'auto-generated' },
    xMailer: false,
    disableFileAccess: true,
    disableUrlAccess: true
  }
}
