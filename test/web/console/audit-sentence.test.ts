import t from 'tap'
import { auditSentence } from '../../../src/web/console/changes.ts'
import { speaking } from '../../../src/engine/formats/language.ts'
import { isAudited } from '../../../src/engine/operations/trail.ts'
import { startGateway } from '../../support/gateway.ts'
import { asPerson, sessionOf } from './session.ts'

await t.test('each action is one entry of the audit log, and one sentence without internal names', async t => {
  const gateway = await startGateway(t)
  const audited = gateway.operations.filter(
    operation =>
      isAudited(operation) &&
      (operation.access !== 'public' || /BillingCheckout|BitcoinSubscription/.test(operation.id))
  )
  t.ok(audited.length > 40, `${audited.length} operations`)
  for (const { id } of audited) {
    const sentence = auditSentence(id)
    t.match(sentence, /^(Chose|[A-Z][a-z]*(ed|ent)) /, `${id}: ${sentence}`)
    const german = speaking('de', () => auditSentence(id))
    t.not(german, sentence, `${id} in German`)
    t.notMatch(sentence, /\b(proxy|admin|get|submit|endpoint id|colour|storefront)\b/i, sentence)
    t.notMatch(sentence, /[a-z][A-Z]/, sentence)
  }
  for (const [id, sentence] of [
    ['createProxy', 'Created an API'],
    ['adminRegenerateKey', 'Replaced the API key'],
    ['adminRetryStorefrontOrder', 'Retried a store order'],
    ['setColour', 'Changed the brand color'],
    ['signInWithKey', 'Signed in with an API key']
  ] as const)
    t.equal(auditSentence(id), sentence)

  const cookie = await sessionOf(gateway, gateway.merchant.apiKey)
  await asPerson(gateway, cookie, '/console/settings', { do: 'colour', colour: '#112233', was: '' })
  const subscription = { plan: 'individual', email: 'buyer@example.com' }
  await gateway.merchantSend('POST', '/api/bitcoin/create-subscription', subscription)
  const { entries } = (await gateway.merchantSend('GET', '/api/merchant/audit?limit=1')).json() as {
    entries: Array<{ operation: string }>
  }
  t.equal(entries[0]?.operation, 'createBitcoinSubscription', 'buying a plan is an entry of its own')
  const operator = await sessionOf(gateway, gateway.adminKey)
  t.equal(
    (
      await asPerson(gateway, operator, `/operator/merchants/${gateway.merchant.id}`, {
        do: 'deactivate',
        was: 'active'
      })
    ).status,
    303
  )
  await asPerson(gateway, operator, `/operator/merchants/${gateway.merchant.id}`, {
    do: 'reactivate',
    was: 'deactivated'
  })
  const { text } = await asPerson(gateway, operator, '/operator/changes')
  const said = [...text.matchAll(/<th scope="row"[^>]*>(.*?)<\/th>/gs)].map(([, cell = '']) =>
    cell.replaceAll(/<[^>]*>/g, '')
  )
  t.match(said.slice(0, 3), [
    /^Reactivated the account$/,
    /^Suspended the account$/,
    /^Signed in with an API key from 127\.0\.0\.1$/
  ])
  t.notMatch(text, /submit get|Sent a form/)
})
