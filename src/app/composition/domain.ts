import type { AnyOperation } from '../../engine/operations/operation.ts'
import type { JobDeclaration } from '../../platform/jobs/jobs.ts'

/** Common members of each domain's `open…()`. */
export interface Domain {
  readonly operations: readonly AnyOperation[]
  readonly jobs: readonly JobDeclaration[]
  /** Closes what was opened; given dependencies are closed later. */
  close(): void | Promise<void>
}

/** Registers an opened domain: mounts its operations, declares its jobs, and closes it before those opened earlier. */
export type Open = <T extends Domain>(domain: T) => T
