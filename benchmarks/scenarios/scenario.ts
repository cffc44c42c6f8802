import type { LoadRequest } from '../load/request.ts'
import type { Fleet } from '../measure/fleet.ts'
import type { PerScale, Scale, WindowPlan } from '../measure/plan.ts'
import type { Place, Target } from '../peers/target.ts'

/** One row of the table: a target that runs, or the reason why it does not. */
export interface Row {
  readonly id: string
  readonly label: string
  readonly version: string
  readonly target: Target | null
  /** Why there is no target. */
  readonly absent: string | null
  /** What this target is asked, where its credentials are others than the scenario's. */
  readonly request?: LoadRequest
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
  /** What is measured of it in a whole run, and what that needs: its share of the time that such a run may take. */
  readonly plan: WindowPlan
  /** Ids of the rows whose latencies are measured too, in an open loop at three rates; empty for none. */
  readonly latency: readonly string[]
  /**
   * Requests of one window, where each credential is good once, and the windows of the warm-up; null where a window is
   * a time.
   */
  readonly once: { readonly quick: number; readonly full: number; readonly warmUp: number } | null
  /**
   * Has the targets started, and checks that each does the work that it is measured for. `credentials` is how many
   * requests a gateway will be asked in all, where each credential is good once. A quick run may leave peers out that a
   * full one has. Throws when a target only pretends to.
   */
  prepare(fleet: Fleet, credentials: number, scale: Scale): Promise<Stage>
}

/** One figure of a study: its values of several rounds. */
export interface Figure {
  readonly unit: string
  readonly values: readonly number[]
}

/** A row of a study. */
export interface StudyRow {
  readonly id: string
  readonly label: string
  readonly absent: string | null
  readonly figures: Readonly<Record<string, Figure>>
}

/** What a study found. */
export interface StudyResult {
  readonly rows: readonly StudyRow[]
  readonly remarks: readonly string[]
}

/** Something that is no loop of requests: memory of open connections, streams, messages. */
export interface Study {
  readonly id: string
  readonly title: string
  readonly text: string
  /** The figure that the picture shows. */
  readonly charted: string
  /** What it takes of a whole run; null where such a run leaves it out. */
  readonly seconds: PerScale<number | null>
  run(place: Place, scale: Scale, say: (line: string) => void): Promise<StudyResult>
}
