import type { AnyOperation } from '../../engine/operations/operation.ts'
import type { JobDeclaration } from '../../platform/jobs/jobs.ts'

/** What each domain's `open…()` gives, beside what other domains ask of it by name. */
export interface Domain {
  readonly operations: readonly AnyOperation[]
  readonly jobs: readonly JobDeclaration[]
  /** Ends what was opened; what a domain was given is ended later. */
  close(): void | Promise<void>
}
