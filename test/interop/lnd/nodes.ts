/** Real lnd nodes on a regtest chain of btcd, in temporary folders, ended with the test. */
import { spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { accessSync, constants, createWriteStream, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { secp256k1 } from '@noble/curves/secp256k1.js'
import { ripemd160 } from '@noble/hashes/legacy.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { base58check, bech32 } from '@scure/base'
import { Agent } from 'undici'
import { temporaryFolder, type Lifetime } from '../../support/database.ts'
import { lndConnect } from '../../fakes/lnd.ts'
import { freePort } from '../../support/free-port.ts'

/** JSON of an API that is not ours. */
export type Json = Readonly<Record<string, unknown>>

/** Folders in which lnd and btcd are looked for. */
export function findPrograms(): { readonly lnd: string; readonly btcd: string } | null {
  const folders = [process.env['BOLTGATE_LND_BIN'] ?? '', ...(process.env['PATH'] ?? '').split(delimiter)].filter(
    folder => folder !== ''
  )
  const find = (name: string) => folders.map(folder => join(folder, name)).find(isProgram) ?? null
  const lnd = find('lnd')
  const btcd = find('btcd')
  return lnd === null || btcd === null ? null : { lnd, btcd }
}

function isProgram(path: string) {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    // Not there, or not for us to run.
    return false
  }
}

/** Waits until `look` finds something: processes of others say in no other way when they are ready. */
export async function until<Found>(what: string, look: () => Promise<Found | null>, seconds = 90): Promise<Found> {
  const end = Date.now() + seconds * 1000
  let last: unknown = null
  while (Date.now() < end) {
    try {
      const found = await look()
      if (found !== null) return found
    } catch (error) {
      last = error
    }
    await sleep(150)
  }
  throw new Error(`${what} did not come about in ${seconds} s`, { cause: last })
}

/** Runs a program until the test ends; what it prints goes to a file in `folder`. */
function run(t: Lifetime, folder: string, program: string, args: readonly string[]) {
  mkdirSync(folder, { recursive: true })
  const output = createWriteStream(join(folder, 'output.log'), { flags: 'a' })
  // Neither the home of the user who runs the tests nor their settings are its business.
  const child = spawn(program, args, { env: { HOME: folder, PATH: '' }, stdio: ['ignore', 'pipe', 'pipe'] })
  child.stdout?.pipe(output, { end: false })
  child.stderr?.pipe(output, { end: false })
  t.teardown(() => end(child))
  return child
}

async function end(child: ChildProcess) {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  const patience = setTimeout(() => {
    child.kill('SIGKILL')
  }, 15_000)
  await ended
  clearTimeout(patience)
}

/** An HTTPS client that trusts one certificate. */
function client(t: Lifetime, certificate: string) {
  const agent = new Agent({ connect: { ca: certificate } })
  t.teardown(() => agent.destroy())
  return agent
}

// Who mines: the key may be public, since nothing is worth anything here.
const minerKey = Buffer.alloc(32, 5)
const minerPublicKey = Buffer.from(secp256k1.getPublicKey(minerKey, true))
const minerHash = Buffer.from(ripemd160(sha256(minerPublicKey)))
const minerAddress = base58check(sha256).encode(Buffer.concat([Buffer.from([0x6f]), minerHash]))
const minerScript = Buffer.concat([Buffer.from([0x76, 0xa9, 20]), minerHash, Buffer.from([0x88, 0xac])])

/** A signed transaction that spends the coinbase `txid`; what the outputs leave is its fee. Hex. */
function spendCoinbase(txid: string, outputs: ReadonlyArray<{ readonly address: string; readonly sats: number }>) {
  const outs = outputs.map(({ address, sats }) => {
    const program = Buffer.from(
      bech32.fromWords(bech32.decode(address as `bcrt1${string}` /* lnd gives no others here */).words.slice(1))
    )
    const value = Buffer.alloc(8)
    value.writeBigUInt64LE(BigInt(sats))
    return Buffer.concat([value, Buffer.from([program.length + 2, 0, program.length]), program])
  })
  const transaction = (script: Uint8Array) =>
    Buffer.concat([
      Buffer.from('0100000001', 'hex'),
      Buffer.from(txid, 'hex').toReversed(),
      Buffer.from([0, 0, 0, 0, script.length]),
      script,
      Buffer.from('ffffffff', 'hex'),
      Buffer.from([outs.length]),
      ...outs,
      Buffer.alloc(4)
    ])
  const digest = sha256(sha256(Buffer.concat([transaction(minerScript), Buffer.from('01000000', 'hex')])))
  const signature = Buffer.concat([
    secp256k1.sign(digest, minerKey, { prehash: false, format: 'der' }),
    Buffer.from([1])
  ])
  return transaction(
    Buffer.concat([Buffer.from([signature.length]), signature, Buffer.from([minerPublicKey.length]), minerPublicKey])
  ).toString('hex')
}

/** A regtest chain. */
export interface Chain {
  readonly rpc: {
    readonly host: string
    readonly user: string
    readonly password: string
    readonly certificate: string
  }
  mine(blocks: number): Promise<void>
  /**
   * Sends satoshis to witness addresses, out of the 50 coins of the first block: what is left is the fee, which btcd
   * learns from. Works once.
   */
  pay(outputs: ReadonlyArray<{ readonly address: string; readonly sats: number }>): Promise<void>
}

/** Starts btcd. */
export async function startChain(t: Lifetime, program: string): Promise<Chain> {
  const folder = temporaryFolder(t)
  const [listen, rpcPort] = [await freePort(), await freePort()]
  const rpc = {
    host: `127.0.0.1:${rpcPort}`,
    user: 'boltgate',
    password: randomBytes(12).toString('hex'),
    certificate: join(folder, 'rpc.cert')
  }
  run(t, folder, program, [
    '--regtest',
    '--txindex',
    `--datadir=${join(folder, 'data')}`,
    `--logdir=${join(folder, 'logs')}`,
    `--configfile=${join(folder, 'none.conf')}`,
    `--listen=127.0.0.1:${listen}`,
    '--nodnsseed',
    '--nostalldetect',
    `--rpclisten=${rpc.host}`,
    `--rpcuser=${rpc.user}`,
    `--rpcpass=${rpc.password}`,
    `--rpccert=${rpc.certificate}`,
    `--rpckey=${join(folder, 'rpc.key')}`,
    `--miningaddr=${minerAddress}`
  ])
  const certificate = await until("btcd's certificate", async () =>
    existsSync(rpc.certificate) && existsSync(join(folder, 'rpc.key')) ? readFileSync(rpc.certificate, 'utf8') : null
  )
  const agent = client(t, certificate)
  const call = async (method: string, ...params: readonly unknown[]) => {
    const answer = await agent.request({
      origin: `https://${rpc.host}`,
      method: 'POST',
      path: '/',
      headers: {
        'content-type': 'application/json',
        authorization: `Basic ${Buffer.from(`${rpc.user}:${rpc.password}`).toString('base64')}`
      },
      body: JSON.stringify({ jsonrpc: '1.0', id: 1, method, params })
    })
    const { result, error } = (await answer.body.json()) as Json // btcd's JSON-RPC
    if (error !== null && error !== undefined) throw new Error(`btcd: ${JSON.stringify(error)}`)
    return result
  }
  await until('btcd', () => call('getblockcount'))
  const chain: Chain = {
    rpc,
    mine: async blocks => {
      await call('generate', blocks)
    },
    pay: async outputs => {
      const { tx } = (await call('getblock', await call('getblockhash', 1), 1)) as { readonly tx: readonly string[] } // txids in this form
      await call('sendrawtransaction', spendCoinbase(tx[0] ?? '', outputs))
      await chain.mine(1)
    }
  }
  // Segwit and taproot are active after three periods of 144 blocks.
  await chain.mine(450)
  return chain
}

/** A node. */
export interface Node {
  /** Its lndconnect address, with a macaroon of these permissions, such as `invoices:read`. */
  key(permissions: readonly string[]): Promise<string>
  /** Calls its REST API as its owner. */
  api(method: 'GET' | 'POST', path: string, body?: object): Promise<Json>
  /** Pays an invoice and answers the preimage. */
  pay(invoice: string): Promise<string>
  address(): Promise<string>
  /** Where its certificate and macaroons are. */
  readonly folder: string
  /** Host and port of its gRPC. */
  readonly grpcHost: string
  /** Public key. */
  readonly id: string
  /** Where other nodes reach it. */
  readonly peerHost: string
}

/** Starts lnd and waits until it serves. */
export async function startNode(t: Lifetime, program: string, chain: Chain): Promise<Node> {
  const folder = temporaryFolder(t)
  const [peer, grpc, rest] = [await freePort(), await freePort(), await freePort()]
  run(t, folder, program, [
    `--lnddir=${folder}`,
    '--noseedbackup',
    '--nobootstrap',
    '--bitcoin.regtest',
    '--bitcoin.node=btcd',
    '--bitcoin.defaultchanconfs=1',
    '--trickledelay=50',
    '--debuglevel=info',
    `--btcd.rpchost=${chain.rpc.host}`,
    `--btcd.rpcuser=${chain.rpc.user}`,
    `--btcd.rpcpass=${chain.rpc.password}`,
    `--btcd.rpccert=${chain.rpc.certificate}`,
    `--listen=127.0.0.1:${peer}`,
    `--rpclisten=127.0.0.1:${grpc}`,
    `--restlisten=127.0.0.1:${rest}`
  ])
  const macaroonFile = join(folder, 'data/chain/bitcoin/regtest/admin.macaroon')
  await until("lnd's macaroon", async () =>
    existsSync(macaroonFile) && existsSync(join(folder, 'tls.cert')) ? true : null
  )
  const certificate = readFileSync(join(folder, 'tls.cert'), 'utf8')
  const agent = client(t, certificate)
  const macaroon = readFileSync(macaroonFile).toString('hex')
  const api = async (method: 'GET' | 'POST', path: string, body?: object) => {
    const answer = await agent.request({
      origin: `https://127.0.0.1:${rest}`,
      method,
      path,
      headers: { 'grpc-metadata-macaroon': macaroon },
      body: body === undefined ? null : JSON.stringify(body)
    })
    const text = await answer.body.text()
    // A stream that ends has its last line last.
    const json = JSON.parse(text.trim().split('\n').at(-1) ?? '') as Json
    if (answer.statusCode !== 200) throw new Error(`lnd: ${method} ${path}: ${answer.statusCode} ${text}`)
    return json
  }
  const { identity_pubkey: id } = await until('lnd', () => api('GET', '/v1/getinfo'))
  return {
    folder,
    grpcHost: `127.0.0.1:${grpc}`,
    id: String(id),
    peerHost: `127.0.0.1:${peer}`,
    api,
    key: async permissions => {
      const baked = await api('POST', '/v1/macaroon', {
        permissions: permissions.map(permission => ({
          entity: permission.split(':')[0],
          action: permission.split(':')[1]
        }))
      })
      return lndConnect(`127.0.0.1:${rest}`, certificate, Buffer.from(String(baked['macaroon']), 'hex'))
    },
    pay: async invoice => {
      const { result } = await api('POST', '/v2/router/send', {
        payment_request: invoice,
        timeout_seconds: 30,
        fee_limit_sat: '100',
        no_inflight_updates: true
      })
      const payment = result as Json // a stream wraps each payment so
      if (payment['status'] !== 'SUCCEEDED') throw new Error(`not paid: ${JSON.stringify(payment)}`)
      return String(payment['payment_preimage'])
    },
    address: async () => String((await api('GET', '/v1/newaddress?type=WITNESS_PUBKEY_HASH'))['address'])
  }
}

/** Waits until the node has seen the whole chain. */
export async function synced(node: Node): Promise<void> {
  await until('the chain at a node', async () =>
    (await node.api('GET', '/v1/getinfo'))['synced_to_chain'] === true ? true : null
  )
}

/** Gives both money on chain and opens a channel, half of which is `to`'s. */
export async function openChannel(chain: Chain, from: Node, to: Node): Promise<void> {
  await Promise.all([from, to].map(synced))
  await chain.pay([
    { address: await from.address(), sats: 3_999_998_000 },
    { address: await to.address(), sats: 1_000_000_000 }
  ])
  for (const node of [from, to]) {
    await until('money on chain', async () =>
      Number((await node.api('GET', '/v1/balance/blockchain'))['confirmed_balance']) > 0 ? true : null
    )
  }
  await Promise.all([from, to].map(synced))
  // A node that has seen the chain may still be starting.
  await until('the other node', () => from.api('POST', '/v1/peers', { addr: { pubkey: to.id, host: to.peerHost } }))
  await from.api('POST', '/v1/channels', {
    node_pubkey: Buffer.from(to.id, 'hex').toString('base64'),
    local_funding_amount: '2000000',
    push_sat: '1000000'
  })
  await chain.mine(6)
  for (const node of [from, to]) {
    await until('the channel', async () =>
      ((await node.api('GET', '/v1/channels?active_only=true'))['channels'] as readonly unknown[]).length > 0
        ? true
        : null
    )
  }
}
