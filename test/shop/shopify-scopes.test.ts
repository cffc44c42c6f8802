/** What a merchant must allow the app, by what the published schema says of each topic and mutation. */
import t from 'tap'
import { NOTICE_SCOPE, SCOPES, TOPICS } from '../../src/shop/shopify/operations.ts'
import { adminSchema } from '../fakes/shopify-schema.ts'
import { faultOf, legacyStoreOf, shopify } from './shopify-fixture.ts'

t.test('every topic is covered by the scopes that the documents name', async t => {
  const had = new Set<string>([...SCOPES, NOTICE_SCOPE].flatMap(scope => [scope, scope.replace(/^write_/, 'read_')]))
  const topics = adminSchema('2026-10').getType('WebhookSubscriptionTopic')
  if (topics === undefined || !('getValue' in topics)) throw new Error('the schema has no topics')
  for (const topic of TOPICS) {
    const scopes = [...(topics.getValue(topic)?.description ?? '').matchAll(/\b(?:read|write)_\w+/g)].map(
      ([scope]) => scope
    )
    t.ok(
      scopes.some(scope => had.has(scope)),
      `${topic} needs one of ${scopes.join(', ')}`
    )
  }
})

t.test('a new store whose app lacks a scope is refused immediately, with the scope named', async t => {
  for (const scope of [...SCOPES, NOTICE_SCOPE]) {
    const { fake, platform, store } = await shopify(t)
    fake.scopes.delete(scope)
    const refused = await faultOf(platform.shopInfo(store))
    t.match(
      { fault: refused.fault, message: refused.message },
      { fault: 'credentials', message: new RegExp(`lacks the scope ${scope}: add it`) }
    )
  }
  const { fake, platform, store } = await shopify(t)
  t.match(await platform.shopInfo(store), { country: 'US' })
  fake.scopes.delete('read_products')
  fake.scopes.add('write_products')
  t.match(await platform.shopInfo(store), { country: 'US' }, 'to write is to read')
})

t.test('an app without a secret gets no notifications, so it needs no scope for them', async t => {
  const { fake, platform } = await shopify(t)
  fake.scopes.delete(NOTICE_SCOPE)
  t.match(await platform.shopInfo(legacyStoreOf(fake)), { country: 'US' })
})
