import { fileURLToPath } from 'node:url'
import { announcedPort, start } from '../rig/child.ts'
import { packageVersion } from '../rig/machine.ts'
import type { Peer } from './target.ts'

function nodePeer(id: string, label: string, packageName: string): Peer {
  return {
    id,
    label,
    version: packageVersion(packageName),
    install: 'npm ci --prefix benchmarks',
    async start({ folder, core, upstream, imports = [] }) {
      const program = fileURLToPath(new URL(`${id}.mjs`, import.meta.url))
      const child = start(
        id,
        folder,
        core,
        [process.execPath, ...imports.map(module => `--import=${module}`), program, upstream],
        { env: { NODE_ENV: 'production' } }
      )
      try {
        return {
          port: await announcedPort(id, child),
          pid: child.pid,
          compiles: true,
          fault: () => child.fault(),
          output: () => child.output(),
          stop: () => child.stop()
        }
      } catch (error) {
        await child.stop()
        throw error
      }
    }
  }
}

/**
 * `node:http` in front, undici's `dispatch` with a handler of its own behind: the floor of what the gateway is built
 * on.
 */
export const undici: Peer = nodePeer('undici', 'bare undici dispatch', 'undici')

/** The kept fork of http-proxy, with an agent that keeps its connections. */
export const httpProxy3: Peer = nodePeer('http-proxy-3', 'http-proxy-3', 'http-proxy-3')

/** Fastify's proxy plugin, logging off as it is by default. */
export const fastifyHttpProxy: Peer = nodePeer('fastify-http-proxy', '@fastify/http-proxy', '@fastify/http-proxy')
