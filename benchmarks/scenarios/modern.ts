import { plainGet, type LoadRequest } from '../load/request.ts'
import { mintCredentials } from '../peers/boltgate.ts'
import { peerRows } from '../peers/all.ts'
import { gatewayRows, nginxRow, valuesFile } from './gateways.ts'
import type { Scenario } from './scenario.ts'

const ACCEPT = { Accept: 'application/json' }

/** Every request spends a Payment credential. */
export const modernOnce: Scenario = {
  id: 'modern-once',
  plan: {
    rounds: { quick: 3, full: 5 },
    targets: { quick: 4, full: 4 },
    warmed: 3,
    compiled: 0,
    prepare: { quick: 5, full: 15 }
  },
  title: 'Payment credential, spent once each',
  text: 'Every request shows a Payment credential of its own, which is verified, leased, and spent when the head of the answer goes out: a conditional UPDATE, and an UPDATE that many share. The study `redemption` compares it with one bare UPDATE.',
  latency: [],
  once: { quick: 100, full: 800, warmUp: 1 },
  async prepare(fleet, count) {
    const rows = await gatewayRows(
      fleet,
      async (gateway, { id }) => {
        const credentials = await mintCredentials(gateway.port, count, { path: '/paid/quote', scheme: 'payment' })
        return {
          ...plainGet('/paid/quote', ACCEPT),
          varied: { header: 'Authorization', file: valuesFile(fleet, `${id}-once`, credentials) }
        }
      },
      { oneOnServers: true }
    )
    return { rows: [...rows, await nginxRow(fleet)], remarks: [], request: plainGet('/paid/quote', ACCEPT) }
  }
}

const BODY = `{"text":"${'x'.repeat(65_536 - 11)}"}`

/** A body whose digest the payment is bound to. */
export const postDigest: Scenario = {
  id: 'post-digest',
  plan: {
    rounds: { quick: 3, full: 4 },
    targets: { quick: 4, full: 7 },
    warmed: 2,
    compiled: 0,
    prepare: { quick: 4, full: 12 }
  },
  title: 'POST of 64 KiB, bound by its digest',
  text: 'Every request posts 64 KiB with a Payment credential that was sold for exactly that body: it is collected, hashed and compared before it is forwarded. The peers pass the same body on.',
  latency: [],
  once: { quick: 100, full: 400, warmUp: 1 },
  async prepare(fleet, count, scale) {
    const post: LoadRequest = {
      method: 'POST',
      path: '/digested/order',
      headers: { ...ACCEPT, 'Content-Type': 'application/json' },
      body: BODY,
      varied: null,
      status: 200
    }
    const rows = await gatewayRows(
      fleet,
      async (gateway, { id }) => {
        const credentials = await mintCredentials(gateway.port, count, {
          path: post.path,
          scheme: 'payment',
          body: BODY
        })
        return { ...post, varied: { header: 'Authorization', file: valuesFile(fleet, `${id}-digested`, credentials) } }
      },
      { oneOnServers: false }
    )
    return { rows: [...rows, ...(await peerRows(fleet, post, scale))], remarks: [], request: post }
  }
}
