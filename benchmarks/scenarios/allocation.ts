import { fileURLToPath } from 'node:url'
import { createLoad } from '../load/load.ts'
import { plainGet, type LoadRequest } from '../load/request.ts'
import { allocatedBetweenCollections } from '../measure/allocation.ts'
import { mintCredentials, startBoltgate } from '../peers/boltgate.ts'
import { fastifyHttpProxy, httpProxy3, undici } from '../peers/node-peers.ts'
import type { Place, Target } from '../peers/target.ts'
import { startUpstream } from '../upstream/upstream.ts'
import type { Study, StudyRow } from './scenario.ts'
import { MADE_UP } from './verified-l402.ts'

const PATH = '/paid/quote'

/** Bytes of garbage that a request makes. */
export const allocation: Study = {
  id: 'allocation',
  title: 'Allocation for each request',
  text: 'The request of the first table, with collections traced: what each program allocates on its JavaScript heap for one request, between its first and its last collection of a window.',
  charted: 'allocated for each request',
  async run (given, scale, say) {
    const place: Place = { ...given, say, imports: [fileURLToPath(new URL('../rig/trace-gc.mjs', import.meta.url))] }
    const core = place.core === null ? null : 1
    const upstream = await startUpstream(place.folder, core, 1024)
    const rows: StudyRow[] = []
    try {
      const behind = { ...place, upstream: upstream.origin }
      const load = createLoad(place.folder)
      const starts: ReadonlyArray<{ id: string, label: string, begin: () => Promise<{ target: Target & { output (): string }, request: LoadRequest }> }> = [
        {
          id: 'boltgate',
          label: 'boltgate',
          async begin () {
            const target = await startBoltgate(behind, { name: 'boltgate' })
            const [authorization = ''] = await mintCredentials(target.port, 1, { path: PATH })
            return { target, request: plainGet(PATH, { Authorization: authorization, Accept: 'application/json' }) }
          }
        },
        ...[undici, httpProxy3, fastifyHttpProxy].filter(({ version }) => version !== null).map(peer => ({
          id: peer.id,
          label: peer.label,
          async begin () {
            const target = await peer.start(behind)
            const { output } = target
            if (output === undefined) throw new TypeError(`${peer.id} has no output to read`)
            return { target: { ...target, output }, request: plainGet(PATH, { Authorization: MADE_UP, Accept: 'application/json' }) }
          }
        }))
      ]
      for (const { id, label, begin } of starts) {
        say(label)
        const { target, request } = await begin()
        const values: number[] = []
        try {
          const window = { port: target.port, request, seconds: scale === 'quick' ? 2 : 8, connections: 64, core, from: 0, count: null }
          await load.closed({ ...window, seconds: 2 })
          for (let round = 0; round < (scale === 'quick' ? 3 : 9); round++) {
            const before = target.output().length
            const { requests } = await load.closed(window)
            const bytes = allocatedBetweenCollections(target.output().slice(before))
            if (bytes !== null && requests > 0) values.push(bytes / requests / 1024)
            target.afterRound?.()
          }
        } finally {
          await target.stop()
        }
        rows.push({ id, label, absent: values.length === 0 ? 'no two collections in a window' : null, figures: { 'allocated for each request': { unit: 'KiB', values } } })
      }
    } finally {
      await upstream.stop()
    }
    return { rows, remarks: ['Requests of the whole window are counted against what was allocated between its collections, so the figure is low by up to one young space in a window.'] }
  }
}
