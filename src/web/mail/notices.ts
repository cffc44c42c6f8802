import { Type, type Static } from 'typebox'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { merchantOf, type MerchantPrincipal } from '../../accounts/merchants/principal.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import type { Database, TransactionSql } from '../../platform/database/database.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { factsMail, type Fact } from './facts-mail.ts'
import { isMailAddress } from './mail.ts'
import { type Outbox, oneLine, shortSubject } from './outbox.ts'

const HOUR = 3_600_000

/** Mails to an account about itself, by name. */
export const NOTICES = {
  webhook: { title: 'Webhook failed', words: 'A webhook was not delivered. There are no more retries.' },
  provider: {
    title: 'Provider key rejected',
    words: 'Your payment provider rejects your key. You cannot receive payments until you replace it.'
  },
  signIn: { title: 'New sign-in', words: 'Someone signed in to your account from a new browser.' },
  member: { title: 'New member', words: 'A new member was invited to your account.' }
} as const
export type NoticeName = keyof typeof NOTICES
const NAMES = Object.keys(NOTICES) as NoticeName[] /* the object's own keys */

const NoticeSettings = Type.Object(
  { off: Type.Array(Type.Enum(NAMES), { maxItems: NAMES.length, description: 'Mails that are not sent.' }) },
  { title: 'NoticeSettings' }
)
export type NoticeSettings = Static<typeof NoticeSettings>

export interface NoticeDependencies {
  readonly clock: Pick<Clock, 'now'>
  readonly database: Pick<Database, 'sql' | 'transaction'>
  readonly log: Log
  readonly merchants: Pick<Merchants, 'within'>
  readonly outbox: Pick<Outbox, 'queue'>
}

/** Mails an account what happened to it; at most one of a kind in each hour. Contains no secrets and no full addresses. */
export class Notices {
  readonly #dependencies: NoticeDependencies

  constructor(dependencies: NoticeDependencies) {
    this.#dependencies = dependencies
  }

  /** Queues a mail in the caller's transaction. */
  async queue(sql: TransactionSql, merchantId: number, name: NoticeName, facts: readonly Fact[]): Promise<void> {
    const merchant = await this.#dependencies.merchants.within(sql).byId(merchantId)
    if (merchant === null || !isMailAddress(merchant.email)) return
    const [off] = await sql`select 1 from notices_off where merchant_id = ${merchantId} and name = ${name}`
    if (off !== undefined) return
    const { title, words } = NOTICES[name]
    const mail = factsMail({
      to: merchant.email,
      subject: shortSubject(`${title}: ${oneLine(merchant.name)}`),
      heading: title,
      words,
      facts: facts.map(([key, value]) => [key, oneLine(value)] as const),
      why: 'You can turn these emails off in your account settings. Replies are not read.',
      // The queue takes an id once.
      id: `notice.${name}.${merchantId}.${Math.floor(this.#dependencies.clock.now() / HOUR)}`
    })
    await this.#dependencies.outbox.queue(sql, mail, `notice ${name} of merchant ${merchantId}`)
  }

  /** Outside a transaction. Never rejects: what it reports must not wait for it. */
  async send(merchantId: number, name: NoticeName, facts: readonly Fact[]): Promise<void> {
    try {
      await this.#dependencies.database.transaction(sql => this.queue(sql, merchantId, name, facts))
    } catch (error) {
      this.#dependencies.log.warn({ err: error, merchantId, notice: name }, 'a mail to a merchant could not be queued')
    }
  }

  /** Reports a sign-in whose browser, member or key the audit log does not have yet. Call before it does; never rejects. */
  async signedIn({ by, merchant }: MerchantPrincipal, browser: string, network: string): Promise<void> {
    const actor = by.kind === 'member' ? by.email : by.keyId
    try {
      const [known] = await this.#dependencies.database.sql`
        select 1 from audit where merchant_id = ${merchant.id} and actor = ${actor}
          and operation in ('signInWithKey', 'useSignInLink', 'signInWithPasskey')
          and coalesce(change->>'browser', '') = ${browser} limit 1`
      if (known !== undefined) return
    } catch (error) {
      this.#dependencies.log.warn(
        { err: error, merchantId: merchant.id },
        'a sign-in could not be compared with earlier ones'
      )
      return
    }
    await this.send(merchant.id, 'signIn', [
      ['By', by.kind === 'member' ? by.email : 'API key'],
      ['Browser', browser === '' ? 'Unknown' : browser],
      ['Network', network]
    ])
  }

  get operations(): AnyOperation[] {
    const { database } = this.#dependencies
    const common = { path: '/api/merchant/notices', tag: 'Merchant', access: 'merchant' } as const
    const responses = { 200: { description: 'What is set.', schema: NoticeSettings } }
    return [
      defineOperation({
        ...common,
        id: 'getNotices',
        method: 'GET',
        mount: { use: 'merchant-api', chain: 'settings-read' },
        summary: 'Which mails about the account are off',
        description: `${NAMES.join(', ')}: sent to the account's address, at most one of a kind in an hour.`,
        responses,
        handle: async ({ ctx }) => {
          const rows = await database.sql<Array<{ name: NoticeName }>>`
            select name from notices_off where merchant_id = ${merchantOf(ctx).id} order by name`
          return { status: 200, body: { off: rows.map(({ name }) => name) } }
        }
      }),
      defineOperation({
        ...common,
        id: 'setNotices',
        method: 'PUT',
        mount: { use: 'merchant-api', chain: 'settings-write' },
        summary: 'Turn mails about the account off, or on again',
        description: 'Mails that `off` does not name are on.',
        body: NoticeSettings,
        responses,
        handle: async ({ ctx, body }) => {
          const off = [...new Set(body.off)].sort()
          await database.transaction(async sql => {
            await sql`delete from notices_off where merchant_id = ${merchantOf(ctx).id}`
            await sql`
              insert into notices_off (merchant_id, name) select ${merchantOf(ctx).id}, unnest(${off}::text[])
              on conflict do nothing`
          })
          return { status: 200, body: { off } }
        }
      })
    ]
  }
}
