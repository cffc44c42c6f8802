import { homedir } from 'node:os'
import { join } from 'node:path'
import { providerKinds } from '../../lightning/kinds/kinds.ts'
import { defineCommand } from '../cli/command.ts'

const KINDS = providerKinds.flatMap(({ name, onMachine }) => (onMachine === undefined ? [] : [{ name, ...onMachine }]))
const nodeKinds = KINDS.map(({ name }) => name)
const NAMES = nodeKinds.join('|')
const FOLDERS = KINDS.map(({ folder }) => `~/${folder}`).join(', ')

export const key = defineCommand(
  {
    about: 'Makes a provider key from the folder of a node',
    takes: NAMES,
    words: nodeKinds,
    word: 'kind',
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
  },
  async (values, words, out) => {
    const kind = KINDS.find(({ name }) => name === words[0])
    if (kind === undefined) throw new TypeError('an unknown kind is refused before')
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
)
