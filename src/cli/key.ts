import { homedir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { keyOfFolder } from '../providers/lnd/folder.ts'
import { UsageError, type Output } from './output.ts'

export const keyUsage = `boltgate key lnd [--dir FOLDER] [--macaroon FILE] [--network NAME] [--address HOST[:PORT]] [--public]

Prints the key of an lnd node, for gateway.yaml or a merchant's account, made from lnd's folder (~/.lnd unless said): its
tls.cert, and boltgate.macaroon, invoice.macaroon or admin.macaroon, the first that is there. What the macaroon may do is
said on standard error, so that LIGHTNING_KEY=$(boltgate key lnd) takes the key alone. --address is where the gateway reaches
the REST API; --public leaves the certificate out, where a public authority signed what is shown there.`

/** Makes the key of a node from its folder. @throws UsageError, LndFolderError */
export async function key(args: readonly string[], out: Output): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      dir: { type: 'string' },
      macaroon: { type: 'string' },
      network: { type: 'string' },
      address: { type: 'string' },
      public: { type: 'boolean', default: false }
    }
  })
  if (positionals.length !== 1 || positionals[0] !== 'lnd') throw new UsageError(keyUsage)
  const made = keyOfFolder({
    dir: values.dir ?? join(homedir(), '.lnd'),
    macaroon: values.macaroon ?? null,
    network: values.network ?? null,
    address: values.address ?? null,
    isPublic: values.public
  })
  for (const remark of made.remarks) out.complain(remark)
  out.print(made.key)
  return 0
}
