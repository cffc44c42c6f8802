import { definePlugin, Type } from '../../src/index.ts'

interface Stage {
  readonly waiting: (() => void)[]
  readonly told: string[]
}

// Each import of the file is a module of its own; state shared by test and plugins is outside of them.
const shared = globalThis as { stage?: Stage }
const { waiting, told: notified } = (shared.stage ??= { waiting: [], told: [] })

/** The calls that the plugin received, in order. */
export { notified as told }

/** Lets the requests that wait at the plugin go on; answers how many there were. */
export function release(): number {
  const count = waiting.length
  for (const go of waiting.splice(0)) go()
  return count
}

/** How many requests wait at the plugin. */
export function waitingNow(): number {
  return waiting.length
}

/** Waits, or answers what cannot be written, as the path says. */
export default definePlugin({
  name: 'stage',
  config: Type.Object({ generation: Type.String({ default: '' }) }),
  setup({ generation }) {
    return {
      async request(ctx) {
        if (ctx.path === '/bad-value') return { status: 200, headers: ['X-Bad', 'caf\u{1F600}'], body: 'x' }
        if (ctx.path === '/bad-name') return { status: 200, headers: ['X Bad', 'x'], body: 'x' }
        if (ctx.path === '/wait')
          await new Promise<void>(resolve => {
            waiting.push(resolve)
          })
        return { status: 200, headers: ['X-Generation', generation], body: generation }
      },
      async response(_ctx, head) {
        await Promise.resolve()
        head.headers.append('X-Seen', generation)
      },
      done(_ctx, outcome) {
        notified.push(`done ${generation} ${outcome.status}`)
      },
      close() {
        notified.push(`close ${generation}`)
      }
    }
  }
})
