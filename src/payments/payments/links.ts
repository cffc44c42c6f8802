import { hash } from 'node:crypto'
import type { SubscriptionGate } from '../../accounts/merchants/gate.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import {
  RATE_LIMITED,
  REQUEST_IN_PROGRESS,
  RESOURCE_NOT_FOUND,
  VALIDATION
} from '../../engine/operations/error-kinds.ts'
import { GatewayError, LongError, ShortError } from '../../engine/operations/errors.ts'
import { invalidField } from '../../engine/operations/field-errors.ts'
import type { Currency } from '../../lightning/money/prices.ts'
import { readDecimal } from '../../lightning/money/decimal.ts'
import type { Database } from '../../platform/database/database.ts'
import { integer, moment, optional, records, text, type RecordOf } from '../../platform/database/rows.ts'
import { pause, type Clock } from '../../platform/system/clock.ts'
import { randomToken, type Random } from '../../platform/system/ids.ts'
import { checkInput, requireCurrency } from './creator.ts'
import { type Payment, PaymentInput } from './schema.ts'
import type { Payments } from './service.ts'
import { Type, type Static } from 'typebox'
import { merchantOperation, settingsRead, settingsWrite } from '../../accounts/merchants/principal.ts'
import { iso, isoTime } from '../../engine/formats/iso-time.ts'
import { nullableText } from '../../engine/formats/text-patterns.ts'
import { type AnyOperation } from '../../engine/operations/operation.ts'

/** An address at which each payer gets a payment of their own. */
const linkColumns = {
  /** 22 random characters; anyone who has it may pay. */
  linkId: text(),
  merchantId: integer(),
  /** Null where the payer chooses it. */
  amount: optional(text()),
  currency: text<Currency>(),
  description: optional(text()),
  createdAt: moment()
}
export type PaymentLink = RecordOf<typeof linkColumns>
const linkRows = records(linkColumns)

interface PaymentLinkDependencies {
  readonly clock: Clock
  readonly database: Database
  readonly gate: SubscriptionGate
  readonly payments: Payments
  readonly random: Random
  readonly merchants: Pick<Merchants, 'byId'>
}

const MOST_LINKS = 100
/** Looks for the payment of the same form, and milliseconds between them. */
const WAITS = 100
const WAIT = 100
/**
 * Unpaid invoices of one link, and of one client network. Each costs the provider a call, and anonymous clients make
 * them: one of them must not stop the others.
 */
const MOST_OPEN = 200
const MOST_OF_CLIENT = 10

export class PaymentLinks {
  readonly #dependencies: PaymentLinkDependencies

  constructor(dependencies: PaymentLinkDependencies) {
    this.#dependencies = dependencies
  }

  /** @throws ValidationError 400, ShortError 400 for an amount that its currency does not allow, and for too many links, GateError 403 */
  async create(
    merchant: Merchant,
    {
      amount = null,
      currency,
      description
    }: Pick<PaymentInput, 'currency' | 'description'> & {
      readonly amount?: number | string | null
    }
  ): Promise<PaymentLink> {
    const { clock, database, gate, random } = this.#dependencies
    const fixed = amount === null ? null : requestedPrice({ amount, currency }).amount
    await requireCurrency(gate, merchant, currency, clock.now())
    const merchantId = merchant.id
    const link: PaymentLink = {
      linkId: randomToken(16, random),
      merchantId,
      amount: fixed,
      currency,
      description: description ?? null,
      createdAt: clock.now()
    }
    await database.transaction(async sql => {
      await sql`select 1 from merchants where id = ${merchantId} for update`
      const [row] = await sql<Array<{ held: number }>>`
        select count(*)::int as held from payment_links where merchant_id = ${merchantId}`
      if ((row?.held ?? 0) >= MOST_LINKS)
        throw new ShortError(VALIDATION, `An account has at most ${MOST_LINKS} payment links. Remove one first.`)
      await sql`insert into payment_links ${sql(linkRows.write(sql, link))}`
    })
    return link
  }

  /** Newest first. */
  list({ id }: Merchant): Promise<PaymentLink[]> {
    return linkRows.all(this.#dependencies.database.sql`
      select * from payment_links where merchant_id = ${id} order by created_at desc, link_id`)
  }

  /** @throws ShortError 404 */
  async remove({ id }: Merchant, linkId: string): Promise<void> {
    const gone = await this.#dependencies.database.sql`
      delete from payment_links where merchant_id = ${id} and link_id = ${storable(linkId)}`
    if (gone.count === 0) throw new ShortError(RESOURCE_NOT_FOUND, 'Payment link not found')
  }

  /** Null for an unknown link, and while its merchant may take no payments. */
  async find(linkId: string): Promise<{ readonly link: PaymentLink; readonly merchant: Merchant } | null> {
    const { clock, database, gate } = this.#dependencies
    const link = await linkRows.one(database.sql`select * from payment_links where link_id = ${storable(linkId)}`)
    const merchant = link === null ? null : await this.#dependencies.merchants.byId(link.merchantId)
    if (link === null || merchant === null) return null
    return (await gate.refusal(merchant, null, clock.now())) === null ? { link, merchant } : null
  }

  /**
   * A payment of a payer; the same for the same `key`.
   * @param amount the payer's, where the link has none
   * @param client the payer's network
   * @throws ValidationError 400 for its amount, LongError 429 with too many open invoices; else as `Payments.create`
   */
  async pay(merchant: Merchant, link: PaymentLink, amount: string, key: string, client: string): Promise<Payment> {
    const { linkId, currency, description } = link
    const given = link.amount ?? requestedPrice({ amount, currency }).amount
    const order = `link-${linkId}-`
    // Too short to tell an address.
    const own = `${order}${digest(`${linkId} ${client}`).slice(0, 4)}`
    const { clock, payments } = this.#dependencies
    const fingerprint = digest(`${linkId} ${given} ${key}`)
    const input: PaymentInput = {
      // The same for a repeated form, so that it makes one payment.
      orderId: `${own}${fingerprint.slice(0, 16)}`,
      amount: given,
      currency,
      ...(description === null ? {} : { description }),
      metadata: { paymentLink: linkId }
    }
    const idempotency = { key: `link-${fingerprint}`, fingerprint }
    for (let tries = 1; ; tries++) {
      try {
        return (
          await payments.createOnce(merchant, input, 'payment', idempotency, () =>
            this.#requireRoom(merchant.id, order, own)
          )
        ).made
      } catch (error) {
        // The same form, sent twice: a person waits for the first, where a program comes again.
        if (!(error instanceof GatewayError) || error.kind !== REQUEST_IN_PROGRESS || tries === WAITS) throw error
        await pause(clock, WAIT)
      }
    }
  }

  /** Counts the caller's own reservation, so concurrent callers cannot exceed the limit. */
  async #requireRoom(merchantId: number, order: string, own: string): Promise<void> {
    const { clock, database } = this.#dependencies
    const now = new Date(clock.now())
    const [row] = await database.sql<Array<{ open: number; own: number }>>`
      select count(*)::int as open, (count(*) filter (where starts_with(order_id, ${own})))::int as own
      from (select order_id from payments
        where merchant_id = ${merchantId} and status = 'unpaid' and expires_at > ${now}
          and created_at > ${new Date(clock.now() - LONGEST_INVOICE)}
        union all select order_id from payment_reservations
        where merchant_id = ${merchantId} and held_until > ${now}) as waiting
      where starts_with(order_id, ${order})`
    if (row !== undefined && (row.open > MOST_OPEN || row.own > MOST_OF_CLIENT))
      throw new LongError(
        RATE_LIMITED,
        RATE_LIMITED.title,
        'Too many payments of this link are waiting. Try again in a few minutes.'
      )
  }
}

function digest(text: string): string {
  return hash('sha256', text)
}

/** No invoice of a payment is good for longer. */
const LONGEST_INVOICE = 86_400_000

/** @throws ValidationError 400, ShortError 400. An amount of 0 would be a demo, which pays itself. */
function requestedPrice({ amount, currency }: Pick<PaymentInput, 'amount' | 'currency'>) {
  if (readDecimal(amount)?.digits === 0n) throw invalidField('/amount', 'Must be more than 0.')
  return checkInput({ orderId: 'link', amount, currency })
}

/** The database rejects some texts. */
function storable(linkId: string): string {
  return /^[A-Za-z0-9_-]{22}$/.test(linkId) ? linkId : ''
}

const { amount, currency, description } = PaymentInput.properties

const PaymentLinkView = Type.Object(
  {
    linkId: Type.String(),
    url: Type.String({
      format: 'uri',
      description: 'Page on which anyone can pay; each payer gets an invoice of their own.'
    }),
    amount: nullableText('Decimal in `currency`; null where the payer chooses it.'),
    currency,
    description: nullableText('As it was given.'),
    createdAt: isoTime()
  },
  { title: 'PaymentLink' }
)
export type PaymentLinkView = Static<typeof PaymentLinkView>

/** Links that a merchant sends or prints. `publicUrl` has no trailing slash. */
export function linkOperations(links: PaymentLinks, publicUrl: () => string): AnyOperation[] {
  const view = ({ linkId, amount, currency, description, createdAt }: PaymentLink): PaymentLinkView => ({
    linkId,
    url: `${publicUrl()}/pay/to/${linkId}`,
    amount,
    currency,
    description,
    createdAt: iso(createdAt)
  })
  return [
    merchantOperation({
      ...settingsWrite,
      tag: 'Payments',
      id: 'createPaymentLink',
      method: 'POST',
      path: '/api/merchant/payment-links',
      summary: 'Make a link on which anyone can pay',
      description:
        'Each payer gets a payment of their own, with `metadata.paymentLink`. An account has at most 100 links.',
      body: Type.Object({
        amount: Type.Optional(amount),
        currency,
        description
      }),
      responses: { 201: { description: 'The link.', schema: PaymentLinkView } },
      handle: async ({ merchant, body }) => view(await links.create(merchant, body))
    }),
    merchantOperation({
      ...settingsRead,
      tag: 'Payments',
      id: 'listPaymentLinks',
      path: '/api/merchant/payment-links',
      summary: 'All payment links, newest first',
      description: 'Removed ones are not among them.',
      responses: { 200: { description: 'A bare array.', schema: Type.Array(PaymentLinkView) } },
      handle: async ({ merchant }) => (await links.list(merchant)).map(view)
    }),
    merchantOperation({
      ...settingsWrite,
      tag: 'Payments',
      id: 'deletePaymentLink',
      method: 'DELETE',
      path: '/api/merchant/payment-links/:linkId',
      summary: 'Remove a payment link',
      description: 'Its page answers 404 from then on. Payments made with it stay.',
      params: Type.Object({ linkId: Type.String() }),
      responses: { 204: { description: 'Removed.' }, 404: "There is no such link, or it is another merchant's." },
      handle: ({ merchant, params }) => links.remove(merchant, params.linkId)
    })
  ]
}
