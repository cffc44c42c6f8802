import { sentWebhooks } from './events.ts'
import { endpointOperations } from './endpoint-operations.ts'
import { WebhookEndpoints, type WebhookEndpointsParts } from './endpoints.ts'
import { webhookOperations } from './operations.ts'
import { Webhooks, type WebhooksParts } from './service.ts'
import { SqlWebhookStore } from './store.ts'

export function openWebhooks(
  parts: Omit<WebhooksParts, 'store' | 'endpoints' | 'times'> & Omit<WebhookEndpointsParts, 'store'>
) {
  const store = new SqlWebhookStore(parts.database)
  const endpoints = new WebhookEndpoints({ ...parts, store })
  const webhooks = new Webhooks({ ...parts, store, endpoints })
  return {
    /** Write events in the caller's transaction. */
    paymentChanged: webhooks.paymentChanged.bind(webhooks),
    challengesPaid: webhooks.challengesPaid.bind(webhooks),
    storeOrderFailed: webhooks.storeOrderFailed.bind(webhooks),
    documented: sentWebhooks,
    operations: [...webhookOperations(webhooks), ...endpointOperations(endpoints, webhooks)],
    jobs: webhooks.jobs,
    close: () => {}
  }
}
