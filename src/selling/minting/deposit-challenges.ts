import { meterWords } from '../../engine/checks/meter.ts'
import type { SessionsConfig } from '../../engine/checks/sessions.ts'
import type { Context } from '../../engine/message/context.ts'
import { depositSats, type SessionTerms } from '../../lightning/payment-scheme/session-challenge.ts'
import type { Maybe } from '../../platform/state/state.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Minted } from './mint.ts'
import { depositOffer, type Offer } from '../offers/offer.ts'
import type { FindPayee } from './payee.ts'
import type { DepositChallenge } from '../offers/replies.ts'
import type { SentChallenge } from '../challenges/store.ts'

/** What deposits are asked for with. */
export interface DepositChallengeParts {
  readonly payee: FindPayee
  readonly log: Log
  /** What an offer costs in satoshis, at the rate of this moment. @throws Unavailable without a rate */
  inSatoshis(price: Pick<Offer, 'amountSats' | 'fiat'>): Maybe<number>
  /** A challenge for the client of a request, which may have been handed out to it before. */
  challenge(ctx: Context, offer: Offer): Promise<Minted>
  /** Notes that an invoice was paid at its provider. */
  settled(paymentHash: string): Promise<void>
}

/** Challenges for the deposits of sessions, which stand in a 402 beside that for the one request. */
export class DepositChallenges {
  readonly #parts: DepositChallengeParts

  constructor(parts: DepositChallengeParts) {
    this.#parts = parts
  }

  /** Null where no deposit can be asked for at the moment: clients that pay for each request are served all the same. */
  async make(ctx: Context, offer: Offer, sessions: SessionsConfig): Promise<DepositChallenge | null> {
    try {
      const unitSats = offer.meter === null ? await this.#parts.inSatoshis(offer) : 1
      const configured = sessions.deposit ?? (offer.meter === null ? null : (offer.fiat ?? offer.amountSats))
      const sats =
        typeof configured === 'string' ? this.#parts.inSatoshis({ amountSats: null, fiat: configured }) : configured
      const terms: SessionTerms = {
        unitSats,
        unitType: offer.meter === null ? sessions.unit : 'satoshi',
        idleSeconds: Math.floor(sessions.idle / 1000),
        description: offer.meter === null ? null : meterWords(offer.meter)
      }
      const wanted = depositOffer(offer, terms, depositSats(unitSats, await sats))
      return { challenge: await this.#unpaidDeposit(ctx, wanted), terms }
    } catch (error) {
      this.#parts.log.debug({ place: offer.place, err: error }, 'A 402 was sent without the challenge of a session')
      return null
    }
  }

  /** One that was handed out before may have been paid since, which its provider alone knows. */
  async #unpaidDeposit(ctx: Context, offer: Offer): Promise<SentChallenge> {
    for (;;) {
      const { challenge, again } = await this.#parts.challenge(ctx, offer)
      if (!again || !(await this.#isPaidFor(offer, challenge))) return challenge
      await this.#parts.settled(challenge.paymentHash)
    }
  }

  async #isPaidFor(offer: Offer, { chargeId }: SentChallenge): Promise<boolean> {
    const state = await (await this.#parts.payee(offer)).lookUp?.(chargeId)
    const status = state?.status ?? 'unpaid'
    // What is under way or came in part is neither: nobody is told to pay it, and it is noted as sold by nobody.
    if (status !== 'unpaid' && status !== 'paid') throw new Error(`the deposit of the challenge is ${status}`)
    return status === 'paid'
  }
}
