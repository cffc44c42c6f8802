import { adminOperation } from '../../accounts/merchants/principal.ts'
import { pageRange, pageQuery } from '../../engine/operations/keyset.ts'
import { Type, type Static } from 'typebox'
import { isoTime, iso } from '../../engine/formats/iso-time.ts'
import { CONFLICT, RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { LINE, TEXT, nullableText } from '../../engine/formats/text-patterns.ts'
import { UNKNOWN_GRACE } from '../../lightning/providers/payout-states.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { RefundOverrides } from './refund-rules.ts'
import type { SessionRefunds } from './refunds.ts'
import { SESSION_VIEWS, type PrepaidSession, type SessionStore } from './store.ts'

const NullableTime = (description: string) => nullableText({ format: 'date-time', description })

const SessionView = Type.Object(
  {
    id: Type.String({ description: 'Payment hash of the first deposit; its balance has the same id.' }),
    depositedMsat: Type.Integer({ description: 'Millisatoshis, as what is spent and left.' }),
    spentMsat: Type.Integer(),
    balanceMsat: Type.Integer({ description: 'Remaining balance: deposits minus charges and refunds.' }),
    openedAt: isoTime(),
    usedAt: isoTime('Of its last request or deposit, to a tenth of its idle time.'),
    expiresAt: isoTime('When it is closed at the latest, so that its return invoice can still be paid.'),
    closedAt: NullableTime('Null while it is open.'),
    closedBy: nullableText('client, idle, end or operator.'),
    returnInvoice: Type.String({ description: 'Where what is left is paid back to.' }),
    refund: Type.Object({
      status: nullableText(
        'Null before it is sent, and while it waits to be sent again; pending and processing while it is looked up; confirmed, failed, or skipped where too little was left to send.'
      ),
      satoshis: Type.Integer(),
      feeSatoshis: Type.Integer({
        description: 'Routing fee, paid from what was withheld of the rest for it; 0 while it is not known.'
      }),
      reference: nullableText('Our own id of the payout, by which the provider is asked.'),
      providerPayoutId: nullableText("The provider's own id; null while it has not acknowledged the payout."),
      begunAt: NullableTime('When it was sent.'),
      askedAt: NullableTime(
        'When the provider was last asked to send it; later than begunAt where the request was lost and sent again.'
      ),
      endedAt: NullableTime('When it was confirmed or failed.'),
      fault: nullableText('Why it failed, or why it is to be sent again.'),
      retryAt: NullableTime('When it is sent again at the earliest; null where it is not.'),
      settledBy: nullableText('Who said what became of it, where it was settled by hand.'),
      settledWhy: nullableText('What showed it.')
    })
  },
  { title: 'PrepaidSession' }
)
export type PrepaidSessionView = Static<typeof SessionView>

const Query = Type.Object({
  view: Type.Optional(
    Type.Enum([...SESSION_VIEWS], {
      description:
        'Default: all, newest first. open: open sessions. stuck: closed sessions whose refund failed, or that could not be sent or was not acknowledged within ten minutes, oldest first.'
    })
  ),
  ...pageQuery
})
const Params = Type.Object({ sessionId: Type.String() })
const RefundInput = Type.Object(
  {
    returnInvoice: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 4096,
        pattern: LINE,
        description: 'Another invoice of the client, without an amount, where the one of the session cannot be paid.'
      })
    )
  },
  { title: 'SessionRefundInput' }
)
const SettlementInput = Type.Object(
  {
    outcome: Type.Enum(['sent', 'not-sent'], {
      description:
        "What the provider's own records show, or that it was paid by other means. not-sent ends its retries and lets it be sent again by hand: say it only where they surely show it."
    }),
    settledBy: Type.String({
      minLength: 1,
      maxLength: 200,
      pattern: `^(?=.*\\S)${LINE}`,
      'x-rule': 'Must have a visible character.',
      description: 'The person who decided. Stored.'
    }),
    reason: Type.String({
      minLength: 1,
      maxLength: 1000,
      pattern: `^(?=[^]*\\S)${TEXT}`,
      'x-rule': 'Must have a visible character.',
      description: 'The evidence. Stored.'
    })
  },
  { title: 'SessionSettlement' }
)

export function prepaidOperations({
  store,
  refunds,
  overrides,
  clock
}: {
  readonly store: SessionStore
  readonly refunds: SessionRefunds
  readonly overrides: RefundOverrides
  readonly clock: Clock
}): AnyOperation[] {
  const one = { description: 'The current state of the session.', schema: SessionView }
  const missing = 'There is no such session.'
  const found = async (id: string): Promise<PrepaidSession> => {
    const session = await store.find(id)
    if (session === null)
      throw new LongError(RESOURCE_NOT_FOUND, 'Session not found', 'There is no session with this id.')
    return session
  }
  return [
    defineOperation({
      ...adminOperation,
      id: 'adminListSessions',
      method: 'GET',
      path: '/api/admin/sessions',
      summary: 'Prepaid sessions, with those whose refund needs attention',
      description: 'Clients see what is left of a session at `GET /l402/balance` with its credential.',
      query: Query,
      responses: { 200: { description: 'A bare array.', schema: Type.Array(SessionView) } },
      handle: async ({ query }) => {
        const all = await store.list(query.view ?? 'all', clock.now() - UNKNOWN_GRACE, pageRange(query))
        return { status: 200, body: all.map(view) }
      }
    }),
    defineOperation({
      ...adminOperation,
      id: 'adminGetSession',
      method: 'GET',
      path: '/api/admin/sessions/:sessionId',
      summary: 'One prepaid session',
      description: 'Charges of its requests are at `GET /api/admin/balances/{balanceId}/entries`, with the same ID.',
      params: Params,
      responses: { 200: one, 404: missing },
      handle: async ({ params }) => ({ status: 200, body: view(await found(params.sessionId)) })
    }),
    defineOperation({
      ...adminOperation,
      id: 'adminCloseSession',
      method: 'POST',
      path: '/api/admin/sessions/:sessionId/close',
      summary: 'Close a session and pay back what is left',
      description:
        'As a client closes one: nothing more is served from it, and what is left is sent to its return invoice once. Streams that it pays for end.',
      params: Params,
      responses: { 200: one, 404: missing, 409: 'It is closed already.' },
      handle: async ({ params: { sessionId } }) => {
        await found(sessionId)
        if (!(await refunds.close(sessionId, 'operator')))
          throw new LongError(CONFLICT, 'Session closed', 'The session is closed already.')
        await refunds.refund(sessionId)
        return { status: 200, body: view(await found(sessionId)) }
      }
    }),
    defineOperation({
      ...adminOperation,
      id: 'adminRefundSession',
      method: 'POST',
      path: '/api/admin/sessions/:sessionId/refund',
      summary: 'Send a refund of a session now that is known not to have been sent',
      description:
        'Refunds that were certainly not sent are retried automatically; this sends one immediately, or after it failed, under another reference. What may have been sent is looked up until the provider says what became of it.',
      params: Params,
      body: RefundInput,
      responses: {
        200: one,
        400: 'The invoice cannot take the refund.',
        404: missing,
        409: 'The refund was sent, or may have been.'
      },
      handle: async ({ params, body }) => ({
        status: 200,
        body: view(await overrides.sendAgain(params.sessionId, body.returnInvoice ?? null))
      })
    }),
    defineOperation({
      ...adminOperation,
      id: 'adminSettleSessionRefund',
      method: 'POST',
      path: '/api/admin/sessions/:sessionId/settlement',
      summary: 'Settle the refund of a session by hand',
      description:
        'For a refund that the provider has not acknowledged ten minutes after it was sent, and for one that could not be sent. sent ends it; not-sent makes it fail, so that it is sent again by hand alone.',
      params: Params,
      body: SettlementInput,
      responses: {
        200: one,
        404: missing,
        409: 'It is settled, or may still be on its way.'
      },
      handle: async ({ params, body }) => ({
        status: 200,
        body: view(await overrides.settle(params.sessionId, body))
      })
    })
  ]
}

function view(session: PrepaidSession) {
  const { id, depositedMsat, spentMsat, refundedMsat, openedAt, usedAt, expiresAt, closedAt, closedBy } = session
  return {
    id,
    depositedMsat,
    spentMsat,
    balanceMsat: depositedMsat - spentMsat - refundedMsat,
    openedAt: iso(openedAt),
    usedAt: iso(usedAt),
    expiresAt: iso(expiresAt),
    closedAt: iso(closedAt),
    closedBy,
    returnInvoice: session.returnInvoice,
    refund: {
      status: session.refundStatus,
      satoshis: session.refundSats,
      feeSatoshis: session.refundFeeSats,
      reference: session.refundReference,
      providerPayoutId: session.refundPayoutId,
      begunAt: iso(session.refundBegunAt),
      askedAt: iso(session.refundAskedAt),
      endedAt: iso(session.refundEndedAt),
      fault: session.refundFault,
      retryAt: session.refundStatus === null && session.refundCheckAt !== null ? iso(session.refundCheckAt) : null,
      settledBy: session.settledBy,
      settledWhy: session.settledWhy
    }
  }
}
