import type { ChallengePages, AskedOfPeople } from '../../selling/paywall/page.ts'
import { meterWords } from '../../engine/checks/meter.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { FiatText } from '../../engine/checks/money-text.ts'
import type { Quotes } from '../../lightning/money/prices.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { accentStyle } from '../kit/accent.ts'
import { amountText, satoshisText } from '../kit/amounts.ts'
import { assetText } from '../kit/assets.ts'
import { HTML_TYPE, inlinePageHeaders, type InlineAssets } from '../kit/document.ts'
import { paywallPage } from './paywall-page.ts'
import { fiatOf } from '../../selling/prices/fiat.ts'
import { readerCurrency, worthText } from '../kit/reader-money.ts'
import { sandboxPayCommand } from './sandbox-command.ts'

/** What the pages of challenges need of others. */
export interface OpenPaywallParts {
  readonly clock: Clock
  /** What fiat is worth. */
  readonly prices: Pick<Quotes, 'quote'>
  /** Pays invoices of the sandbox, in development alone; null where there is none. */
  readonly sandbox: { pay(invoice: string): Promise<void> } | null
  readonly merchants: {
    /** Null when there is no such merchant. */
    byId(id: number): Promise<{ readonly name: string; readonly colour: string | null } | null>
  }
  config(): Pick<GatewayConfig, 'pages' | 'payment'>
  /** Without a slash at the end. */
  publicUrl(): string
}

/** Milliseconds that a page waits to be told what a price is worth; without it, it is told in satoshis alone. */
const PATIENCE = 150

/** Opens the pages of challenges, for people who open in a browser what is paid for. */
export function openPaywall({
  clock,
  prices,
  sandbox,
  merchants,
  config,
  publicUrl
}: OpenPaywallParts): ChallengePages {
  const style = assetText('css', 'tokens', 'base', 'pay', 'paywall')
  const script = assetText('js', 'invoice', 'paywall')
  const byColour = new Map<string, { readonly assets: InlineAssets; readonly headers: readonly string[] }>()

  /** Style, program and headers with a seller's colour; few sellers have one. */
  const dressed = (colour: string) => {
    const known = byColour.get(colour)
    if (known !== undefined) return known
    const assets: InlineAssets = { inline: true, style: style + accentStyle(colour), script }
    const made = { assets, headers: Object.freeze(['Content-Type', HTML_TYPE, ...inlinePageHeaders(assets)]) }
    if (byColour.size >= MOST_COLOURS) byColour.clear()
    byColour.set(colour, made)
    return made
  }

  const worth = async (satoshis: number, languages: string): Promise<string | null> => {
    const currency = readerCurrency(languages)
    if (currency === null) return null
    const given = Promise.withResolvers<string | null>()
    const patience = clock.after(PATIENCE, () => {
      given.resolve(null)
    })
    const asked = async (): Promise<void> => {
      try {
        const { price } = await prices.quote(currency)
        given.resolve(worthText(satoshis, currency, price))
      } catch {
        // Where no rate is known, satoshis say enough; payments in that currency tell why.
        given.resolve(null)
      }
    }
    void asked()
    const text = await given.promise
    patience.cancel()
    return text
  }

  const seller = async (merchantId: string | null) => {
    const own = config()
    if (merchantId === null)
      return { name: own.pages.name === '' ? own.payment.serviceName : own.pages.name, colour: own.pages.colour }
    const merchant = await merchants.byId(Number(merchantId))
    return { name: merchant?.name ?? '', colour: merchant?.colour ?? '' }
  }

  return async asked => {
    const { challenge, offer } = asked
    const [{ name, colour }, alsoAmount] = await Promise.all([
      seller(offer.merchantId),
      offer.fiat === null ? worth(challenge.amountSats, asked.languages) : satoshisText(challenge.amountSats)
    ])
    const { assets, headers } = dressed(colour)
    const body = paywallPage(
      {
        seller: name,
        amount: offer.fiat === null ? satoshisText(challenge.amountSats) : fiatAmount(offer.fiat),
        alsoAmount,
        description: challenge.description,
        address: addressOf(asked),
        balance: offer.meter === null ? null : meterWords(offer.meter),
        invoice: challenge.invoice,
        createdAt: challenge.createdAt,
        expiresAt: challenge.expiresAt,
        now: asked.now,
        isStillUnpaid: asked.isStillUnpaid,
        again: asked.again,
        sandboxCommand:
          sandbox !== null && challenge.providerKind === 'sandbox'
            ? sandboxPayCommand(publicUrl(), challenge.invoice)
            : null,
        paysInSandbox: asked.paysInSandbox
      },
      assets
    )
    return { body, headers }
  }
}

const MOST_COLOURS = 200
const LONGEST_ADDRESS = 200

/** `api.example.com/files/a.pdf`, cut where it is too long to be read. */
function addressOf({ host, target }: AskedOfPeople): string {
  const whole = `${host}${target}`
  return whole.length > LONGEST_ADDRESS ? `${whole.slice(0, LONGEST_ADDRESS)}…` : whole
}

function fiatAmount(fiat: FiatText): string {
  const { currency, amount } = fiatOf(fiat)
  return amountText(amount, currency)
}
