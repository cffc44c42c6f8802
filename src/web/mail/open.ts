import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { Database, TransactionSql } from '../../platform/database/database.ts'
import type { Jobs } from '../../platform/jobs/jobs.ts'
import type { Sealer } from '../../platform/keys/secrets.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { openMailer } from './open-mailer.ts'
import { Outbox } from './outbox.ts'
import { receipts } from './receipt.ts'
import { refundMails } from './refund.ts'

/** What mail is opened with. */
export interface OpenMailParts {
  readonly clock: Clock
  readonly database: Database
  readonly jobs: Jobs
  readonly log: Log
  readonly merchants: Merchants
  readonly sealer: Sealer
  config(): Pick<GatewayConfig, 'data' | 'mail' | 'mode'>
}

/** Opens the way out for mail, and what is written to people about their money. */
export async function openMail({ clock, config, database, jobs, log, merchants, sealer }: OpenMailParts) {
  const mailer = await openMailer(config(), { clock, log })
  const outbox = new Outbox({ jobs, database, mailer, sealer, clock, log })
  const about = {
    outbox,
    merchantName: async (sql: TransactionSql, id: number) => (await merchants.within(sql).byId(id))?.name ?? null
  }
  return {
    outbox,
    /** Sends the receipt that a change of a payment is due. */
    sendReceipt: receipts(about),
    /** Tells whom a confirmed refund was made for. */
    tellRefunded: refundMails(about),
    operations: [],
    jobs: outbox.jobs,
    close: () => mailer.close()
  }
}
