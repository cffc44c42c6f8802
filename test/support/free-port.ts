import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * A port that is not in use, for a program that can take no other. Below those that systems give to callers that ask for
 * any: one of these may be another test's by the time the program takes it.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(20_000, 32_000)
    const server = createServer().listen(port, '127.0.0.1')
    try {
      await once(server, 'listening')
    } catch {
      // It is taken; another one is tried.
      continue
    }
    server.close()
    await once(server, 'close')
    return port
  }
}
