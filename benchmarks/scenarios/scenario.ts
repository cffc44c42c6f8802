import type { LoadRequest } from '../load/request.ts'
import type { Place, Target } from '../peers/target.ts'

/** One row of the table: a target that runs, or the reason why it does not. */
export interface Row {
  readonly id: string
  readonly label: string
  readonly version: string
  readonly target: Target | null
  /** Why there is no target. */
  readonly absent: string | null
}

/** Everything that a run needs of a scenario, started. */
export interface Stage {
  /** In the order of the table. */
  readonly rows: readonly Row[]
  readonly request: LoadRequest
  /** What the report must say about this run, such as a credential that had to be made up. */
  readonly remarks: readonly string[]
}

/** Work that every target does alike, in one run. */
export interface Scenario {
  readonly id: string
  readonly title: string
  /** What is asked and done, for the report. */
  readonly text: string
  /** Bytes of the upstream's answer. */
  readonly answerBytes: number
  /** Starts the targets and checks that each does the work that it is measured for. Throws when one only pretends to. */
  prepare (place: Place): Promise<Stage>
}
