import { join } from 'node:path'
import { parseSender } from '../../engine/config/formats.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Mailer, Sender } from './mail.ts'
import { FolderMailer } from './folder.ts'
import { Secret } from '../../platform/keys/secrets.ts'

/** Who files come from where nobody is named. */
const NOBODY: Sender = Object.freeze({ name: 'boltgate', address: 'boltgate@localhost' })

/** The mailer of a gateway: its mail server, or files in the folder `mail` of the data folder where there is none. */
export async function openMailer(
  config: Pick<GatewayConfig, 'mode' | 'data' | 'mail'>,
  around: { readonly clock: Clock; readonly log: Log }
): Promise<Mailer> {
  const { clock, log } = around
  const production = config.mode === 'production'
  const from = parseSender(config.mail.from) ?? NOBODY
  if (config.mail.smtp !== '') {
    // Loaded only where it is used, for the memory that it takes.
    const { SmtpMailer } = await import('./smtp.ts')
    return new SmtpMailer({ url: new Secret(config.mail.smtp), from, requireTls: production, clock })
  }
  const folder = join(config.data, 'mail')
  if (production)
    log.warn({ folder }, 'no mail server is configured (mail.smtp): mail is written to files and reaches nobody')
  return new FolderMailer({ folder, from, clock })
}
