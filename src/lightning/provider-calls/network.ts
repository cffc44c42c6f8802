import type { InvoiceNetwork } from '../codecs/bolt11.ts'
import { ProviderRefused } from './errors.ts'
import type { Charge, KeyVerdict } from '../providers/provider.ts'

/**
 * On which network invoices are made. Money of a test network is worth nothing, and a payer's wallet of another network
 * cannot pay at all: a key of another network than the gateway sells on fails its check, and an invoice of one is never
 * sent.
 */

/** What nodes call their network, with what their invoices then name. */
const NAMES: Readonly<Record<string, InvoiceNetwork>> = Object.freeze({
  bitcoin: 'mainnet',
  mainnet: 'mainnet',
  testnet: 'testnet',
  testnet3: 'testnet',
  testnet4: 'testnet',
  signet: 'signet',
  regtest: 'regtest'
})

/** The invoice, or the key, is of another network than the gateway sells on. */
export class OtherNetwork extends ProviderRefused {
  constructor(found: InvoiceNetwork, wanted: InvoiceNetwork) {
    super('key', textOf(found, wanted))
  }
}

function textOf(found: InvoiceNetwork, wanted: InvoiceNetwork): string {
  return `The provider key is one of ${found}, and this gateway sells on ${wanted}: save a key of ${wanted}.`
}

/** The charge. @throws OtherNetwork; `wanted` null takes every network */
export function requireNetwork(charge: Charge, wanted: InvoiceNetwork | null): Charge {
  if (wanted !== null && charge.network !== wanted) throw new OtherNetwork(charge.network, wanted)
  return charge
}

/** What a gateway that sells on `wanted` says of a key; null takes every network. */
export function verdictOn({ isValid, message, network }: KeyVerdict, wanted: InvoiceNetwork | null): KeyVerdict {
  if (wanted === null || network === undefined || network === wanted) return { isValid, message }
  return { isValid: false, message: textOf(network, wanted) }
}

/**
 * The network of a node that calls its network `named`, null where it does not say, and has made an invoice of `made`.
 * @throws ProviderRefused 'key' where they are two
 */
export function agreedNetwork(named: string | null, made: InvoiceNetwork): InvoiceNetwork {
  if (named === null || (NAMES[named] ?? made) === made) return made
  throw new ProviderRefused(
    'key',
    `The node says that it is on ${NAMES[named] ?? 'another network'}, and makes invoices of ${made}: it cannot be sold with.`
  )
}
