import type { Core } from '../rig/child.ts'

/** Something that runs in front of the upstream, or the upstream itself, ready to be asked. */
export interface Target {
  readonly port: number
  /** Root of the processes whose CPU counts; null for the bare upstream, which is only there for its latency. */
  readonly pid: number | null
  /**
   * Whether it is JavaScript, which is compiled while it is under load: it needs a long warm-up, and others hardly one.
   */
  readonly compiles: boolean
  /** It is a gateway of ours, whose code is another in every scenario. */
  readonly ours?: true
  /** Every process of its tree serves; else the first alone, or its children where that only watches over them. */
  readonly whole?: true
  /** Why it does not run any more, or null while it does. */
  fault(): string | null
  /** What it has written to standard output, where that is kept. */
  output?(): string
  /** Called after each round, outside the measured window. */
  afterRound?(): void
  stop(): Promise<void>
}

/** What a target is started with. */
export interface Place {
  /** Folder of the run, for configuration and output. */
  readonly folder: string
  readonly core: Core
  /** Origin of the upstream, such as http://127.0.0.1:41234. */
  readonly upstream: string
  /** Modules that Node loads before a program of ours or a peer on Node; none unless said. */
  readonly imports?: readonly string[]
  /**
   * Data of an embedded gateway that has stopped: another begins with a copy, and need not set up its database. None
   * unless said.
   */
  readonly data?: string
  /** Reports progress. */
  say(line: string): void
}

/** A proxy to compare with. */
export interface Peer {
  readonly id: string
  readonly label: string
  /** Null when it is not installed here. */
  readonly version: string | null
  /** The command that installs it. */
  readonly install: string
  start(place: Place): Promise<Target>
}
