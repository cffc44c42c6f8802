import { sentWebhooks, webhookOperations, endpointOperations } from './operations.ts'
import { WebhookEndpoints, type WebhookEndpointsDependencies } from './endpoints.ts'
import { Webhooks, type WebhooksDependencies } from './service.ts'
import { WebhookStore } from './store.ts'

export function openWebhooks(
  dependencies: Omit<WebhooksDependencies, 'store' | 'endpoints' | 'times'> &
    Omit<WebhookEndpointsDependencies, 'store'>
) {
  const store = new WebhookStore(dependencies.database)
  const endpoints = new WebhookEndpoints({ ...dependencies, store })
  const webhooks = new Webhooks({ ...dependencies, store, endpoints })
  return {
    /** Write events in the caller's transaction. */
    paymentChanged: webhooks.paymentChanged.bind(webhooks),
    challengesPaid: webhooks.challengesPaid.bind(webhooks),
    storeOrderFailed: webhooks.storeOrderFailed.bind(webhooks),
    documented: sentWebhooks,
    operations: [...webhookOperations(webhooks), ...endpointOperations(endpoints, webhooks)],
    jobs: webhooks.jobs
  }
}
