import { homedir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { didYouMean, nearest } from '../../engine/config/diagnose.ts'
import { providerKinds } from '../../lightning/kinds/kinds.ts'
import { UsageError, type Output } from '../cli/output.ts'

const KINDS = providerKinds.flatMap(({ name, onMachine }) => (onMachine === undefined ? [] : [{ name, ...onMachine }]))
export const nodeKinds = KINDS.map(({ name }) => name)
const NAMES = nodeKinds.join('|')
const FOLDERS = KINDS.map(({ folder }) => `~/${folder}`).join(', ')

export const keyUsage = `boltgate key ${NAMES} [--dir FOLDER] [--macaroon FILE] [--network NAME] [--address HOST[:PORT]] [--public]

Prints the key of a node, for gateway.yaml or a merchant's account, made from the node's folder (${FOLDERS} unless said): its
tls.cert, and boltgate.macaroon, invoice.macaroon or admin.macaroon, the first that is there. What the macaroon may do is
said on standard error, so that LIGHTNING_KEY=$(boltgate key ${NAMES}) takes the key alone. --address is where the gateway reaches
the REST API; --public leaves the certificate out, where a public authority signed what is shown there.`

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
  const made = kind.keyOf({
    dir: values.dir ?? join(homedir(), kind.folder),
    credential: values.macaroon ?? null,
    network: values.network ?? null,
    address: values.address ?? null,
    isPublic: values.public
  })
  for (const remark of made.remarks) out.complain(remark)
  out.print(made.key)
  return 0
}

/** @throws UsageError */
function kindOf([name, ...more]: readonly string[]): (typeof KINDS)[number] {
  const names = nodeKinds
  if (name === undefined) throw new UsageError(`key needs the kind of the node: ${names.join(' or ')}.\n\n${keyUsage}`)
  const kind = KINDS.find(each => each.name === name)
  if (kind === undefined)
    throw new UsageError(
      `key knows the folders of ${names.join(' and ')}, not of "${name}"${didYouMean(nearest(name, names)) || '.'}\n\n${keyUsage}`
    )
  if (more.length > 0)
    throw new UsageError(`key takes nothing behind ${name} but options, not "${more.join(' ')}".\n\n${keyUsage}`)
  return kind
}
