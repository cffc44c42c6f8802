import type { InvoiceNetwork } from '../codecs/bolt11.ts'
import { ProviderRefused } from './errors.ts'
import type { Charge, KeyVerdict } from './provider.ts'

/**
 * Networks of invoices. Test money is worthless, and other networks' wallets cannot pay. A key of another network than
 * the gateway's fails its check; an invoice of one is never sent.
 */

const NAMES: Readonly<Record<string, InvoiceNetwork>> = Object.freeze({
  bitcoin: 'mainnet',
  mainnet: 'mainnet',
  testnet: 'testnet',
  testnet3: 'testnet',
  testnet4: 'testnet',
  signet: 'signet',
  regtest: 'regtest'
})

export class OtherNetwork extends ProviderRefused {
  constructor(found: InvoiceNetwork, wanted: InvoiceNetwork) {
    super('key', textOf(found, wanted))
  }
}

function textOf(found: InvoiceNetwork, wanted: InvoiceNetwork): string {
  return `The provider key is one of ${found}, and this gateway sells on ${wanted}: save a key of ${wanted}.`
}

/** @throws OtherNetwork; `wanted` null takes every network */
export function requireNetwork(charge: Charge, wanted: InvoiceNetwork | null): Charge {
  if (wanted !== null && charge.network !== wanted) throw new OtherNetwork(charge.network, wanted)
  return charge
}

/** Verdict on a key for a gateway on `wanted`; null takes every network. */
export function verdictOn({ isValid, message, network }: KeyVerdict, wanted: InvoiceNetwork | null): KeyVerdict {
  if (wanted === null || network === undefined || network === wanted) return { isValid, message }
  return { isValid: false, message: textOf(network, wanted) }
}

/**
 * The network from the node's own name, null where absent, and its invoice.
 * @throws ProviderRefused 'key' where they differ
 */
export function agreedNetwork(named: string | null, made: InvoiceNetwork): InvoiceNetwork {
  if (named === null || (NAMES[named] ?? made) === made) return made
  throw new ProviderRefused(
    'key',
    `The node says that it is on ${NAMES[named] ?? 'another network'}, and makes invoices of ${made}: it cannot be sold with.`
  )
}
