import { clientNetwork } from '../../engine/message/addresses.ts'
import type { Context, Principal } from '../../engine/message/context.ts'
import type { Trail } from '../../engine/operations/trail.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Log } from '../../platform/telemetry/log.ts'
import type { Notices } from '../mail/notices.ts'
import { principalOf, type CurrentSession } from './sessions.ts'

declare module '../../engine/pipeline/plugin.ts' {
  interface Services {
    readonly signInRecord: SignInRecord
  }
}

export interface SignInRecordDependencies {
  readonly notices?: Pick<Notices, 'signedIn'>
  readonly trail: Trail
  readonly clock: Clock
  readonly log: Log
}

/** Failed attempts that share a row. */
interface Tally {
  readonly operation: string
  readonly address: string
  attempts: number
  isWriting: boolean
  end: Awaited<ReturnType<Trail['begin']>> | null
}

const MINUTE = 60_000
/** Operations that open a session, by id. */
const SIGN_INS: ReadonlySet<string> = new Set(['signInWithKey', 'useSignInLink', 'signInWithPasskey'])
/** Rows of failed attempts per process and minute; further networks share one per operation. */
const MOST_ROWS = 20
const OTHERS = 'other addresses'
/** Longest stored `User-Agent`. */
const MOST_BROWSER = 200

/**
 * Audits sign-ins, sign-outs and failed attempts, without keys or tokens. Never rejects: a failing audit log must not
 * lock anyone out.
 */
export class SignInRecord {
  readonly #dependencies: SignInRecordDependencies
  readonly #tallies = new Map<string, Tally>()
  #minute = 0

  constructor(dependencies: SignInRecordDependencies) {
    this.#dependencies = dependencies
  }

  /** Records the start or end of a session; nothing for a session without access. */
  async session(
    ctx: Pick<Context, 'clientAddress' | 'headers'>,
    operation: string,
    session: CurrentSession | null,
    status: number
  ): Promise<void> {
    const principal = session === null ? null : (principalOf(session, 'merchant') ?? principalOf(session, 'admin'))
    if (principal !== null) await this.principal(ctx, operation, principal, status)
  }

  async principal(
    { clientAddress, headers }: Pick<Context, 'clientAddress' | 'headers'>,
    operation: string,
    principal: Principal,
    status: number
  ): Promise<void> {
    const target = { address: clientNetwork(clientAddress) }
    const browser = headers.get('user-agent')?.slice(0, MOST_BROWSER)
    try {
      if (SIGN_INS.has(operation) && principal.kind === 'merchant')
        await this.#dependencies.notices?.signedIn(principal, browser ?? '', target.address)
      const end = await this.#dependencies.trail.begin({
        principal,
        operation,
        target,
        input: browser ? { browser } : {}
      })
      await end(status, {})
    } catch (error) {
      this.#failedToWrite(error, operation)
    }
  }

  /** One row per client network, operation and minute. */
  async failed({ clientAddress }: Pick<Context, 'clientAddress'>, operation: string, status: number): Promise<void> {
    const minute = Math.floor(this.#dependencies.clock.now() / MINUTE)
    if (minute !== this.#minute) this.#tallies.clear()
    this.#minute = minute
    const address = clientNetwork(clientAddress)
    const tally = this.#tally(operation, address) ?? this.#add(operation, address)
    tally.attempts++
    await this.#write(tally, status)
  }

  #tally(operation: string, address: string): Tally | undefined {
    return this.#tallies.get(`${operation} ${address}`)
  }

  #add(operation: string, network: string): Tally {
    const address = this.#tallies.size < MOST_ROWS ? network : OTHERS
    const tally = this.#tally(operation, address) ?? { operation, address, attempts: 0, isWriting: false, end: null }
    this.#tallies.set(`${operation} ${address}`, tally)
    return tally
  }

  /** Attempts during a write share the next one: one write per row at a time. */
  async #write(tally: Tally, status: number): Promise<void> {
    if (tally.isWriting) return
    tally.isWriting = true
    const { address, attempts, operation } = tally
    try {
      tally.end ??= await this.#dependencies.trail.begin({ principal: null, operation, target: { address }, input: {} })
      await tally.end(status, { attempts })
    } catch (error) {
      this.#failedToWrite(error, operation)
    } finally {
      tally.isWriting = false
    }
    // Not awaited: it must not delay this response.
    if (tally.attempts > attempts) void this.#write(tally, status)
  }

  #failedToWrite(error: unknown, operation: string): void {
    this.#dependencies.log.error(
      { err: error, operation },
      'a sign-in or sign-out could not be written to the audit log'
    )
  }
}
