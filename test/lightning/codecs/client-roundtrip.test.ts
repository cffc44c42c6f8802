/**
 * A deployed client, unmodified, between our challenge lines and our credential reader. Its `fetch` is replaced, so
 * that nothing leaves the process: the codecs are what is tested here, not a server.
 */
import { fetchWithL402 } from '@getalby/lightning-tools/402/l402'
import { fetchWithMpp } from '@getalby/lightning-tools/402/mpp'
import t from 'tap'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import { checkGrant, issueCaveats, readGrant } from '../../../src/lightning/l402/caveats.ts'
import { readCredential } from '../../../src/lightning/codecs/credential.ts'
import { l402Challenge } from '../../../src/lightning/l402/l402-header.ts'
import {
  decodeIdentifier,
  decodeMacaroonBase64,
  encodeIdentifier,
  macaroonToBase64,
  mintMacaroon,
  verifySignature
} from '../../../src/lightning/l402/macaroon.ts'
import { matchPaymentId, paymentChallenge } from '../../../src/lightning/payment-scheme/payment-challenge.ts'
import { parsePaymentToken } from '../../../src/lightning/payment-scheme/payment-credential.ts'
import { paymentHashOf, preimageMatches } from '../../../src/lightning/codecs/hmac.ts'
import { TokenKeyRing } from '../../../src/lightning/l402/root-key.ts'
import { newInvoice } from '../../support/invoices.ts'

const RING = new TokenKeyRing(Buffer.alloc(32, 4))
const PREIMAGE = '5a'.repeat(32)
const NOW = Math.floor(Date.now() / 1000) // the client compares with its own clock
const HASH = paymentHashOf(PREIMAGE)
const TOKEN_ID = RING.newTokenId(Buffer.alloc(28, 6))
const INVOICE = decodeInvoice(
  newInvoice({ at: NOW * 1000, amountSats: 10, paymentHash: HASH, description: 'quote' }).invoice
)

const rootKey = RING.rootKey(TOKEN_ID) ?? Buffer.alloc(0)
const MACAROON = macaroonToBase64(
  mintMacaroon(
    rootKey,
    'l402',
    encodeIdentifier(HASH, TOKEN_ID),
    issueCaveats({
      service: 'boltgate:0',
      path: '/quote',
      wildcard: false,
      merchantId: null,
      chargeId: 'sbx_1',
      amountSats: 10,
      expires: NOW + 3600
    })
  )
)
const CHALLENGE = paymentChallenge(
  { realm: 'boltgate.local', invoice: INVOICE, amountSats: 10, expiresAt: NOW + 600, digest: null },
  RING.paymentIdKeys[0].key
)
const LINES = [l402Challenge(MACAROON, INVOICE.text), CHALLENGE.header]

const wallet = {
  paid: [] as string[],
  async payInvoice({ invoice }: { invoice: string }) {
    this.paid.push(invoice)
    return { preimage: PREIMAGE }
  }
}

// Answers 402 with both lines, then keeps the headers of the second request.
async function authorizationOf(order: readonly string[], run: () => Promise<Response>) {
  const real = globalThis.fetch
  let sent = ''
  globalThis.fetch = async (_input, init) => {
    sent = new Headers(init?.headers).get('authorization') ?? ''
    if (sent !== '') return new Response('ok')
    const headers = new Headers()
    for (const line of order) headers.append('www-authenticate', line)
    return new Response('', { status: 402, headers })
  }
  try {
    await run()
  } finally {
    globalThis.fetch = real
  }
  return sent
}

t.test('the L402 line, paid by a real client, comes back as a credential that verifies', async t => {
  const sent = await authorizationOf(LINES, () => fetchWithL402('https://api.example/quote', {}, { wallet }))
  t.equal(wallet.paid.pop(), INVOICE.text)
  const credential = readCredential(['authorization', sent])
  if (credential.kind !== 'classic') throw new Error(`read as ${credential.kind}: ${sent}`)
  const macaroon = decodeMacaroonBase64(credential.macaroon)
  const { paymentHash, tokenId } = decodeIdentifier(macaroon.identifier)
  t.ok(preimageMatches(credential.preimage, paymentHash))
  t.ok(verifySignature(macaroon, RING.rootKey(tokenId) ?? Buffer.alloc(0)))
  const grant = readGrant(macaroon.caveats, credential.preimage)
  t.equal(
    checkGrant(
      grant,
      { service: 'boltgate:0', path: '/quote', merchantId: null, chargeId: 'sbx_1', amountSats: 10 },
      NOW
    ),
    null
  )
})

t.test('the Payment line, paid by a real client, comes back as a token whose id verifies', async t => {
  const sent = await authorizationOf(LINES.toReversed(), () =>
    fetchWithMpp('https://api.example/quote', {}, { wallet })
  )
  t.equal(wallet.paid.pop(), INVOICE.text)
  const credential = readCredential(['Authorization', sent])
  if (credential.kind !== 'modern') throw new Error(`read as ${credential.kind}: ${sent}`)
  const parsed = parsePaymentToken(credential.token)
  if (!parsed.ok) throw new Error(parsed.detail)
  t.equal(matchPaymentId(parsed.credential.id, parsed.credential, RING.paymentIdKeys), RING.currentGeneration)
  t.ok(preimageMatches(parsed.credential.preimage, parsed.credential.charge.paymentHash))
  t.equal(parsed.credential.charge.amountSats, 10)
})
