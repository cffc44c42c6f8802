import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { Database, TransactionSql } from '../../platform/database/database.ts'
import type { Jobs } from '../../platform/jobs/jobs.ts'
import { type Sealer, Secret } from '../../platform/keys/secrets.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { Notices, receipts, refundMails } from './notices.ts'
import { Outbox } from './outbox.ts'
import { join } from 'node:path'
import { parseSender } from '../../engine/config/formats.ts'
import type { Mailer, Sender } from './mail.ts'
import { FolderMailer } from './smtp.ts'

/** Default sender of mail files. */
const DEFAULT_SENDER: Sender = Object.freeze({ name: 'boltgate', address: 'boltgate@localhost' })

export async function openMailer(
  config: Pick<GatewayConfig, 'mode' | 'data' | 'mail'>,
  around: { readonly clock: Clock; readonly log: Log }
): Promise<Mailer> {
  const { clock, log } = around
  const production = config.mode === 'production'
  const from = parseSender(config.mail.from) ?? DEFAULT_SENDER
  if (config.mail.smtp !== '') {
    // Lazy, to save memory.
    const { SmtpMailer } = await import('./smtp.ts')
    return new SmtpMailer({ url: new Secret(config.mail.smtp), from, requireTls: production, clock })
  }
  const folder = join(config.data, 'mail')
  if (production)
    log.warn({ folder }, 'no mail server is configured (mail.smtp): mail is written to files, not delivered')
  return new FolderMailer({ folder, from, clock })
}

export async function openMail({
  clock,
  config,
  database,
  jobs,
  log,
  merchants,
  sealer
}: {
  readonly clock: Clock
  readonly database: Database
  readonly jobs: Jobs
  readonly log: Log
  readonly merchants: Merchants
  readonly sealer: Sealer
  config(): Pick<GatewayConfig, 'data' | 'mail' | 'mode'>
}) {
  const mailer = await openMailer(config(), { clock, log })
  const outbox = new Outbox({ jobs, database, mailer, sealer, clock, log })
  const about = {
    outbox,
    merchant: (sql: TransactionSql, id: number) => merchants.within(sql).byId(id)
  }
  const notices = new Notices({ clock, database, log, merchants, outbox })
  return {
    notices,
    outbox,
    sendReceipt: receipts(about),
    tellRefunded: refundMails(about),
    operations: notices.operations,
    jobs: outbox.jobs,
    close: () => mailer.close()
  }
}
