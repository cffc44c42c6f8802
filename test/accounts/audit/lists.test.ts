/** The audit trail as a list: by who, what and when, page by page, and as CSV. */
import t from 'tap'
import { AuditStore, type AuditEntry } from '../../../src/accounts/audit/operations.ts'
import { asPerson, sessionOf } from '../../web/console/session.ts'
import { startGateway } from '../../support/gateway.ts'

const DAY = 86_400_000
const NOON = Date.parse('2026-11-20T12:00:00Z')

t.test(
  'the audit trail is filtered by actor, action, an id and the time, of one account or all, also as CSV',
  async t => {
    const gateway = await startGateway(t)
    const store = new AuditStore(gateway.database)
    const { id: merchantId } = gateway.merchant
    const entry = (id: string, at: number, changes: Partial<AuditEntry>): AuditEntry => ({
      id,
      at,
      merchantId,
      actorKind: 'member',
      actor: 'Owner@example.com',
      operation: 'setColour',
      target: {},
      change: { colour: '#c2410c' },
      status: 200,
      ...changes
    })
    for (const each of [
      entry('a', NOON, {}),
      entry('b', NOON + DAY, { operation: 'updateProxy', target: { proxyId: '482910375516204' } }),
      entry('c', NOON + 2 * DAY, { actorKind: 'key', actor: '=a1b2', status: 403 }),
      entry('d', NOON + 3 * DAY, { merchantId: null, actorKind: 'operator', actor: 'op@example.com' })
    ])
      await store.insert(each)
    const ids = async (query: string, isAdmin = false) => {
      const path = isAdmin ? `/api/admin/audit${query}` : `/api/merchant/audit${query}`
      const headers = isAdmin ? { 'x-api-key': gateway.adminKey } : undefined
      const response = headers ? await gateway.send('GET', path, { headers }) : await gateway.merchantSend('GET', path)
      t.equal(response.status, 200, path)
      t.equal(response.headers['cache-control'], 'no-store')
      return (response.json() as { entries: ReadonlyArray<{ id: string }> }).entries.map(({ id }) => id)
    }
    t.same(await ids(''), ['c', 'b', 'a'])
    t.same(await ids('?text=OWNER%40'), ['b', 'a'])
    t.same(await ids('?text=set%20colour'), ['c', 'a'], 'as the pages show it')
    t.same(await ids('?text=4829103755'), ['b'])
    t.same(await ids('?text=100%25'), [], 'no pattern')
    t.same(await ids('?from=2026-11-21T12:00:00Z&to=2026-11-22T12:00:00Z'), ['b'])
    t.same(await ids('?text=example&limit=2', true), ['d', 'b'])
    t.same(await ids(`?merchantId=${merchantId}&text=example`, true), ['b', 'a'])
    t.match((await gateway.merchantSend('GET', '/api/merchant/audit?from=soon')).status, 400)

    const csv = await gateway.merchantSend('GET', '/api/merchant/audit?format=csv&text=colour')
    t.match(csv.headers, { 'content-type': /^text\/csv/, 'content-disposition': 'attachment; filename="changes.csv"' })
    t.same(csv.text.split('\r\n'), [
      'at,merchantId,by,name,operation,target,change,status,id',
      `2026-11-22T12:00:00.000Z,${merchantId},key,"'=a1b2",setColour,{},"{""colour"":""#c2410c""}",403,c`,
      `2026-11-20T12:00:00.000Z,${merchantId},member,Owner@example.com,setColour,{},"{""colour"":""#c2410c""}",200,a`,
      ''
    ])

    const cookie = await sessionOf(gateway, gateway.merchant.apiKey)
    const { text } = await asPerson(gateway, cookie, '/console/changes?text=4829103755')
    t.match(text, /Changed an API/)
    t.notMatch(text, /Changed the brand color/)
    t.match(text, /href="[^"]*api\/merchant\/audit\?text=4829103755&amp;format=csv"/)
    t.match((await asPerson(gateway, cookie, '/console/changes?text=nothing')).text, /No entries match these filters/)
  }
)
