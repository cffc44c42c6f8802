import type { AnyOperation } from '../../engine/operations/operation.ts'
import type { JobDeclaration } from '../../platform/jobs/jobs.ts'

/** What each domain's `open…()` returns, beside what other domains use. */
export interface Domain {
  readonly operations: readonly AnyOperation[]
  readonly jobs: readonly JobDeclaration[]
  /** Ends what was opened; what a domain was given is ended later. */
  close(): void | Promise<void>
}

/** Takes in a domain that was opened: mounts its operations, declares its jobs, and closes it before those opened earlier. */
export type Open = <T extends Domain>(domain: T) => T
