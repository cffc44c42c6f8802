/** The gateway before a real LNbits that is paid through a real lnd, by a payer at another node. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openKind } from '../../lightning/open-kind.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { lnbits as lnbitsKind } from '../../../src/lightning/kinds/lnbits/lnbits.ts'
import { readLndConnect } from '../../../src/lightning/kinds/lnd/folder.ts'
import type { PayoutRequest } from '../../../src/lightning/provider-calls/provider.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { temporaryFolder } from '../../support/database.ts'
import { challengeOf, credentialOf, defaultYaml, startGateway } from '../../support/gateway.ts'
import { findPrograms, openChannel, startChain, startNode, until } from '../lnd/nodes.ts'
import { findLnbits, startLnbits } from './instance.ts'

const folder = findLnbits()
const programs = findPrograms()
const skip =
  folder === null || programs === null
    ? 'LNbits, or lnd and btcd, are not at hand: see test/interop/lnbits/install.sh and test/interop/lnd/install.sh'
    : false
const OWNER = ['info:read', 'invoices:read', 'invoices:write', 'offchain:read', 'offchain:write', 'onchain:read']

t.test('a real LNbits over real lnd', { skip }, async t => {
  if (folder === null || programs === null) return
  const chain = await startChain(t, programs.btcd)
  const [seller, payer] = await Promise.all([startNode(t, programs.lnd, chain), startNode(t, programs.lnd, chain)])
  await openChannel(chain, payer, seller)
  const node = readLndConnect(await seller.key(OWNER))
  const certificate = join(temporaryFolder(t), 'tls.cert')
  writeFileSync(certificate, node.certificate ?? '')
  const instance = await startLnbits(t, folder, {
    LNBITS_BACKEND_WALLET_CLASS: 'LndRestWallet',
    LND_REST_ENDPOINT: node.origin.replace('127.0.0.1', 'localhost'),
    LND_REST_CERT: certificate,
    LND_REST_MACAROON: node.macaroon.reveal()
  })
  const wallet = await instance.wallet('seller')
  const lnbits = openKind(t, lnbitsKind, { timeout: 30_000, clock: systemClock })
  const key = new Secret(wallet.adminKey)

  await t.test('a 402 holds an invoice of the node behind it, and its preimage opens the route', async t => {
    const gateway = await startGateway(t, {
      yaml: defaultYaml({ replace: [['primary:   { kind: sandbox }', 'primary: { kind: lnbits, key: "${KEY}" }']] }),
      env: { KEY: wallet.invoiceKey }
    })
    for (const scheme of ['l402', 'payment'] as const) {
      const response = await gateway.send('GET', '/demo/quote')
      const invoice = challengeOf(response, 'l402').parameters.get('invoice') ?? ''
      t.match(decodeInvoice(invoice), { network: 'regtest', amountSats: 10, payee: seller.id })
      const authorization = credentialOf(challengeOf(response, scheme), await payer.pay(invoice))
      t.equal((await gateway.send('GET', '/demo/quote', { headers: { authorization } })).status, 200, scheme)
    }
  })

  await t.test('a payment is found, and a refund arrives at the payer once', async t => {
    const charge = await lnbits.createCharge(key, { amountSats: 5_000, description: 'Tea', expirySeconds: 600 })
    await payer.pay(charge.invoice)
    const state = await until('the payment at LNbits', async () => {
      const now = await lnbits.lookUp(key, charge.chargeId)
      return now?.status === 'paid' ? now : null
    })
    t.equal(state.receivedSats, 5_000)
    const { payment_request: invoice } = await payer.api('POST', '/v1/invoices', { value: '1000', memo: 'refund' })
    const wanted: PayoutRequest = {
      reference: '1001',
      chargeId: charge.chargeId,
      destination: { type: 'ln', invoice: String(invoice) },
      amountSats: 1_000,
      description: null
    }
    const sent = await lnbits.createPayout(key, wanted)
    t.match(sent.status, /^(confirmed|processing)$/)
    await until('the refund', async () =>
      (await lnbits.lookUpPayout(key, wanted))?.status === 'confirmed' ? true : null
    )
    t.match(await lnbits.createPayout(key, wanted), { payoutId: sent.payoutId, status: 'confirmed' })
    const { payments } = await seller.api('GET', '/v1/payments?include_incomplete=true')
    t.equal(Array.isArray(payments) ? payments.length : 0, 1)
  })
})
