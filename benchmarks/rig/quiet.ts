import { cpuOfMachine } from './cpu.ts'

/** Share of one core that may be in use for the machine to count as quiet. */
const QUIET = 0.15
const LOOK = 50

/**
 * Waits, at most `patience` milliseconds, until the machine has done next to nothing for a moment. To be called while
 * no load of ours runs. Returns whether it became quiet.
 */
export async function quiet(patience: number): Promise<boolean> {
  const deadline = performance.now() + patience
  do {
    const begin = performance.now()
    const before = cpuOfMachine()
    await new Promise(resolve => {
      setTimeout(resolve, LOOK)
    })
    if ((cpuOfMachine() - before) / ((performance.now() - begin) * 1000) < QUIET) return true
  } while (performance.now() < deadline)
  return false
}
