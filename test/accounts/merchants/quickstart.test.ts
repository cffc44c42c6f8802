import t from 'tap'
import { quickstart } from '../../../src/accounts/merchants/quickstart.ts'
import type { SealedValue } from '../../../src/platform/keys/secrets.ts'
import { aMerchant } from './a-merchant.ts'

const url = 'https://gw.example'
const nothing = { paid: false, sells: false }
const sealed: SealedValue = { ciphertext: 'sealed', place: { table: 'merchants', column: 'primary_key', row: '7' } }
const done = (...given: Parameters<typeof quickstart>) =>
  quickstart(...given)
    .steps.filter(step => step.isCompleted)
    .map(step => step.stepNumber)

for (const [what, completed, ready, merchant, progress] of [
  ['an account alone', [1], false, aMerchant(), nothing],
  ['a primary key', [1, 2], false, aMerchant({ primaryKey: sealed }), nothing],
  ['an alternate key alone', [1, 2], false, aMerchant({ alternateKey: sealed }), nothing],
  [
    'a key beside the chosen provider',
    [1],
    false,
    aMerchant({ providerChoice: 'alternate', primaryKey: sealed }),
    nothing
  ],
  ['a webhook URL', [1, 3], false, aMerchant({ webhookUrl: 'https://shop.example/hook' }), nothing],
  ['a paid payment', [1, 4], false, aMerchant(), { paid: true, sells: false }],
  ['a proxy or a challenge', [1, 5], false, aMerchant(), { paid: false, sells: true }],
  [
    'all that is required',
    [1, 2, 3, 4],
    true,
    aMerchant({ primaryKey: sealed, webhookUrl: 'https://shop.example/hook' }),
    { paid: true, sells: false }
  ],
  [
    'everything',
    [1, 2, 3, 4, 5],
    true,
    aMerchant({ primaryKey: sealed, webhookUrl: 'https://shop.example/hook' }),
    { paid: true, sells: true }
  ]
] as const) {
  t.test(
    `with ${what} the completed steps are ${completed.join(', ')}, and it is ${ready ? '' : 'not '}ready for production`,
    async t => {
      t.same(done(merchant, progress, url), completed)
      const view = quickstart(merchant, progress, url)
      t.equal(view.completedSteps, completed.length)
      t.equal(view.requiredStepsCompleted, completed.filter(step => step < 5).length)
      t.equal(view.isReadyForProduction, ready)
    }
  )
}
