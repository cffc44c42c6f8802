import { chmod, mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../platform/system/clock.ts'
import { freshId } from '../../platform/system/ids.ts'
import { MailFailed, messageOf, type Mail, type Mailer, type Sender } from './mail.ts'

export interface FolderOptions {
  readonly folder: string
  readonly from: Sender
  readonly clock: Clock
  /** Number of mails to keep; default 1,000. */
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
    const { message: bytes } = await (
      await (this.#composer ??= composer())
    ).sendMail({ ...message, envelope: { from: message.envelope.from, to: [...message.envelope.to] } })
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
