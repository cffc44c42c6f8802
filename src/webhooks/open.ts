import { sentWebhooks } from './documented.ts'
import { webhookOperations } from './operations.ts'
import { Webhooks, type WebhooksParts } from './service.ts'
import { SqlWebhookStore } from './store.ts'

/** Opens what merchants are told. */
export function openWebhooks(parts: Omit<WebhooksParts, 'store' | 'times'>) {
  const webhooks = new Webhooks({ ...parts, store: new SqlWebhookStore(parts.database) })
  return {
    /** Write events, each in the transaction of what it tells of. */
    paymentChanged: webhooks.paymentChanged.bind(webhooks),
    challengesPaid: webhooks.challengesPaid.bind(webhooks),
    storeOrderFailed: webhooks.storeOrderFailed.bind(webhooks),
    /** What is sent, for the documents. */
    documented: sentWebhooks,
    operations: webhookOperations(webhooks),
    jobs: webhooks.jobs,
    close: () => {}
  }
}
