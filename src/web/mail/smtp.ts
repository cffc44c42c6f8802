import { createTransport } from 'nodemailer'
import type { Clock } from '../../platform/system/clock.ts'
import { MailFailed, messageOf, type Mail, type Mailer, type Sender } from './mail.ts'
import type { Secret } from '../../platform/keys/secrets.ts'

/** How mail is handed to a server. */
export interface SmtpOptions {
  /** `smtp://` or `smtps://`, with user and password where the server wants them. */
  readonly url: Secret<string>
  readonly from: Sender
  /** Refuses to send over `smtp:` without STARTTLS; password and mail would be readable on the way. */
  readonly requireTls: boolean
  readonly clock: Clock
  /** Milliseconds for connecting, for the greeting, and without a sign of life; 10,000 unless said. */
  readonly timeout?: number
  /** Certificates to trust in place of the system's (PEM). */
  readonly ca?: string
}

const TIMEOUT = 10_000
/** Milliseconds for one mail altogether, however slowly the server speaks; shorter than a job may take. */
const WHOLE = 45_000
/** Characters of the server's own words that are passed on. */
const LONGEST_WORDS = 200

/** Mail through a server, each on a connection of its own. */
export class SmtpMailer implements Mailer {
  readonly #options: SmtpOptions
  readonly #transport

  constructor(options: SmtpOptions) {
    this.#options = options
    const url = new URL(options.url.reveal())
    const secure = url.protocol === 'smtps:'
    const { timeout = TIMEOUT } = options
    this.#transport = createTransport({
      host: url.hostname.replace(/^\[|\]$/g, ''),
      port: url.port === '' ? (secure ? 465 : 587) : Number(url.port),
      secure,
      requireTLS: options.requireTls && !secure,
      ...(url.username === ''
        ? {}
        : { auth: { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) } }),
      ...(options.ca === undefined ? {} : { tls: { ca: options.ca } }),
      connectionTimeout: timeout,
      greetingTimeout: timeout,
      socketTimeout: timeout,
      dnsTimeout: timeout,
      disableFileAccess: true,
      disableUrlAccess: true
    })
  }

  async send(mail: Mail, signal?: AbortSignal): Promise<void> {
    const { from, clock } = this.#options
    const message = messageOf(mail, from, clock)
    const limit = new AbortController()
    const timer = clock.after(WHOLE, () => {
      limit.abort()
    })
    try {
      await this.#transport.sendMail({
        ...message,
        envelope: { from: message.envelope.from, to: [...message.envelope.to] },
        signal: signal === undefined ? limit.signal : AbortSignal.any([limit.signal, signal])
      })
    } catch (error) {
      throw failure(error, mail.to)
    } finally {
      timer.cancel()
    }
  }

  async close(): Promise<void> {
    this.#transport.close()
  }
}

/** What went wrong, without the library's error, which holds what was sent. */
function failure(error: unknown, reader: string): MailFailed {
  const code = member(error, 'code')
  const status = Number(member(error, 'responseCode'))
  const words = clean(member(error, 'response'), reader)
  // Only what is said to the reader's address or to the text is said of this mail; the rest is between the server and
  // us.
  const command = member(error, 'command')
  if (status >= 500 && status < 600 && status !== 503 && (command === 'RCPT TO' || command === 'DATA'))
    return new MailFailed(`the mail server refuses it: ${words}`, false)
  if (code === 'EAUTH' || code === 'ENOAUTH')
    return new MailFailed('the mail server does not accept our user and password', true)
  if (code === 'ETLS') return new MailFailed('the mail server has no TLS that can be trusted', true)
  if (words !== '') return new MailFailed(`the mail server does not take it now: ${words}`, true)
  if (code === 'ETIMEDOUT') return new MailFailed('the mail server did not answer in time', true)
  if (code === 'EABORT') return new MailFailed('sending was ended before the mail server had taken it', true)
  return new MailFailed(`the mail server cannot be reached${code === '' ? '' : ` (${code})`}`, true)
}

/** The server's own words as one short line, without the reader's address. */
function clean(text: string, reader: string): string {
  const line = text
    .replaceAll(reader, '[address]')
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ')
    .trim()
  return line.length > LONGEST_WORDS ? `${line.slice(0, LONGEST_WORDS)}…` : line
}

function member(error: unknown, name: string): string {
  const value: unknown = typeof error === 'object' && error !== null ? Reflect.get(error, name) : undefined
  return typeof value === 'string' || typeof value === 'number' ? String(value) : ''
}
