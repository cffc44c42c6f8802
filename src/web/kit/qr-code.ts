import { encodeQR } from 'qr'
import type { VNode } from 'preact'
import type { Payment } from '../../payments/payments/schema.ts'
import { bitcoinAmount } from './amounts.ts'
import { html } from './document.ts'

/**
 * Content of the QR code, in upper case for its coarser alphanumeric mode: schemes and BOLT 11 ignore case. With an
 * on-chain address it is BIP 21 with lower-case keys; wallets without Lightning find the address.
 */
export function qrContent(payment: Pick<Payment, 'invoice' | 'onchainAddress' | 'amountSats'>): string {
  return bitcoinUri(payment) ?? `LIGHTNING:${payment.invoice.toUpperCase()}`
}

/** Parts of a BIP 21 address; without an expired invoice. */
type OnchainTarget = Pick<Payment, 'onchainAddress' | 'amountSats'> & { readonly invoice: string | null }

/** BIP 21 address, with `lightning=` for an invoice; null without an on-chain address. */
export function bitcoinUri({ invoice, onchainAddress, amountSats }: OnchainTarget): string | null {
  if (onchainAddress === null || amountSats === null || !/^[A-Za-z0-9]+$/.test(onchainAddress)) return null
  const uri = `bitcoin:${onchainAddress}?amount=${bitcoinAmount(amountSats)}`
  return invoice === null ? uri : `${uri}&lightning=${invoice}`
}

/** White modules around the code (ISO/IEC 18004). */
const QUIET_ZONE = 4

/** The code as an SVG of one path. Low error correction: fewer modules scan from further away. */
export function qrCode(content: string, label: string): VNode {
  const rows = encodeQR(content, 'raw', { ecc: 'low', border: QUIET_ZONE })
  const size = rows.length
  return html`
    <svg class="qr" role="img" aria-label=${label} viewBox=${`0 0 ${size} ${size}`} shape-rendering="crispEdges">
      <rect class="qr-light" width=${size} height=${size} />
      <path class="qr-dark" d=${rows.map(rowPath).join('')} />
    </svg>`
}

/** One rectangle per run of dark modules. */
function rowPath(row: readonly boolean[], y: number): string {
  let path = ''
  for (let x = 0; x < row.length; x++) {
    if (row[x] !== true) continue
    const start = x
    while (row[x] === true) x++
    path += `M${start} ${y}h${x - start}v1h${start - x}z`
  }
  return path
}
