import type { OperationText } from '../../engine/operations/operation.ts'

const byToken = { payToken: 'uJ0mZ5q3W8nX1rT6vY2bC4dE7fG9hK0lM3nP5qR8sTw' }

/** What OpenAPI says of the pay page and of what it loads. */
export const pageTexts: Readonly<Record<string, OperationText>> = {
  getPayPage: {
    description:
      'The invoice as a code to scan, with amount and time left; it follows the payment and leads on to successUrl. ' +
      'Whoever has the address sees the invoice: treat it as a secret.',
    example: { params: byToken }
  },
  followPayment: {
    description:
      'What keeps a pay page up to date. A client that loses the connection asks again and is told the status at once.',
    example: { params: byToken, responses: { 200: 'event: status\ndata: {"status":"paid"}\n\n' } }
  },
  getPayStatus: {
    description: 'For pages that cannot follow events: ask every few seconds.',
    example: { params: byToken, responses: { 200: { status: 'unpaid' } } }
  },
  payOnPayPage: {
    description:
      "Does what POST /sandbox/pay does, for a browser on the gateway's own machine, without a program. There is no such button on " +
      'invoices of real providers.',
    example: { params: byToken }
  },
  getPageStyle: {
    description:
      'A hash of the content stands in the name; only the names that the pages of this version use are there.',
    example: { params: { name: 'pay-0123456789ab' } }
  },
  getPageScript: {
    description:
      'A hash of the content stands in the name; only the names that the pages of this version use are there.',
    example: { params: { name: 'pay-0123456789ab' } }
  }
}
