import { spawn } from 'node:child_process'
import { existsSync, globSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { Test as T } from 'tap'
import { temporaryFolder } from '../../support/database.ts'
import { freePort } from '../../support/free-port.ts'

/** A wallet of the instance. */
export interface LnbitsWallet {
  readonly id: string
  /** Keys as the gateway takes them. */
  readonly adminKey: string
  readonly invoiceKey: string
  /** Calls the instance's own API with the admin key. */
  api(method: string, path: string, body?: object): Promise<unknown>
}

/** An LNbits of this machine. With its FakeWallet it pays between its own wallets alone. */
export interface LnbitsInstance {
  readonly url: string
  wallet(name: string): Promise<LnbitsWallet>
  /** Gives a wallet satoshis, as its operator may. */
  credit(wallet: LnbitsWallet, sats: number): Promise<void>
}

/** The folder that `install.sh` was given; null where there is none. */
export function findLnbits(): string | null {
  const folder = process.env['BOLTGATE_LNBITS']
  return folder !== undefined && existsSync(join(folder, 'bin/lnbits')) ? resolve(folder) : null
}

/**
 * Starts an instance over an empty folder, and makes its first user; `funding` says in LNbits' own settings what it is
 * paid through. It is ended with the test.
 */
export async function startLnbits(
  t: T,
  folder: string,
  funding: Readonly<Record<string, string>> = {
    LNBITS_BACKEND_WALLET_CLASS: 'FakeWallet',
    FAKE_WALLET_SECRET: 'a secret of a test'
  }
): Promise<LnbitsInstance> {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const data = temporaryFolder(t)
  const [packages] = globSync(join(folder, 'lib/python3.*/site-packages'))
  if (packages === undefined) throw new Error('the folder holds no LNbits')
  // It serves from a child of its own, which only the group reaches.
  const child = spawn(join(folder, 'bin/lnbits'), ['--port', String(port), '--host', '127.0.0.1'], {
    cwd: packages,
    detached: true,
    stdio: 'ignore',
    env: {
      PATH: process.env['PATH'] ?? '',
      LNBITS_DATA_FOLDER: data,
      LNBITS_EXTENSIONS_PATH: data,
      ...funding,
      LNBITS_ADMIN_UI: 'true',
      LNBITS_RATE_LIMIT_NO: '1000000',
      AUTH_HTTPS_ONLY: 'false'
    }
  })
  t.teardown(() => {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
  })
  const send = async (method: string, path: string, headers: Record<string, string>, body?: object) => {
    const answer = await fetch(`${url}${path}`, {
      method,
      headers: { 'content-type': 'application/json', ...headers },
      redirect: 'manual',
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
    return await answer.json()
  }
  const password = 'adminadmin'
  const user = { username: 'admin', password, password_repeat: password }
  const { access_token: token } = await inTime(
    async () => (await send('PUT', '/api/v1/auth/first_install', {}, user)) as { readonly access_token: string }
  )
  const authorization = `Bearer ${token}`
  return {
    url,
    wallet: async name => {
      const { id, adminkey, inkey } = (await send('POST', '/api/v1/wallet', { authorization }, { name })) as {
        readonly id: string
        readonly adminkey: string
        readonly inkey: string
      }
      // It would ask feeds for prices with every invoice, which tests cannot reach.
      await send('PATCH', '/api/v1/wallet', { 'x-api-key': adminkey }, { currency: '' })
      const key = (text: string) => `lnbits+http://127.0.0.1:${port}?key=${text}`
      return {
        id,
        adminKey: key(adminkey),
        invoiceKey: key(inkey),
        api: (method, path, body) => send(method, path, { 'x-api-key': adminkey }, body)
      }
    },
    credit: async ({ id }, sats) => {
      await send('PUT', '/users/api/v1/balance', { authorization }, { id, amount: String(sats) })
    }
  }
}

/** It takes some seconds until it listens. */
async function inTime<Result>(work: () => Promise<Result>) {
  for (let tries = 0; ; tries++) {
    try {
      return await work()
    } catch (error) {
      if (tries >= 240) throw error
      await setTimeout(500)
    }
  }
}
