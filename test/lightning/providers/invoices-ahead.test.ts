import t from 'tap'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { referencePage } from '../../../src/engine/config/reference.ts'
import type { ProviderKind } from '../../../src/lightning/kinds/kind.ts'
import { lnd } from '../../../src/lightning/kinds/lnd/lnd.ts'
import { providerKinds } from '../../../src/lightning/kinds/kinds.ts'
import { openSeats } from '../../../src/lightning/providers/seats.ts'
import { openTestDatabase } from '../../support/database.ts'
import { challengeOf, credentialOf, loadText, startGateway } from '../../support/gateway.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { only } from './declared.ts'

const calls = lnd.calls
if (calls === null) throw new Error('lnd is called')
const metered: ProviderKind = { ...lnd, name: 'metered', calls: { ...calls, billsInvoices: true } }
const kinds: readonly ProviderKind[] = [...providerKinds, metered]
const yaml = (settings: string) => `lightning:
  primary: { ${settings} }
`

t.test('a kind that charges for unpaid invoices makes none ahead unless the operator says so', async t => {
  const database = await openTestDatabase(t)
  const aheadOf = async (settings: string) => {
    const { config } = await loadText(yaml(settings), {}, { providers: kinds })
    const { seats, close } = openSeats({
      kinds,
      mode: 'development',
      lightning: config.lightning,
      dataDir: '/nowhere',
      database,
      clock: new ManualClock()
    })
    await close()
    return only(seats.primary).invoicesAhead
  }
  t.equal(await aheadOf('kind: strike'), 400)
  t.equal(await aheadOf('kind: strike, invoicesAhead: 0'), 0)
  t.equal(await aheadOf('kind: metered'), 0)
  t.equal(await aheadOf('kind: metered, invoicesAhead: 8'), 8)
  t.match(
    referencePage([], kinds),
    'Where it is left out, 400, and none for the sandbox and for metered, which charges for unpaid invoices.'
  )
  t.match(referencePage([], providerKinds), 'Where it is left out, 400, and none for the sandbox. |')
  await t.rejects(loadText(yaml('invoicesAhead: 1001'), {}), /a whole number from 0 to 1000/)
})

t.test('over the whole gateway: what was made ahead is sold by either scheme, and a reload discards it', async t => {
  const clock = new ManualClock()
  const file = `lightning:
  primary: { kind: sandbox, invoicesAhead: 3 }
routes:
  - match: { path: /demo/quote }
    chain: paid
    price: 21 sats
    upstream: { internal: demo }
`
  const gateway = await startGateway(t, { yaml: file, clock })
  const lifeOf = (invoice: string | undefined) => {
    const { timestamp, expiresAt } = decodeInvoice(invoice ?? '')
    return expiresAt - timestamp
  }
  for (const scheme of ['l402', 'payment'] as const) {
    let challenge = challengeOf(await gateway.send('GET', '/demo/quote'), scheme)
    for (let requests = 0; requests < 20 && lifeOf(challenge.parameters.get('invoice')) === 600; requests++)
      challenge = challengeOf(await gateway.send('GET', '/demo/quote'), scheme)
    const invoice = challenge.parameters.get('invoice') ?? ''
    t.equal(lifeOf(invoice), 1200, 'it was made ahead')
    const authorization = credentialOf(challenge, await gateway.pay(invoice))
    const paid = await gateway.send('GET', '/demo/quote', { headers: { authorization } })
    t.equal(paid.status, 200, scheme)
  }
  const measured = async () => (await gateway.send('GET', '/metrics')).text
  t.match(await measured(), /boltgate_invoices_ahead_total\{result="hit"\} \d/)
  await gateway.reload(file)
  t.match(await measured(), /boltgate_invoices_ahead 0/)
})
