import { homedir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { didYouMean, nearest } from '../../engine/config/diagnose.ts'
import { providerKinds } from '../../lightning/kinds/kinds.ts'
import type { Help } from '../cli/help.ts'
import { UsageError, type Output } from '../cli/output.ts'

const KINDS = providerKinds.flatMap(({ name, onMachine }) => (onMachine === undefined ? [] : [{ name, ...onMachine }]))
const nodeKinds = KINDS.map(({ name }) => name)
const NAMES = nodeKinds.join('|')
const FOLDERS = KINDS.map(({ folder }) => `~/${folder}`).join(', ')

export const keyHelp: Help = {
  about: 'Makes a provider key from the folder of a node',
  takes: NAMES,
  words: nodeKinds,
  details: `Reads tls.cert and the first of boltgate.macaroon, invoice.macaroon and admin.macaroon in the node's folder. Prints the
key on standard output, and which macaroon it took on standard error.`,
  flags: {
    '--dir <folder>': `Folder of the node (default: ${FOLDERS})`,
    '--macaroon <file>': 'Macaroon to use instead',
    '--network <name>': 'Network of the node, where its folder has several',
    '--address <host[:port]>': 'Address at which the gateway reaches the REST API',
    '--public': 'Leave the certificate out: a public authority signed the one at this address'
  },
  examples: [`LIGHTNING_KEY=$(boltgate key ${NAMES})`, 'boltgate key lnd --address node.example.com:8080']
}

/**
 * Writes the key of a node from its folder.
 * @throws UsageError, CodedError
 */
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
  const kind = kindOf(positionals)
  const created = kind.keyOf({
    dir: values.dir ?? join(homedir(), kind.folder),
    credential: values.macaroon ?? null,
    network: values.network ?? null,
    address: values.address ?? null,
    isPublic: values.public
  })
  for (const remark of created.remarks) out.complain(remark)
  out.print(created.key)
  return 0
}

/** @throws UsageError */
function kindOf([name, ...more]: readonly string[]): (typeof KINDS)[number] {
  const names = nodeKinds
  if (name === undefined) throw new UsageError(`Missing kind of the node: use ${names.join(' or ')}.`)
  const kind = KINDS.find(each => each.name === name)
  if (kind === undefined)
    throw new UsageError(`Unknown kind "${name}": use ${names.join(' or ')}${didYouMean(nearest(name, names)) || '.'}`)
  if (more.length > 0) throw new UsageError(`Unexpected argument "${more.join(' ')}" after ${name}.`)
  return kind
}
