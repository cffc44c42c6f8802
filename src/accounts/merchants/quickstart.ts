import { nullableText } from '../../engine/formats/text-patterns.ts'
import { t } from '../../engine/formats/language.ts'
import { Type, type Static } from 'typebox'
import { keyInSlot, providerOf } from '../../lightning/providers/slot-keys.ts'
import type { Merchant } from './schema.ts'

const Step = Type.Object(
  {
    stepNumber: Type.Integer(),
    title: Type.String(),
    description: Type.String(),
    endpoint: Type.String(),
    exampleRequest: nullableText('For a shell in which BOLTGATE_API_KEY holds the key.'),
    isCompleted: Type.Boolean(),
    isRequired: Type.Boolean()
  },
  { title: 'QuickstartStep' }
)
type Step = Static<typeof Step>

/** Response of `GET /api/merchant/quickstart` (contract, Quickstart). */
export const QuickstartView = Type.Object(
  {
    merchantId: Type.Integer(),
    merchantName: Type.String(),
    completedSteps: Type.Integer(),
    totalSteps: Type.Integer(),
    requiredStepsCompleted: Type.Integer(),
    requiredStepsTotal: Type.Integer(),
    isReadyForProduction: Type.Boolean({ description: 'Every required step is done.' }),
    steps: Type.Array(Step)
  },
  { title: 'Quickstart' }
)
export type QuickstartView = Static<typeof QuickstartView>

interface QuickstartProgress {
  /** Has a paid payment; demos count (decision 74). */
  readonly paid: boolean
  readonly sells: boolean
}

/** Steps to the first payment with their state (decision 74). `publicUrl` has no trailing slash. */
export function quickstart(merchant: Merchant, progress: QuickstartProgress, publicUrl: string): QuickstartView {
  const steps = stepsOf(merchant, progress, publicUrl)
  const required = steps.filter(step => step.isRequired)
  const requiredDone = required.filter(step => step.isCompleted)
  return {
    merchantId: merchant.id,
    merchantName: merchant.name,
    completedSteps: steps.filter(step => step.isCompleted).length,
    totalSteps: steps.length,
    requiredStepsCompleted: requiredDone.length,
    requiredStepsTotal: required.length,
    isReadyForProduction: requiredDone.length === required.length,
    steps
  }
}

function stepsOf(merchant: Merchant, progress: QuickstartProgress, publicUrl: string): Step[] {
  const slot = providerOf(merchant)
  const member = slot === 'primary' ? 'primaryApiKey' : 'alternateApiKey'
  const rows: ReadonlyArray<readonly [string, string, string, object | null, boolean]> = [
    [t('Create an account'), t('The account exists and its API key works.'), 'GET /api/merchant/me', null, true],
    [
      t('Save a payment provider key'),
      t`Invoices of this account are made by the ${slot} provider, with your own key there. It is stored encrypted and never shown.`,
      `PUT /api/merchant/${slot}-key`,
      { [member]: 'your-provider-key' },
      // Keys in the other slot do not count.
      keyInSlot(merchant, slot) !== null
    ],
    [
      t('Set a webhook URL'),
      t('Payments are reported there, signed with a secret that is shown once.'),
      'PUT /api/merchant/webhook-url',
      { webhookUrl: 'https://shop.example.com/webhooks' },
      merchant.webhookUrl !== null
    ],
    [
      t('Take a first payment'),
      t('Create a payment and have it paid. One with the amount 0 is a demo that confirms itself.'),
      'POST /api/payments',
      { orderId: 'first-order', amount: 0, currency: 'USD' },
      progress.paid
    ],
    [
      t('Sell an API'),
      t('Put a price on an API of yours, by a proxy or by challenges that you make.'),
      'POST /api/proxy',
      { name: 'My API', targetBaseUrl: 'https://api.example.com', defaultPriceSats: 10 },
      progress.sells
    ]
  ]
  return rows.map(([title, description, endpoint, body, isCompleted], at) => ({
    stepNumber: at + 1,
    title,
    description,
    endpoint,
    exampleRequest: curl(publicUrl, endpoint, body),
    isCompleted,
    isRequired: at < 4
  }))
}

/** A shell command. Our own bodies contain no apostrophes. */
function curl(publicUrl: string, endpoint: string, body: object | null): string {
  const [method, path] = endpoint.split(' ')
  const call = `curl -X ${method ?? ''} '${publicUrl}${path ?? ''}' -H "X-API-Key: $BOLTGATE_API_KEY"`
  return body === null ? call : `${call} -H 'Content-Type: application/json' -d '${JSON.stringify(body)}'`
}
