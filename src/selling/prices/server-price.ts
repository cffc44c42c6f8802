import { MAX_PRICE_SATS } from '../../engine/checks/price.ts'
import { readMoney, satoshisUp, type FiatText } from '../../engine/checks/money-text.ts'
import { JsonText } from './json-text.ts'

export interface ServerPrice {
  /** Whole satoshis, or fiat. */
  readonly amount: number | FiatText
  /** On the invoice; null for none. */
  readonly description: string | null
}

const MAX_DESCRIPTION = 500

/**
 * Reads `{amountSats | amountMsat | usd, description?}`: exactly one amount, above 0. Returns a text that names the
 * fault.
 */
export function readServerPrice(bytes: Uint8Array): ServerPrice | string {
  const text = JsonText.of(bytes)
  if (typeof text === 'string') return `its answer ${text}`
  const amounts: Array<number | FiatText> = []
  for (const [name, read] of [
    ['amountSats', satoshis],
    ['amountMsat', (raw: string) => satoshisOfMsat(raw)],
    ['usd', dollars]
  ] as const) {
    const member = text.raw(name)
    if (member.kind === 'fault') return `of its answer ${member.message}`
    if (member.kind === 'missing') continue
    const amount = read(member.text)
    if (amount === null) return `${name} of its answer is no price: ${member.text.slice(0, 40)}`
    amounts.push(amount)
  }
  const [amount] = amounts
  if (amount === undefined || amounts.length > 1)
    return `its answer names ${amounts.length === 0 ? 'none' : 'more than one'} of amountSats, amountMsat and usd`
  const said = text.member(['description'])
  if (said.kind === 'fault') return `of its answer ${said.message}`
  if (said.kind === 'missing') return { amount, description: null }
  if (typeof said.value !== 'string') return 'description of its answer is no text'
  // Whole characters that an invoice allows.
  const description = [...said.value.replaceAll(/\p{Cc}+/gu, ' ')].slice(0, MAX_DESCRIPTION).join('')
  return { amount, description: description.trim() === '' ? null : description }
}

function whole(raw: string): number | null {
  return /^[1-9][0-9]{0,14}$/.test(raw) ? Number(raw) : null
}

function satoshis(raw: string): number | null {
  const amount = whole(raw)
  return amount === null || amount > MAX_PRICE_SATS ? null : amount
}

function satoshisOfMsat(raw: string): number | null {
  const amount = whole(raw)
  return amount === null || amount > MAX_PRICE_SATS * 1000 ? null : satoshisUp(amount)
}

/** Reads the digits of a number or text as written, never as a double. */
function dollars(raw: string): FiatText | null {
  const digits = /^"([0-9.]+)"$|^([0-9.]+)$/.exec(raw)
  const money = readMoney(`$${digits?.[1] ?? digits?.[2] ?? ''}`)
  return money !== undefined && 'fiat' in money ? money.fiat : null
}
