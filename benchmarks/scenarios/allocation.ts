import { fileURLToPath } from 'node:url'
import { createLoad } from '../load/load.ts'
import { plainGet, type LoadRequest } from '../load/request.ts'
import { allocatedBetweenCollections } from '../measure/allocation.ts'
import { mintCredentials, startBoltgate } from '../peers/boltgate.ts'
import { fastifyHttpProxy, httpProxy3, undici } from '../peers/node-peers.ts'
import type { Place, Target } from '../peers/target.ts'
import { startUpstream } from '../upstream/upstream.ts'
import type { Study, StudyRow } from './scenario.ts'
import { PAID_PATH } from './tokens.ts'
import { MADE_UP } from './verified-l402.ts'

const GENERATOR_CORE = 1

/** A target that is being started. */
interface Begun {
  readonly id: string
  readonly label: string
  begin(): Promise<{ readonly target: Target & { output(): string }; readonly request: LoadRequest }>
}

/** Bytes of garbage that a request makes. */
export const allocation: Study = {
  id: 'allocation',
  seconds: { quick: 15, full: 45 },
  title: 'Allocation for each request',
  text: 'The request of the first table, with collections traced: what each program allocates on its JavaScript heap for one request, between its first and its last collection of a window.',
  charted: 'allocated for each request',
  async run(given, scale, say) {
    const place: Place = {
      ...given,
      core: null,
      say,
      imports: [fileURLToPath(new URL('../rig/trace-gc.mjs', import.meta.url))]
    }
    const core = given.core === null ? null : GENERATOR_CORE
    const upstream = await startUpstream(place.folder, core, 1024)
    const load = createLoad(place.folder, core)
    const started: Target[] = []
    const keep = <T extends Target>(target: T): T => {
      started.push(target)
      return target
    }
    try {
      const behind = { ...place, upstream: upstream.origin }
      const gateway: Begun = {
        id: 'boltgate',
        label: 'boltgate',
        async begin() {
          const target = keep(await startBoltgate(behind, { name: 'boltgate' }))
          const [authorization = ''] = await mintCredentials(target.port, 1, { path: PAID_PATH })
          return { target, request: plainGet(PAID_PATH, { Authorization: authorization, Accept: 'application/json' }) }
        }
      }
      const peers = [undici, httpProxy3, fastifyHttpProxy].map((peer): Begun => ({
        id: peer.id,
        label: peer.label,
        async begin() {
          if (peer.version === null) throw new Error(`not installed here: \`${peer.install}\``)
          const { output, ...target } = keep(await peer.start(behind))
          if (output === undefined) throw new TypeError(`${peer.id} has no output to read`)
          return {
            target: { ...target, output },
            request: plainGet(PAID_PATH, { Authorization: MADE_UP, Accept: 'application/json' })
          }
        }
      }))
      // All start at the same time; each is loaded alone.
      const all = [gateway, ...peers].map(({ id, label, begin }) => ({
        id,
        label,
        begun: begin().catch((error: unknown) => (error instanceof Error ? error : new Error(String(error))))
      }))
      await Promise.all(all.map(({ begun }) => begun))
      const rows: StudyRow[] = []
      for (const { id, label, begun } of all) {
        say(label)
        const running = await begun
        if (running instanceof Error) {
          rows.push({ id, label, absent: running.message.slice(0, 300), figures: {} })
          continue
        }
        const { target, request } = running
        const values: number[] = []
        const window = {
          port: target.port,
          request,
          seconds: scale === 'quick' ? 1 : 2,
          connections: 64,
          core,
          from: 0,
          count: null
        }
        await load.closed({ ...window, seconds: scale === 'quick' ? 1 : 4 })
        for (let round = 0; round < (scale === 'quick' ? 2 : 3); round++) {
          const before = target.output().length
          const { requests } = await load.closed(window)
          const bytes = allocatedBetweenCollections(target.output().slice(before))
          if (bytes !== null && requests > 0) values.push(bytes / requests / 1024)
          target.afterRound?.()
        }
        rows.push({
          id,
          label,
          absent: target.fault() ?? (values.length === 0 ? 'no two collections in a window' : null),
          figures: { 'allocated for each request': { unit: 'KiB', values } }
        })
      }
      return {
        rows,
        remarks: [
          'Requests of the whole window are counted against what was allocated between its collections, so the figure is low by up to one young space in a window.'
        ]
      }
    } finally {
      await Promise.all(started.map(target => target.stop()))
      await load.stop()
      await upstream.stop()
    }
  }
}
