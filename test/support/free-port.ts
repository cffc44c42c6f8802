import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'

/** A port that nobody listens on, for a program that can take no other. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  // A server that listens on TCP has an address object.
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
