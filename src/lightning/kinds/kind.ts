import type { Database } from '../../platform/database/database.ts'
import type { Secret } from '../../platform/keys/secrets.ts'
import type { JobDeclaration } from '../../platform/jobs/jobs.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { AddressGuard } from '../../engine/upstream/guard.ts'
import type { CallBudget, CallLimits } from '../provider-calls/budgets.ts'
import type { KindName, Provider } from '../providers/provider.ts'
import { defineError } from '../../platform/system/errors.ts'

/** No key can be made of a folder; the message says what is missing and where. */
export const NODE_FOLDER = defineError('BG_NODE_FOLDER', {
  cause: "`boltgate key` found no certificate or macaroon in the node's folder, or one with too few permissions.",
  fix: 'Name the folder, file or network, or bake a macaroon with the command in the message.'
})

/**
 * A kind of provider, whole: what the configuration, the budgets and the poller must know of it, and how it is opened.
 * Each kind is a folder that exports one, and a line in `kinds.ts`.
 *
 * All that an account needs beside the operator's `url` and `timeout` stands in its key: merchants have nothing else to
 * give. A kind that is reached at its owner's host has host, certificate and secret in one text, such as lnd's address
 * (decision 71).
 */
export interface ProviderKind {
  /** As `gateway.yaml`, our rows and our metrics have it; never changed once it was released. */
  readonly name: KindName
  /**
   * Makes invoices without money and lives in this process: needs no key, serves both slots as one, is refused in
   * production.
   */
  readonly isSandbox: boolean
  /**
   * What is called over the network; null where nothing is. Such a kind has no budget, no breaker, and is not polled.
   */
  readonly calls: KindCalls | null
  /** What a key must be allowed to do, as its provider spells it; left out where keys have no scopes. */
  readonly scopes?: readonly KeyScope[]
  /** It pays nothing out, so that nothing that came in through it can be refunded: `boltgate check` says so. */
  readonly onlyReceives?: true
  /** It pays no invoice that leaves the amount to it, as return invoices of sessions do. */
  readonly wantsAmounts?: true
  /**
   * What is wrong with the form of a key, as far as it can be seen without asking anybody; undefined where nothing is.
   * The text says what would be right, and repeats nothing of the key.
   */
  keyFault(key: string): string | undefined
  /** How a key is made from what a node of this kind keeps on its own machine; left out where it keeps nothing. */
  readonly onMachine?: {
    /** The folder in its owner's home, such as `.lnd`. */
    readonly folder: string
    /** @throws CodedError */
    keyOf(folder: NodeFolder): NodeKey
  }
  /** @throws what says that the options cannot be, such as a key of another form */
  open(options: KindOptions): Provider
  /** Background jobs of a kind that keeps something in our database; declared once, however many slots it stands in. */
  jobs?(options: Pick<KindOptions, 'clock' | 'database'>): readonly JobDeclaration[]
}

/** Something that a key must be allowed to do. */
export interface KeyScope {
  readonly scope: string
  /** What it is for, to whoever makes the key. */
  readonly purpose: string
}

/** What a key is made from, on the machine of the node. */
export interface NodeFolder {
  /** The node's own folder, such as `~/.lnd`. */
  readonly dir: string
  /** The file of what authorizes; one that is found in the folder where it is null. */
  readonly credential: string | null
  /** Name of the network, as the node's folders have it; only needed where there are several. */
  readonly network: string | null
  /** `host:port`, or the host alone, under which the gateway reaches the node. */
  readonly address: string | null
  /** A public authority signed the certificate that is shown there, so that none is pinned. */
  readonly isPublic: boolean
}

/** A key, and what its owner should know of it. */
export interface NodeKey {
  readonly key: string
  readonly remarks: readonly string[]
}

/** How a kind is called. */
export interface KindCalls {
  /** Origin of its public service; null where each key names a host of its own. */
  readonly address: string | null
  /** Whose calls the provider counts: all from our address, or those of each key. `callsPerMinute` is about these. */
  readonly counted: 'address' | 'key'
  /**
   * What may be called, with something to spare. What a provider's own 429 says counts on top.
   * @param url `lightning.<slot>.url`; null for the kind's public address
   * @param perMinute the operator's figure in the place of that under which invoices are made; null for the kind's
   */
  limits(url: string | null, perMinute: number | null): CallLimits
  /**
   * An account pays for invoices that nobody pays, so that none is made before somebody asks, unless the operator says
   * otherwise. Left out where only payments cost.
   */
  readonly billsInvoices?: true
  /** How much of it the poller may use. */
  polling(url: string | null): Polling
  /**
   * The host that is called with a key, where keys choose it: one merchant's dead node must not stop the others. Empty
   * for a text that is no key. Left out where the configuration alone says which host it is.
   */
  hostOf?(key: Secret<string> | null): string
}

/** What the poller may ask of a kind. */
export interface Polling {
  /** HTTP calls in any minute. */
  readonly perMinute: number
  /** Whether all accounts share them, because the provider counts our address; else each account has as many. */
  readonly isShared: boolean
  /** HTTP calls that one listing and one look-up take. */
  readonly costs: { readonly list: number; readonly lookUp: number }
}

/** What a kind is opened with, for one slot. */
export interface KindOptions {
  /** `lightning.<slot>.url`; null for the kind's public address. */
  readonly url: string | null
  /**
   * `lightning.<slot>.key`: the very object that calls are made with, so that no merchant's key of the same text is taken for it. Its
   * host may be private, a merchant's must not.
   */
  readonly ownKey: Secret<string> | null
  /** Milliseconds for one call of the provider, however many HTTP calls it takes. */
  readonly timeout: number
  readonly clock: Clock
  /** What calls are taken from; none of our own where it is left out. */
  readonly budget?: CallBudget
  /** Every host that a key or a provider's answer names must pass it (decision 71). */
  readonly guard: AddressGuard
  readonly database: Database
  /** Absolute path of the data folder. */
  readonly dataDir: string
  /**
   * Public address of the slot's receiver, for a kind that is told it in each charge; null where nobody could reach it.
   * Asked for at each charge, since the public address may be known only after the start.
   */
  receiver(): string | null
  /**
   * For a kind whose invoices are paid within this process: told of each of them that was. It looks the payment up
   * before it resolves, and does not reject.
   */
  settled(paymentHash: string): Promise<void>
}
