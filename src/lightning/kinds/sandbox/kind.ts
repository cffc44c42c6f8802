import { join } from 'node:path'
import { loadNodeKey } from './node-key.ts'
import type { ProviderKind } from '../kind.ts'
import { SandboxProvider } from './sandbox.ts'
import { SqlSandboxStore } from './store.ts'

/** The sandbox; the key of its node is in `<data>/sandbox-node.key`, made when it is first needed. */
export const sandbox: ProviderKind = {
  name: 'sandbox',
  isSandbox: true,
  // It tells of every payment within this process.
  calls: null,
  keyFault: () => undefined,
  open: ({ database, dataDir, clock, settled }) =>
    new SandboxProvider({
      store: new SqlSandboxStore(database.sql),
      nodeKey: loadNodeKey(join(dataDir, 'sandbox-node.key')),
      clock,
      settled
    })
}
