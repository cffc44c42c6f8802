import { sandboxPayCommand, type PayableSource, type Shown } from './payable.ts'
import { Type } from 'typebox'
import { FORBIDDEN, RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { LongError, ShortError } from '../../engine/operations/errors.ts'
import { EVENT_STREAM_HEADERS } from '../../engine/formats/event-stream.ts'
import type { SandboxWallet } from '../../lightning/providers/open.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { PaymentStatusView, type Payment } from '../../payments/payments/schema.ts'
import { asOf, statusAt } from '../../payments/payments/changes.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import { assetNames, assetOperations } from '../kit/assets.ts'
import { FORM_PAGE_HEADERS, asHtml, PAGE_HEADERS } from '../kit/document.ts'
import { missingPage, payPage, linkPageOperations, type PaymentLinkPages } from './pay-page.ts'
import { isFinalStatus } from './pay-view.ts'
import { paymentEvents } from './payment-events.ts'

export interface PayPageDependencies {
  readonly payments: {
    /** Null for an unknown token. */
    byPayToken(token: string): Promise<Payment | null>
    /** Calls `changed` after each change of the invoice's payable, until unsubscribed. */
    watch(invoiceId: string, changed: () => void): () => void
  }
  readonly links: PaymentLinkPages
  readonly others?: readonly PayableSource[]
  readonly merchants: { byId(id: number): Promise<{ readonly name: string } | null> }
  readonly clock: Clock
  readonly log: Log
  publicUrl(): string
  readonly sandbox: SandboxWallet | null
}

/**
 * 32 random bytes in base64url (decision 53), or the sealed order of a store. Other forms are not looked up:
 * `/pay/<invoiceId>` must not work.
 */
const TOKEN = /^[\w.-]+$/
const SHORTEST = 43
const LONGEST = 300

const PayToken = Type.Object({ payToken: Type.String() })

const common = {
  tag: 'pages',
  access: 'public',
  mount: { use: ['pages', 'storefront'], chain: 'page-forms', below: '/pay/*' },
  params: PayToken
} as const

/** Opens the hosted checkout page, its events and assets. The address is the only authorization. */
export function openPages(dependencies: PayPageDependencies): { readonly operations: AnyOperation[] } {
  const { payments, clock, log } = dependencies
  const assets = assetNames()
  const missing = () => ({ status: 404, body: missingPage(assets), headers: PAGE_HEADERS })
  const find = (token: string): Promise<Shown | null> =>
    token.length >= SHORTEST && token.length <= LONGEST && TOKEN.test(token)
      ? shownBy(dependencies, token)
      : Promise.resolve(null)
  const notFound = () => new ShortError(RESOURCE_NOT_FOUND, 'Payment not found')
  const known = async (token: string): Promise<Shown> => {
    const found = await find(token)
    if (found === null) throw notFound()
    return found
  }
  const operations = [
    defineOperation({
      ...common,
      id: 'getPayPage',
      method: 'GET',
      path: '/pay/:payToken',
      summary: 'The hosted checkout page of a payment',
      description:
        'The invoice as a code to scan, with amount and time left; it follows the payment and leads on to successUrl. ' +
        'Anyone with the address sees the invoice: treat it as a secret.',
      responses: {
        200: asHtml('The page; also of payments that are paid or have expired.'),
        404: asHtml('A page that says that there is no such payment.')
      },
      async handle({ ctx, params }) {
        const found = await find(params.payToken)
        if (found === null) return missing()
        const now = clock.now()
        const payment = asOf(found.payable, now)
        const isSandbox = dependencies.sandbox !== null && payment.kind === 'sandbox'
        const sandboxCommand = isSandbox ? sandboxPayCommand(dependencies.publicUrl(), payment.invoice) : null
        const sandboxAction =
          isSandbox && payment.status === 'unpaid' && dependencies.sandbox?.mayPay(ctx) === true
            ? `${params.payToken}/sandbox`
            : null
        return {
          status: 200,
          body: payPage({ payment, merchantName: found.payee, now, sandboxCommand, sandboxAction }, assets),
          headers: sandboxAction === null ? PAGE_HEADERS : FORM_PAGE_HEADERS
        }
      }
    }),
    defineOperation({
      ...common,
      id: 'followPayment',
      method: 'GET',
      path: '/pay/:payToken/events',
      summary: "Changes of a payment's status as server-sent events",
      description: 'Keeps a pay page up to date. After a reconnect the stream starts with the current status.',
      responses: {
        200: {
          description:
            'Events named `status` whose data is `{"status": "…"}`: one on connect, one per change. The stream ends after `paid`, `expired` or `refunded`.',
          mediaType: 'text/event-stream'
        },
        404: 'There is no such payment.'
      },
      async handle({ params }) {
        const { payable } = await known(params.payToken)
        const body = paymentEvents(payable, {
          byPayToken: async token => (await find(token))?.payable ?? null,
          watch: (id, changed) => payments.watch(id, changed),
          clock,
          log
        })
        return { status: 200, body, headers: EVENT_STREAM_HEADERS }
      }
    }),
    defineOperation({
      ...common,
      id: 'getPayStatus',
      method: 'GET',
      path: '/pay/:payToken/status',
      summary: 'The status of a pay page, for anyone who has its URL',
      description: 'For pages that cannot follow events: ask every few seconds.',
      responses: {
        200: { description: 'The status and nothing else.', schema: PaymentStatusView },
        404: 'There is no such payment.'
      },
      handle: async ({ params }) => {
        const { payable } = await known(params.payToken)
        return { status: 200, body: { status: statusAt(payable, clock.now()) } }
      }
    }),
    defineOperation({
      ...common,
      id: 'payOnPayPage',
      method: 'POST',
      path: '/pay/:payToken/sandbox',
      summary: 'Pay what a pay page shows at the sandbox, by the button of the page',
      description:
        "Does what POST /sandbox/pay does, for a browser on the gateway's own machine, without a program. There is no such button on " +
        'invoices of real providers.',
      tag: 'Sandbox',
      responses: {
        303: { description: 'Paid, or it could not be paid any more; the page at `Location` shows which.' },
        403: 'The caller is not on this machine. Other callers pay with POST /sandbox/pay and the admin key.',
        404: 'There is no such payment, or the sandbox did not make its invoice.'
      },
      async handle({ ctx, params }) {
        const { payable } = await known(params.payToken)
        const { sandbox } = dependencies
        if (sandbox === null || payable.kind !== 'sandbox') throw notFound()
        if (!sandbox.mayPay(ctx))
          throw new LongError(FORBIDDEN, 'Forbidden', "The button pays from the gateway's own machine alone.")
        if (!isFinalStatus(statusAt(payable, clock.now()))) await sandbox.pay(payable.invoice)
        return { status: 303, body: null, headers: ['Location', `../${params.payToken}`, ...FORM_PAGE_HEADERS] }
      }
    }),
    ...linkPageOperations(dependencies.links, assets),
    ...assetOperations()
  ]
  return { operations }
}

/** The payable of a token: a payment, else another source's. */
async function shownBy(
  { payments, merchants, others = [] }: PayPageDependencies,
  token: string
): Promise<Shown | null> {
  const payment = await payments.byPayToken(token)
  if (payment !== null) {
    const payee = await merchants.byId(payment.merchantId)
    if (payee === null)
      throw new TypeError(`payment ${payment.invoiceId} is of merchant ${payment.merchantId}, who does not exist`)
    return { payable: payment, payee: payee.name }
  }
  for (const other of others) {
    const found = await other.byPayToken(token)
    if (found !== null) return found
  }
  return null
}
