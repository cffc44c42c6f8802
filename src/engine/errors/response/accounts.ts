import type { ResponseEntry } from '../entry.ts'

/** Accounts of merchants, their members and their mail. */
export const accountErrors = {
  BG_MERCHANT_NOT_FOUND: {
    status: 404,
    error: 'Merchant not found',
    cause: 'There is no such merchant.',
    cure: 'Compare the id.'
  },
  BG_EMAIL_TAKEN: {
    status: 409,
    error: 'A merchant with this email already exists',
    cause: 'Another account has this address.',
    cure: 'Take another one, or change that account.'
  },
  BG_WEBHOOK_URL_INVALID: {
    status: 400,
    cause: 'The webhook URL is no http(s) address.',
    cure: 'Send a whole address.'
  },
  BG_WEBHOOK_URL_BLOCKED: {
    status: 400,
    cause: 'The webhook URL leads to a host, port or range that is not called.',
    cure: 'Use a public https address.'
  },
  BG_WEBHOOK_MEMBERS_MISSING: {
    status: 400,
    error: 'webhookUrl or webhookSecret is required',
    cause: 'Neither was sent, so there is nothing to change.',
    cure: 'Send one of them.'
  },
  BG_WEBHOOK_URL_MISSING: {
    status: 400,
    error: 'No webhook URL is set',
    cause: 'There is nowhere to send it.',
    cure: 'Set one with `PUT /api/merchant/webhook-url`.'
  },
  BG_WEBHOOK_ENDPOINT_NOT_FOUND: {
    status: 404,
    error: 'Webhook endpoint not found',
    cause: "There is no such webhook endpoint, or it is another merchant's.",
    cure: 'See `GET /api/merchant/webhooks/endpoints`. The first one is changed with `PUT /api/merchant/webhook-url`.'
  },
  BG_WEBHOOK_ENDPOINT_OFF: {
    status: 400,
    error: 'The webhook endpoint is paused or was removed',
    cause: 'There is nowhere to send it.',
    cure: 'Resume the endpoint with `PUT /api/merchant/webhooks/endpoints/{endpointId}`.'
  },
  BG_DELIVERY_NOT_FOUND: {
    status: 404,
    error: 'Delivery not found',
    cause: "There is no such delivery, or it is another merchant's.",
    cure: 'Compare the id.'
  },
  BG_PENDING_NOT_FOUND: {
    status: 404,
    error: 'Pending subscription not found',
    cause: 'There is no such pending subscription.',
    cure: 'Compare the id.'
  },
  BG_PENDING_PROCESSED: {
    status: 400,
    cause: 'The pending subscription was approved or rejected before.',
    cure: 'Nothing.'
  },
  BG_JOB_NOT_FOUND: {
    status: 404,
    error: 'Failed job not found',
    cause: 'The job is no longer among the failed ones.',
    cure: 'Reload the dashboard.'
  }
} as const satisfies Record<string, ResponseEntry>
