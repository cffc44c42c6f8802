/** What nginx and Caddy in front of the gateway need, and what they do not. */
import { fetchWithMpp } from '@getalby/lightning-tools/402'
import t from 'tap'
import { Agent } from 'undici'
import { MAX_PRICED_PATH } from '../../src/selling/minting/minting.ts'
import { programPath } from '../support/program-path.ts'
import { selfSigned } from '../fakes/certificate.ts'
import { buy, sender } from '../support/gateway.ts'
import { deployedDoor, nginxDoor, openShop, sandboxWallet } from './setting.ts'

const skip = programPath('nginx') === null ? 'nginx is not installed' : false

t.test('nginx in front', { skip }, async t => {
  const shop = await openShop(t)
  const { gateway } = shop
  const pathOf = (length: number) => `/op/${'a'.repeat(length - '/op/'.length)}`
  const buy = async (url: string) =>
    fetchWithMpp(url, { headers: { 'accept-payment': 'lightning/charge' } }, { wallet: sandboxWallet(gateway) })

  await t.test('a path of 600 characters is sold through its usual buffers of 4 KiB for headers', async t => {
    const door = await nginxDoor(t, gateway)
    if (door === null) return
    const response = await buy(door.url + pathOf(600))
    t.equal(response.status, 200)
    await response.text()
  })

  await t.test('the longest path that is sold needs `proxy_buffer_size 16k`', async t => {
    const door = await nginxDoor(t, gateway, 'proxy_buffer_size 16k; proxy_buffers 8 16k;')
    if (door === null) return
    const response = await buy(door.url + pathOf(MAX_PRICED_PATH))
    t.equal(response.status, 200)
    await response.text()
    const longer = await fetch(door.url + pathOf(MAX_PRICED_PATH + 1))
    t.equal(longer.status, 414, 'nothing longer is sold')
    await longer.text()
  })

  await t.test('an answer of unknown length reaches a client through HTTP/1.0 and through HTTP/1.1', async t => {
    for (const more of ['', 'proxy_http_version 1.1; proxy_set_header Connection "";']) {
      const door = await nginxDoor(t, gateway, more)
      if (door === null) return
      for (const path of ['/op/pieces', `${shop.proxied}/pieces`]) {
        const response = await buy(door.url + path)
        t.equal(response.status, 200)
        t.same(JSON.parse(await response.text()), { method: 'GET', body: '' })
      }
    }
  })
})

for (const name of ['nginx', 'caddy'] as const)
  t.test(
    `${name} with the file of deploy/`,
    { skip: programPath(name) === null && `${name} is not installed` },
    async t => {
      const { gateway, proxied } = await openShop(t)
      const own = selfSigned({ names: ['localhost'] })
      const door = await deployedDoor(t, gateway, name, own)
      if (door === null) return
      // Over HTTP/2 Node joins the lines of WWW-Authenticate, which `buy` reads one by one.
      const agent = new Agent({ allowH2: false, connect: { ca: own.certificate } })
      t.teardown(() => agent.close())
      const send = sender(door.url, agent)
      for (const path of [`/op/${'a'.repeat(MAX_PRICED_PATH - '/op/'.length)}`, '/op/pieces', `${proxied}/pieces`]) {
        const authorization = await buy({ send, pay: gateway.pay }, path)
        t.equal((await send('GET', path, { headers: { authorization } })).status, 200, path.slice(0, 40))
      }
    }
  )
