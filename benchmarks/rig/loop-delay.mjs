// Imported into a process that is watched: appends a line `{"at":<ms>,"worst":<ms>}` for each second to the file that
// LOOP_DELAY_FILE names, with the longest that the event loop was late in it.
import { appendFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { isMainThread } from 'node:worker_threads'

const file = process.env.LOOP_DELAY_FILE
if (file !== undefined && isMainThread && process.argv[1]?.endsWith('boltgate.mjs')) {
  const resolution = 10
  const delay = monitorEventLoopDelay({ resolution })
  delay.enable()
  setInterval(() => {
    appendFileSync(file, `${JSON.stringify({ at: Date.now(), worst: Math.max(0, delay.max / 1e6 - resolution) })}\n`)
    delay.reset()
  }, 1000).unref()
}
