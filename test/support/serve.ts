import { once } from 'node:events'
import type { AddressInfo, Server } from 'node:net'
import type { Lifetime } from './database.ts'

/** Lets a server listen until the test ends; answers its port. */
export async function serve(t: Lifetime, server: Server & { closeAllConnections?(): void }): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections?.()
  })
  // A server on TCP has an address object.
  return (server.address() as AddressInfo).port
}
