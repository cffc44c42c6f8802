import type { Database } from '../../platform/database/database.ts'
import type { Secret } from '../../platform/keys/secrets.ts'
import type { JobDeclaration } from '../../platform/jobs/jobs.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { AddressGuard } from '../../engine/upstream/guard.ts'
import type { Bucket } from '../../platform/state/state.ts'
import { addressKeyFault, keyOrNull } from '../provider-calls/address-key.ts'
import { accountLimits, type CallBudget, type CallLimits } from '../provider-calls/budgets.ts'
import type { KindName, Provider } from '../provider-calls/provider.ts'
import { defineError } from '../../platform/system/errors.ts'

/** No key can be made from a folder; the message names what is missing and where. */
export const NODE_FOLDER = defineError('BG_NODE_FOLDER', {
  cause: "`boltgate key` found no certificate or macaroon in the node's folder, or one with too few permissions.",
  fix: 'Name the folder, file or network, or bake a macaroon with the command in the message.'
})

/**
 * A provider kind: what configuration, budgets and poller must know, and how to open it. Each kind is a folder that
 * exports one, and a line in `kinds.ts`.
 *
 * All that an account needs beside the operator's `url` and `timeout` is in its key, since merchants give nothing else.
 * A key to a host of its owner's holds host, certificate and secret, such as lnd's (decision 71).
 */
export interface ProviderKind {
  /** Name in `gateway.yaml`, our rows and our metrics; never changed after release. */
  readonly name: KindName
  /**
   * Runs in this process and makes invoices without money: no key, one account for both slots, refused in production.
   */
  readonly isSandbox: boolean
  /** Null without network calls: then no budget, no breaker, no polling. */
  readonly calls: KindCalls | null
  /** Permissions of a key, as the provider spells them; absent where keys have no scopes. */
  readonly scopes?: readonly KeyScope[]
  /** Cannot pay out, so nothing received can be refunded. `boltgate check` warns. */
  readonly onlyReceives?: true
  /**
   * Its invoices commit to a description by its hash, which x402 needs. On a `shared` node a preimage proves no payment:
   * others may make invoices there, or see it earlier.
   */
  readonly hashesDescriptions?: 'own' | 'shared'
  /** Pays no invoice without an amount, as return invoices of sessions are. */
  readonly wantsAmounts?: true
  /** What an operator chooses with it, in a few words. */
  readonly about: string
  /** What a key looks like and where its owner finds it, for people. */
  readonly keyHint: string
  /**
   * What is wrong with a key's form, checked offline; undefined when valid. The text states what is right and never
   * repeats the key.
   */
  keyFault(key: string): string | undefined
  /** Makes a key from a local node's files; absent where there are none. */
  readonly onMachine?: {
    /** Folder in the owner's home, such as `.lnd`. */
    readonly folder: string
    /** @throws CodedError */
    keyOf(folder: NodeFolder): NodeKey
  }
  /** @throws on invalid options, such as a malformed key */
  open(options: KindOptions): Provider
  /** Declared once for both slots. */
  jobs?(options: Pick<KindOptions, 'clock' | 'database'>): readonly JobDeclaration[]
}

export interface KeyScope {
  readonly scope: string
  readonly purpose: string
}

export interface NodeFolder {
  readonly dir: string
  readonly credential: string | null
  /** Network name, as in the node's folders; required only when there are several. */
  readonly network: string | null
  /** `host:port`, or the host alone, where the gateway reaches the node. */
  readonly address: string | null
  /** A public authority signed the certificate: it needs no pinning. */
  readonly isPublic: boolean
}

export interface NodeKey {
  readonly key: string
  readonly remarks: readonly string[]
}

export interface KindCalls {
  /** Origin of its public service; null where keys name a host. */
  readonly address: string | null
  /** What the provider counts calls by; `callsPerMinute` applies to the same. */
  readonly counted: 'address' | 'key'
  /**
   * Call limits with a margin. The provider's own 429 counts on top.
   * @param url `lightning.<slot>.url`; null for the kind's public address
   * @param perMinute the operator's figure instead of the kind's for making invoices; null for the kind's
   */
  limits(url: string | null, perMinute: number | null): CallLimits
  /** Unpaid invoices cost money: made ahead only if the operator says so. */
  readonly billsInvoices?: true
  polling(url: string | null): Polling
  /**
   * Host that a key names, so that a dead node blocks only its merchant. Empty for an invalid key; absent where
   * configuration names the host.
   */
  hostOf?(key: Secret<string> | null): string
}

export interface Polling {
  readonly perMinute: number
  /** Whether all accounts share them, since the provider counts by our address. */
  readonly isShared: boolean
  readonly costs: { readonly list: number; readonly lookUp: number }
}

export interface KindOptions {
  /** `lightning.<slot>.url`; null for the kind's public address. */
  readonly url: string | null
  /**
   * `lightning.<slot>.key`, compared by identity so that a merchant's equal key does not match. Only its host may be
   * private.
   */
  readonly ownKey: Secret<string> | null
  /** Milliseconds for one provider operation, across its HTTP calls. */
  readonly timeout: number
  readonly clock: Clock
  readonly budget?: CallBudget
  /** Decision 71. */
  readonly guard: AddressGuard
  readonly database: Database
  /** Absolute path of the data folder. */
  readonly dataDir: string
  /**
   * Public address of the slot's receiver, sent with each charge; null where unreachable. Read per charge: it may be
   * known only after the start.
   */
  receiver(): string | null
  /** Reports an invoice paid within this process. Looks the payment up before it resolves; never rejects. */
  settled(paymentHash: string): Promise<void>
}

/** A kind whose keys name their host and are counted alone. */
export function addressKeyKind(
  read: (text: string) => { readonly origin: string },
  {
    limits,
    polling,
    ...kind
  }: Omit<ProviderKind, 'isSandbox' | 'calls' | 'keyFault'> & {
    readonly limits: Bucket
    readonly polling: Omit<Polling, 'isShared'>
  }
): ProviderKind {
  return {
    ...kind,
    isSandbox: false,
    keyFault: addressKeyFault(read),
    calls: {
      address: null,
      counted: 'key',
      limits: accountLimits(limits),
      polling: () => ({ ...polling, isShared: false }),
      hostOf: key => keyOrNull(key, kind.name, read)?.origin ?? ''
    }
  }
}
