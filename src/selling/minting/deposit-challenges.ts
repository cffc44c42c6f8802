import { meterWords } from '../../engine/checks/meter.ts'
import type { SessionsConfig } from '../../engine/checks/sessions.ts'
import type { Context } from '../../engine/message/context.ts'
import { depositSats, type SessionTerms } from '../../lightning/payment-scheme/session-challenge.ts'
import type { Minting, MintingOptions } from './minting.ts'
import { depositOffer, type Offer } from '../offers/offer.ts'
import type { DepositChallenge } from './replies.ts'
import type { SentChallenge } from '../holding/challenge.ts'

type DepositOptions = Pick<MintingOptions, 'payee' | 'log' | 'offers' | 'settlements'>

export class DepositChallenges {
  readonly #minting: Minting
  readonly #options: DepositOptions

  constructor(minting: Minting, options: DepositOptions) {
    this.#minting = minting
    this.#options = options
  }

  /** Null if no deposit can be requested now; paying per request still works. */
  async make(ctx: Context, offer: Offer, sessions: SessionsConfig): Promise<DepositChallenge | null> {
    try {
      const unitSats = offer.meter === null ? await this.#options.offers.inSatoshis(offer) : 1
      const configured = sessions.deposit ?? (offer.meter === null ? null : (offer.fiat ?? offer.amountSats))
      const sats =
        typeof configured === 'string'
          ? this.#options.offers.inSatoshis({ amountSats: null, fiat: configured })
          : configured
      const terms: SessionTerms = {
        unitSats,
        unitType: offer.meter === null ? sessions.unit : 'satoshi',
        idleSeconds: Math.floor(sessions.idle / 1000),
        description: offer.meter === null ? null : meterWords(offer.meter)
      }
      const wanted = depositOffer(offer, terms, depositSats(unitSats, await sats))
      return { challenge: await this.#unpaidDeposit(ctx, wanted), terms }
    } catch (error) {
      this.#options.log.debug({ place: offer.place, err: error }, 'A 402 was sent without the challenge of a session')
      return null
    }
  }

  /** A reused one may have been paid since, which only its provider knows. */
  async #unpaidDeposit(ctx: Context, offer: Offer): Promise<SentChallenge> {
    for (;;) {
      const { challenge, again } = await this.#minting.forRequest(ctx, offer)
      if (!again || !(await this.#isPaidFor(offer, challenge))) return challenge
      await this.#options.settlements.settled(challenge.paymentHash)
    }
  }

  async #isPaidFor(offer: Offer, { chargeId }: SentChallenge): Promise<boolean> {
    const state = await (await this.#options.payee(offer)).lookUp?.(chargeId)
    const status = state?.status ?? 'unpaid'
    // A pending or partial payment is neither payable nor a sale.
    if (status !== 'unpaid' && status !== 'paid') throw new Error(`the deposit of the challenge is ${status}`)
    return status === 'paid'
  }
}
