import { createTransport } from 'nodemailer'
import type { Clock } from '../../platform/system/clock.ts'
import { MailFailed, messageOf, type Mail, type Mailer, type Sender } from './mail.ts'
import type { Secret } from '../../platform/keys/secrets.ts'
import { chmod, mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { freshId } from '../../platform/system/ids.ts'

export interface SmtpOptions {
  /** `smtp://` or `smtps://`, with credentials if required. */
  readonly url: Secret<string>
  readonly from: Sender
  /** Requires STARTTLS on `smtp:`; otherwise password and mail are readable in transit. */
  readonly requireTls: boolean
  readonly clock: Clock
  /** Milliseconds for connecting, greeting and inactivity; default 10,000. */
  readonly timeout?: number
  /** PEM certificates in place of the system's. */
  readonly ca?: string
}

const TIMEOUT = 10_000
/** Total milliseconds of one mail; shorter than a job's timeout. */
const WHOLE = 45_000
/** Longest quote of the server's reply, in characters. */
const LONGEST_WORDS = 200

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

/** The failure without the library's error, which contains the mail. */
function failure(error: unknown, reader: string): MailFailed {
  const code = member(error, 'code')
  const status = Number(member(error, 'responseCode'))
  const words = clean(member(error, 'response'), reader)
  // Only errors of these commands concern the mail; others concern the connection.
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

/** The server's reply as one short line without the reader's address. */
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

export interface FolderOptions {
  readonly folder: string
  readonly from: Sender
  readonly clock: Clock
  readonly keep?: number
}

const KEEP = 1000
const NAME = /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z-[A-Za-z0-9._-]+\.eml$/

/** Loads the MIME composer lazily: it takes some 20 MB. */
async function composer() {
  const { createTransport } = await import('nodemailer')
  return createTransport({ streamTransport: true, buffer: true, newline: 'windows' })
}

/** Writes mail as `<time>-<id>.eml`, readable only by its owner: for a gateway without a mail server. */
export class FolderMailer implements Mailer {
  readonly #options: FolderOptions
  #composer: ReturnType<typeof composer> | null = null

  constructor(options: FolderOptions) {
    this.#options = options
  }

  async send(mail: Mail): Promise<void> {
    const { folder, from, clock } = this.#options
    const message = messageOf(mail, from, clock)
    const { message: bytes } = await (await (this.#composer ??= composer())).sendMail(message)
    if (!Buffer.isBuffer(bytes)) throw new TypeError('the composer was asked for bytes')
    // Without colons, which some file systems forbid; sorts by time.
    const name = `${message.date.toISOString().replaceAll(':', '-')}-${mail.id}.eml`
    try {
      await this.#write(folder, name, bytes)
      await this.#bound(folder)
    } catch (error) {
      throw new MailFailed(
        `the mail could not be written to a file (${error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'})`,
        true
      )
    }
  }

  async close(): Promise<void> {
    ;(await this.#composer)?.close()
  }

  async #write(folder: string, name: string, bytes: Uint8Array): Promise<void> {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    // Atomic rename: no partial mail under its final name.
    const unfinished = join(folder, `.${freshId()}`)
    try {
      const file = await open(unfinished, 'wx', 0o600)
      try {
        await file.writeFile(bytes)
      } finally {
        await file.close()
      }
      // The umask may have removed bits of the mode.
      await chmod(unfinished, 0o600)
      await rename(unfinished, join(folder, name))
    } catch (error) {
      await rm(unfinished, { force: true })
      throw error
    }
  }

  async #bound(folder: string): Promise<void> {
    const names = (await readdir(folder)).filter(name => NAME.test(name)).toSorted()
    const surplus = names.slice(0, Math.max(names.length - (this.#options.keep ?? KEEP), 0))
    // Another process may have removed them.
    await Promise.all(surplus.map(name => rm(join(folder, name), { force: true })))
  }
}
