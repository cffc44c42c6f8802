import { PayoutUncertain, ProviderRefused, ProviderUnavailable } from '../../../src/lightning/provider-calls/errors.ts'
import type { Capabilities, Payout, PayoutRequest } from '../../../src/lightning/provider-calls/provider.ts'
import type { Secret } from '../../../src/platform/keys/secrets.ts'
import { FakeProvider as ChargingProvider } from '../payments/fixture.ts'
import type { ManualClock } from '../../support/manual-clock.ts'

/** Outcome of a payout request. `lost after` has paid when its answer is lost, `lost before` has not. */
export type HeaderFate =
  | 'pays'
  | 'takes'
  | 'lost after'
  | 'lost before'
  | 'refuses'
  | 'fails'
  | 'is away'
  | 'breaks after'
  | 'breaks before'

/** A provider that remembers every payment it made, and answers as the test says. */
export class FakeProvider extends ChargingProvider {
  override capabilities: Capabilities = {
    onchain: false,
    hostedCheckout: false,
    notifies: false,
    payout: { lightning: true, chain: true }
  }
  /** PageRequest for each request. */
  fate: (request: PayoutRequest) => HeaderFate = () => 'pays'
  /** Runs before a request is answered: a test does here what happens meanwhile. */
  meanwhile: (request: PayoutRequest) => void | Promise<void> = () => {}
  /** Every request, in order. */
  readonly asked: PayoutRequest[] = []
  /** What was sent, by reference; a reference twice is two payments, since this provider cannot tell. */
  readonly sent: Array<{ readonly reference: string; readonly amountSats: number }> = []
  /** Status of payouts, by reference. */
  readonly payouts = new Map<string, Payout>()
  /** Whether look-ups are answered. */
  reachable = true
  readonly #clock: ManualClock

  constructor(clock: ManualClock) {
    super('sandbox', clock)
    this.#clock = clock
  }

  override async createPayout(key: Secret<string> | null, request: PayoutRequest): Promise<Payout> {
    this.keys.push(key?.reveal() ?? '')
    this.asked.push(request)
    await this.meanwhile(request)
    const fate = this.fate(request)
    if (fate === 'refuses') throw new ProviderRefused('request', 'The balance is too low.')
    if (fate === 'is away') throw new ProviderUnavailable()
    if (fate === 'lost before') throw new PayoutUncertain(new Error('the connection broke'))
    if (fate === 'breaks before') throw new TypeError('undefined is not a function')
    if (fate === 'fails')
      return {
        payoutId: `out_${request.reference}`,
        status: 'failed',
        feeSats: 0,
        transactionHash: null,
        processedAt: this.#clock.now()
      }
    const payout: Payout =
      fate === 'takes'
        ? {
            payoutId: `out_${request.reference}`,
            status: 'pending',
            feeSats: 0,
            transactionHash: null,
            processedAt: null
          }
        : {
            payoutId: `out_${request.reference}`,
            status: 'confirmed',
            feeSats: 2,
            transactionHash: request.destination.type === 'chain' ? 'ab'.repeat(32) : null,
            processedAt: this.#clock.now()
          }
    this.sent.push({ reference: request.reference, amountSats: request.amountSats })
    this.payouts.set(request.reference, payout)
    if (fate === 'lost after') throw new PayoutUncertain(new Error('the connection broke'))
    if (fate === 'breaks after') throw new SyntaxError('Unexpected token < in JSON')
    return payout
  }

  override async lookUpPayout(_key: Secret<string> | null, { reference }: PayoutRequest): Promise<Payout | null> {
    this.lookUps++
    if (!this.reachable) throw new ProviderUnavailable()
    return this.payouts.get(reference) ?? null
  }

  /** What the provider says of a payout from now on. */
  becomes(reference: string, change: Partial<Payout>): void {
    const held = this.payouts.get(reference)
    if (held === undefined) throw new Error('no such payout')
    this.payouts.set(reference, { ...held, ...change })
  }
}
