import type { NewChallenge } from '../../../src/selling/holding/challenge.ts'
import { ChallengeStore } from '../../../src/selling/holding/store.ts'
import type { Database } from '../../../src/platform/database/database.ts'
import { newChallenge } from '../challenges/fixture.ts'

/** Writes a challenge that was paid at a moment: with a credential of a scheme, or at its provider alone. */
export async function sell(
  database: Database,
  at: number,
  changes: Partial<NewChallenge> & { readonly scheme?: 'l402' | 'payment' | null } = {}
): Promise<string> {
  const { scheme = 'l402', ...rest } = changes
  const store = new ChallengeStore(database)
  const challenge = newChallenge({ createdAt: at - 1_000, expiresAt: at + 600_000, ...rest })
  await store.insert(database.sql, challenge)
  const { paymentHash } = challenge
  if (scheme === null) await store.settled(paymentHash, at)
  else if (scheme === 'l402') await store.claim(database.sql, { paymentHash, scheme, now: at })
  else await store.consume(database.sql, { paymentHash, leaseId: paymentHash.slice(0, 8), gateway: 'g', now: at })
  await store.close()
  return paymentHash
}

/** An account, as a row alone. */
export async function account(database: Database, id: number): Promise<void> {
  const at = new Date(0)
  await database.sql`
    insert into merchants (id, name, email, key_id, key_digest, key_created_at, created_at, updated_at)
    values (${id}, ${`merchant ${id}`}, ${`m${id}@example.com`}, ${`k${id}`}, sha256(${Buffer.from(String(id))}), ${at}, ${at}, ${at})`
}

/** A payment that its provider says was paid at one moment, and that was written as paid at another. */
export async function paidPayment(
  database: Database,
  merchantId: number,
  { paidAt, soldAt, sats }: { readonly paidAt: number; readonly soldAt: number | null; readonly sats: number | null }
): Promise<void> {
  const id = String(100_000_000_000_000 + Math.floor(Math.random() * 8e14))
  const hash = id.padStart(64, '0')
  const [paid, sold] = [new Date(paidAt), soldAt === null ? null : new Date(soldAt)]
  await database.sql`
    insert into payments (
      invoice_id, merchant_id, order_id, status, amount, currency, pay_token, provider_slot, provider_kind, charge_id, invoice,
      payment_hash, network, amount_sats, created_at, expires_at, confirms_at, paid_at, sold_at, updated_at)
    values (
      ${id}, ${merchantId}, ${id}, 'paid', ${sats === null ? '0' : '0.0001'}, 'BTC', ${id}, 'primary', 'sandbox', ${id}, 'lnbcrt1',
      ${hash}, 'regtest', ${sats}, ${paid}, ${paid}, ${sats === null ? paid : null}, ${paid}, ${sold}, ${paid})`
}
