import { startTool } from '../load/tool.ts'
import { nginx } from '../peers/nginx.ts'
import { undici } from '../peers/node-peers.ts'
import type { Figure, Study, StudyRow } from './scenario.ts'
import { cpuOfTarget, gateway, generatorCore, overTargets, residentOfTarget } from './studies.ts'

const GIB = 2 ** 30
const MIB = 2 ** 20
const SAMPLE_MS = 100

const WAYS = [
  { way: 'down', label: 'answer' },
  { way: 'up', label: 'upload' }
] as const

/** What a process's resident memory was while something ran, and how long that took. */
interface Curve {
  readonly samples: readonly number[]
  readonly seconds: number
  readonly cpu: number
}

/** Sends one body through a target and looks at the target's memory every 100 ms. Throws when not all of it arrived. */
async function flow(
  target: { readonly port: number; readonly pid: number },
  way: 'down' | 'up',
  bytes: number,
  core: number | null
): Promise<Curve> {
  const cpuBefore = cpuOfTarget(target)
  const tool = startTool('flow', { port: target.port, way, bytes }, core)
  const samples: number[] = []
  const watch = setInterval(() => {
    samples.push(residentOfTarget(target))
  }, SAMPLE_MS)
  try {
    const told = await tool.next()
    if (told['bytes'] !== bytes) throw new Error(`${String(told['bytes'])} of ${bytes} bytes arrived`)
    samples.push(residentOfTarget(target))
    return { samples, seconds: Number(told['seconds']), cpu: cpuOfTarget(target) - cpuBefore }
  } finally {
    clearInterval(watch)
    await tool.stop()
  }
}

/** What a curve comes to. */
export function figuresOf(
  { samples, seconds, cpu }: Curve,
  atRest: number,
  bytes: number
): Readonly<Record<string, Figure>> {
  const middle = Math.ceil(samples.length / 2)
  const highest = (part: readonly number[]): number => part.reduce((most, value) => Math.max(most, value), 0)
  const whole = highest(samples)
  return {
    'highest above rest': { unit: 'MiB', values: [(whole - atRest) / MIB] },
    'second half above first': {
      unit: 'MiB',
      values: [samples.length < 2 ? 0 : (highest(samples.slice(middle)) - highest(samples.slice(0, middle))) / MIB]
    },
    'resident, highest': { unit: 'MiB', values: [whole / MIB] },
    'MiB/s': { unit: '', values: [bytes / MIB / seconds] },
    'CPU for each GiB': { unit: 'ms', values: [cpu / 1000 / (bytes / GIB)] }
  }
}

/** Bodies that are far larger than the memory they may take. */
export const streamed: Study = {
  id: 'streamed',
  seconds: { quick: null, full: 75 },
  title: 'Large bodies: 10 GiB down and 10 GiB up, memory flat',
  text: 'One answer and then one upload of 10 GiB pass through the gateway, and 2 GiB through its peers (0.5 GiB through each in a quick run, where it is asked for by name). Memory is flat when the second half needs no more than the first.',
  charted: 'highest above rest',
  async run(place, scale, say) {
    // Peers need not show that 10 GiB are as flat as 2.
    const bytesFor = (id: string): number => (scale === 'quick' ? 0.5 : id === gateway.id ? 10 : 2) * GIB
    const core = generatorCore(place)
    const halves = new Map<string, Readonly<Record<string, Figure>>>()
    const rows = await overTargets({ ...place, say }, [gateway, nginx, undici], async (target, peer) => {
      // The process as it is between requests, with no body behind it yet.
      const atRest = residentOfTarget(target)
      for (const { way } of WAYS)
        halves.set(
          `${peer.id}-${way}`,
          figuresOf(await flow(target, way, bytesFor(peer.id), core), atRest, bytesFor(peer.id))
        )
      return {}
    })
    const cells = rows.flatMap((row): StudyRow[] =>
      row.absent !== null
        ? [row]
        : WAYS.map(({ way, label }) => ({
            ...row,
            id: `${row.id}-${way}`,
            label: `${row.label}, ${label}`,
            figures: halves.get(`${row.id}-${way}`) ?? {}
          }))
    )
    return {
      rows: cells,
      remarks: [
        `${bytesFor(gateway.id) / GIB} GiB each way through the gateway, ${bytesFor('') / GIB} through its peers. Resident pages of the target, every ${SAMPLE_MS} ms; "rest" is the process before the first body, so what it needs once, such as compiled code and its buffers, counts.`,
        "Client and upstream share the second core, so MiB/s say how fast they are together with the target; the CPU is the target's.",
        'nginx passes both bodies on without buffering them on disk, as the others do.'
      ]
    }
  }
}
