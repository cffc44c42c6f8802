import { Type } from 'typebox'
import type { Context } from '../../engine/message/context.ts'
import { FORBIDDEN } from '../../engine/operations/error-kinds.ts'
import { LongError } from '../../engine/operations/errors.ts'
import { isTest, defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { isLocalCaller } from '../../engine/message/caller.ts'
import type { SandboxProvider } from '../kinds/sandbox/sandbox.ts'
import { defineError } from '../../platform/system/errors.ts'

const SANDBOX_DISABLED = defineError('BG_SANDBOX_DISABLED', {
  status: 403,
  title: 'Sandbox disabled',
  cause: 'The payment provider of this gateway is not the sandbox, so it pays no invoices.',
  fix: 'Pay the invoice with a wallet.'
})

const Payment = Type.Object(
  {
    preimage: Type.String({ description: '64 lower-case hex characters.' }),
    paymentHash: Type.String({ description: '64 lower-case hex characters.' }),
    amountSats: Type.Integer()
  },
  { title: 'SandboxPayment' }
)

const ofInvoice = {
  invoice: Type.String({
    minLength: 1,
    maxLength: 8192,
    description: 'A BOLT 11 invoice of the sandbox, with or without the prefix `lightning:`.'
  })
}

const StateView = Type.Object(
  {
    paymentHash: Type.String({ description: '64 lower-case hex characters.' }),
    state: Type.Enum(['processing', 'underpaid', 'expired']),
    amountSats: Type.Integer(),
    receivedSats: Type.Integer()
  },
  { title: 'SandboxInvoiceState' }
)

interface ProviderOperations {
  /** Null without a sandbox. */
  readonly sandbox: SandboxProvider | null
  readonly mode: 'development' | 'production'
  /** Called for each paid invoice before the payer gets a response; should not reject. */
  readonly onSettled?: (paymentHash: string) => void | Promise<void>
  /** Called for each other state change; should not reject. */
  readonly onChanged?: (paymentHash: string) => void | Promise<void>
}

/**
 * `POST /sandbox/pay` pays a sandbox invoice, `POST /sandbox/state` changes its state. Their chain needs optional `auth`
 * first, which counts and refuses wrong keys.
 */
export function providerOperations(options: ProviderOperations): AnyOperation[] {
  // In production test accounts alone have invoices of the sandbox.
  const use = options.mode === 'production' ? 'merchant-api' : 'sandbox'
  const mount = { use, chain: 'service-sandbox' } as const
  return [
    defineOperation({
      id: 'paySandboxInvoice',
      method: 'POST',
      path: '/sandbox/pay',
      mount,
      summary: 'Pay an invoice of the sandbox provider',
      description:
        'Replaces a wallet: no money moves, and everything that follows from a payment happens. From this machine or with the admin key ' +
        'in development; with the API key of a test account everywhere.',
      tag: 'Sandbox',
      access: 'public',
      unaudited: true,
      body: Type.Object(ofInvoice),
      responses: {
        200: { description: 'Paid. Paying it again returns the same preimage.', schema: Payment },
        400: 'Not an invoice, or one that has expired.',
        401: 'A key was sent, and it is not valid.',
        403: 'The sandbox is off, or the caller may not pay here.',
        404: 'Not an invoice of this sandbox.',
        503: 'The sandbox cannot be asked at the moment.'
      },
      handle: async ({ body, ctx }) => {
        const payment = await sandboxFor(options, ctx).settle(body.invoice)
        await options.onSettled?.(payment.paymentHash)
        return { status: 200, body: payment }
      }
    }),
    defineOperation({
      id: 'setSandboxState',
      method: 'POST',
      path: '/sandbox/state',
      mount,
      summary: 'Set an invoice of the sandbox to a state other than paid',
      description:
        'Tries what happens when a payment is on its way, comes in part or is never paid: its status changes and its webhook is sent, ' +
        'as if a provider had said so. For the callers of /sandbox/pay.',
      tag: 'Sandbox',
      access: 'public',
      unaudited: true,
      body: Type.Object({
        ...ofInvoice,
        state: Type.Enum(['processing', 'underpaid', 'expired'], {
          description: 'New state. A payment that is processing or underpaid can still be paid.'
        }),
        receivedSats: Type.Optional(
          Type.Integer({
            minimum: 1,
            maximum: 2_100_000_000_000_000,
            description: 'Amount received by an underpaid payment. Defaults to half.'
          })
        )
      }),
      responses: {
        200: { description: 'The invoice has that state.', schema: StateView },
        400: 'Not an invoice, or the amount is not a part of it.',
        401: 'A key was sent, and it is not valid.',
        403: 'The sandbox is off, or the caller may not pay here.',
        404: 'Not an invoice of this sandbox.',
        409: 'It is paid, has expired, or has as much of its amount already.',
        503: 'The sandbox cannot be asked at the moment.'
      },
      handle: async ({ body, ctx }) => {
        const brought = await sandboxFor(options, ctx).bring(body.invoice, body.state, body.receivedSats ?? null)
        await options.onChanged?.(brought.paymentHash)
        return { status: 200, body: brought }
      }
    })
  ]
}

/** @throws LongError 403 for callers without access */
function sandboxFor({ mode, sandbox }: ProviderOperations, ctx: Context): SandboxProvider {
  const byTestKey = ctx.principal?.kind === 'merchant' && isTest(ctx.principal.id)
  if (sandbox === null || (mode === 'production' && !byTestKey)) {
    throw new LongError(
      SANDBOX_DISABLED,
      'Sandbox disabled',
      'This gateway pays invoices of test accounts alone, with the API key of one.'
    )
  }
  if (!byTestKey && ctx.principal?.kind !== 'admin' && !isLocalCaller(ctx)) {
    throw new LongError(
      FORBIDDEN,
      'Forbidden',
      "Invoices of the sandbox are paid from the gateway's own machine, or with the admin key or a test account's key in X-API-Key."
    )
  }
  return sandbox
}
