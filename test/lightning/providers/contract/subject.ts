import type { Test as T } from 'tap'
import { Secret } from '../../../../src/platform/keys/secrets.ts'
import { decodeBech32, encodeBech32 } from '../../../../src/lightning/codecs/bech32.ts'
import { type InvoiceTerms } from '../../../../src/lightning/codecs/bolt11-encode.ts'
import type { KindOptions, ProviderKind } from '../../../../src/lightning/kinds/kind.ts'
import type { Charge, PayoutRequest, Provider } from '../../../../src/lightning/provider-calls/provider.ts'
import type { ManualClock } from '../../../support/manual-clock.ts'
import { newInvoice } from '../../../support/invoices.ts'

/** What goes wrong with one request at every fake; those with `after` have acted before it does. */
export type WireFault = 'hang' | 'hang after' | 'lost before' | 'lost after' | 'html' | 'server error'

/** One kind of provider with a fake of its service, for the contract that all kinds keep. */
export interface Subject {
  readonly provider: Provider
  readonly clock: ManualClock
  readonly key: Secret<string>
  /** An unknown key of the right form; null where any is accepted. */
  readonly foreign: Secret<string> | null
  /** Such a key is answered with silence, and reported as perhaps deleted. */
  readonly foreignIsSilence?: true
  /** Something that no error may hold. */
  readonly secrets: readonly string[]
  readonly wire: Wire | null
  /** Pays an invoice from another wallet. */
  settle(charge: Charge): Promise<unknown>
  readonly pays: Paying | null
  /** It lists from a stream, whose end only a clock of its own test can tell. */
  readonly listsFromStream?: true
}

/** The way to the fake, for kinds that are called. */
export interface Wire {
  requests(): number
  fail(fault: WireFault, on: RegExp): void
  stop(): Promise<void>
  /** Which requests make an invoice, look one up, pay, and look a payment up. */
  readonly on: { readonly create: RegExp; readonly lookUp: RegExp; readonly pay: RegExp; readonly find: RegExp }
  /** The next invoice is another one than was asked for; null where the fake cannot. */
  readonly lie: ((what: 'amount' | 'hash' | 'network') => void) | null
  /** Its service says nothing of the hash beside the invoice. */
  readonly tellsNoHash?: true
  /** An amount in satoshis that the fake's owner refuses; null where it refuses none. */
  readonly tooMuch: number | null
}

/** Paying out over Lightning as nodes do: immediately, and by the payment hash. */
export interface Paying {
  /** What comes of the next payments. */
  outcome(next: 'paid' | 'failed' | 'pending'): void
  /** How often money was sent. */
  sendings(): number
  /** A key that may only receive, and how the missing right is called; null where there is none. */
  readonly receiveOnly: { readonly key: Secret<string>; readonly scope: string; readonly isToldByCheck: boolean } | null
  /** What failed is believed once its invoice can no longer be paid. */
  readonly failsAtEnd?: true
  /** An invoice without an amount can be paid. */
  readonly paysAmountless: boolean
}

/** What a kind is opened with in these tests. */
export interface SubjectParts extends Pick<KindOptions, 'database' | 'dataDir' | 'budget'> {
  readonly clock: ManualClock
}

/** Starts a kind with its fake. */
export interface SubjectKind {
  readonly kind: ProviderKind
  start(t: T, parts: SubjectParts): Promise<Subject>
}

let made = 0

/** A refund to an invoice of a payer's wallet, which says the amount, none, or zero. */
export function refundOf(
  clock: ManualClock,
  amountSats: number,
  says: 'the amount' | 'none' | 'zero' = 'the amount',
  terms: Partial<InvoiceTerms> = {}
): PayoutRequest {
  const { invoice } = newInvoice({
    at: clock.now(),
    amountSats: says === 'the amount' ? amountSats : null,
    expirySeconds: 86_400,
    ...terms
  })
  return {
    reference: `10000000${++made}`,
    chargeId: 'ab'.repeat(32),
    amountSats,
    description: null,
    destination: {
      type: 'ln',
      // Another payee comes of it, whom no fake looks for.
      invoice: says === 'zero' ? encodeBech32('lnbcrt0', [...decodeBech32(invoice).words]) : invoice
    }
  }
}

/** The secret of a text. */
export const secret = (text: string): Secret<string> => new Secret(text)
