// node benchmarks/with-aperture.ts [options and scenarios of bench.ts]: the same with Aperture in the table. It starts btcd and two
// lnd nodes with a channel, has Aperture sell a token, pays for it, and runs bench.ts with binary, configuration, database and token in
// its environment. The programs are found by BOLTGATE_LND_BIN (test/interop/lnd/install.sh builds them) and BOLTGATE_APERTURE.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { request } from 'undici'
import { findPrograms, openChannel, startChain, startNode, until, type Node } from '../test/interop/lnd/nodes.ts'
import { startApertureAt } from './peers/aperture.ts'
import { startReturning } from './peers/haproxy.ts'
import { makeFolder, removeFolder } from './rig/child.ts'

const PATH = '/paid/quote'

const configurationFor = (node: Node): string => `listenaddr: "LISTEN"
insecure: true
debuglevel: "error"
dbbackend: "sqlite"
authenticator: { network: "regtest", lndhost: "${node.grpcHost}", tlspath: "${node.folder}/tls.cert", macdir: "${node.folder}/data/chain/bitcoin/regtest" }
services:
  - { name: "quote", hostregexp: ".*", pathregexp: "^/.*$", address: "UPSTREAM", protocol: http, price: 10 }
`

/** Has Aperture, at a port of this machine, sell a token, which `payer` pays. @returns the value of Authorization */
async function buyToken(port: number, payer: Node): Promise<string> {
  const { statusCode, headers, body } = await request(`http://127.0.0.1:${port}${PATH}`)
  await body.dump()
  const offer = /^L(?:402|SAT) macaroon="([^"]+)", invoice="([^"]+)"/.exec(
    [headers['www-authenticate']].flat()[0] ?? ''
  )
  const [, macaroon, invoice] = offer ?? []
  if (statusCode !== 402 || macaroon === undefined || invoice === undefined)
    throw new Error(`Aperture answered ${statusCode} with ${JSON.stringify(headers['www-authenticate'])}`)
  // A channel that is open may still be unusable for a moment.
  return `L402 ${macaroon}:${await until('a payment', () => payer.pay(invoice))}`
}

const say = (line: string): void => {
  process.stderr.write(`${line}\n`)
}
const programs = findPrograms()
const binary = process.env['BOLTGATE_APERTURE'] ?? ''
if (programs === null || binary === '')
  throw new Error(
    'this takes lnd and btcd in BOLTGATE_LND_BIN and Aperture in BOLTGATE_APERTURE (benchmarks/README.md)'
  )

const folder = makeFolder()
const ends: Array<() => unknown> = [() => removeFolder(folder)]
try {
  const lifetime = { teardown: (end: () => unknown) => void ends.push(end) }
  say('btcd and two lnd nodes')
  const chain = await startChain(lifetime, programs.btcd)
  const [seller, payer] = await Promise.all([
    startNode(lifetime, programs.lnd, chain),
    startNode(lifetime, programs.lnd, chain)
  ])
  say('a channel between them')
  await openChannel(chain, payer, seller)
  const configuration = configurationFor(seller)
  const file = join(folder, 'aperture-to-fill-in.yaml')
  writeFileSync(file, configuration, { mode: 0o600 })
  say('a token of Aperture')
  const upstream = await startReturning(folder, null, 1024)
  ends.push(() => upstream.stop())
  const aperture = await startApertureAt(
    { binary, configuration, database: null },
    folder,
    null,
    `127.0.0.1:${upstream.port}`
  )
  let token: string
  try {
    token = await buyToken(aperture.port, payer)
  } finally {
    await aperture.stop()
  }
  const bench = spawn(
    process.execPath,
    [...process.execArgv, fileURLToPath(new URL('bench.ts', import.meta.url)), ...process.argv.slice(2)],
    {
      stdio: 'inherit',
      env: {
        ...process.env,
        BOLTGATE_APERTURE: binary,
        BOLTGATE_APERTURE_CONFIG: file,
        BOLTGATE_APERTURE_DATABASE: join(folder, 'aperture.db'),
        BOLTGATE_APERTURE_TOKEN: token
      }
    }
  )
  const [code] = (await once(bench, 'exit')) as [number | null] // what 'exit' gives
  process.exitCode = code ?? 1
} finally {
  for (const end of ends.toReversed()) await end()
}
