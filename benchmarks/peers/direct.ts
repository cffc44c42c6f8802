import type { Peer } from './target.ts'

/**
 * No proxy at all: what the generator, the kernel and the upstream take by themselves. Only its latency is of interest.
 */
export const direct: Peer = {
  id: 'direct',
  label: 'no proxy (the upstream itself)',
  version: '',
  install: '',
  start: async ({ upstream }) => ({
    port: Number(new URL(upstream).port),
    pid: null,
    compiles: false,
    fault: () => null,
    stop: async () => {}
  })
}
