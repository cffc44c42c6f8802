/** Clients, upstreams and gateways that leave in any phase of a metered request, in an order of chance. */
import { randomInt } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setTimeout as passing } from 'node:timers/promises'
import t, { type Test as T } from 'tap'
import { openAnyDatabase } from '../../support/database.ts'
import type { TestGatewayOptions } from '../../support/gateway.ts'
import { eventually } from '../../support/gateway-process.ts'
import { JSON_TYPE, openMetered, STREAM_TYPE, SWITCHING } from '../shop.ts'

const ROUNDS = Number(process.env['ROUNDS'] ?? 5)
const EVENT = 'data: {"choices":[{"delta":{"content":"word"}}]}\n\n'
const USAGE = '"usage":{"prompt_tokens":3,"completion_tokens":2}'
const JSON_BODY = `{${USAGE}}`
const RESERVED = 4_000
const COST = 2_000

type Act = (response: ServerResponse) => Promise<void> | void

const shortly = (most: number) => passing(randomInt(most))

const acts: Readonly<Record<string, Act>> = {
  whole: response => void response.writeHead(200, JSON_TYPE).end(JSON_BODY),
  slow: async response => {
    await shortly(20)
    response.writeHead(200, JSON_TYPE)
    for (const piece of JSON_BODY.match(/.{1,9}/g) ?? []) {
      response.write(piece)
      await shortly(4)
    }
    response.end()
  },
  stream: async response => {
    response.writeHead(200, STREAM_TYPE)
    for (let n = 0; n < 6; n++) {
      response.write(EVENT)
      await shortly(5)
    }
    response.end(`data: {"choices":[],${USAGE}}\n\ndata: [DONE]\n\n`)
  },
  noHead: response => void response.destroy(),
  noHeadLater: async response => {
    await shortly(20)
    response.destroy()
  },
  halfBody: async response => {
    response.writeHead(200, { ...JSON_TYPE, 'content-length': '500' }).write('{"a":"')
    await shortly(10)
    response.destroy()
  },
  halfStream: async response => {
    response.writeHead(200, STREAM_TYPE).write(EVENT + EVENT.slice(0, 20))
    await shortly(10)
    response.destroy()
  },
  error: response => void response.writeHead(500, JSON_TYPE).end('{}'),
  nothing: response => void response.writeHead(204).end()
}
const SOLD = new Set(['whole', 'slow', 'stream'])

/** When a client leaves: within its body, after it, after some bytes of the response, or never. */
const PHASES = ['body', 'sent', 'read', 'never'] as const

const tunnels: Readonly<Record<string, (socket: Socket) => Promise<void> | void>> = {
  echo: socket => {
    socket.write(SWITCHING)
    socket.pipe(socket)
  },
  late: async socket => {
    await shortly(30)
    socket.end(SWITCHING)
  },
  refuses: socket => void socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno'),
  breaks: socket => void socket.destroy(),
  breaksLater: async socket => {
    socket.write(SWITCHING)
    await shortly(30)
    socket.resetAndDestroy()
  },
  hangs: () => undefined
}

async function openShop(t: T, options: TestGatewayOptions = {}, usage = 'openai, estimate: { else: 4 }') {
  let waiting = 0
  const gate = Promise.withResolvers<void>()
  const actOf = ({ url }: IncomingMessage) => new URL(url ?? '/', 'http://upstream').searchParams.get('act') ?? ''
  const shop = await openMetered(
    t,
    `unit: unit, bundle: 90000 sats, prices: 1 sat, usage: ${usage}`,
    (request, response) => {
      const act = actOf(request)
      request.on('end', () => {
        if (act !== 'gate') return void acts[act]?.(response)
        waiting++
        void gate.promise.then(() => response.writeHead(200, JSON_TYPE).end(JSON_BODY))
      })
    },
    { ...options, server: 'limits: { drainTimeout: 1s }' }
  )
  const { gateway, authorization } = shop
  shop.upstream.upgrade = (socket, request) => tunnels[actOf(request)]?.(socket)
  const address = Number(new URL(gateway.url).port)
  let nth = 0
  const statuses = new Map<string, string>()
  /** Its correlation id says what it was. Returns what the client read. */
  const one = async (
    act: string,
    phase: (typeof PHASES)[number],
    method = 'POST',
    more: readonly string[] = ['Connection: close']
  ) => {
    const body = JSON.stringify({ model: 'm', stream: act.includes('tream'), pad: 'x'.repeat(randomInt(3000)) })
    const socket = connect(address, '127.0.0.1')
    const closed = new Promise(resolve => socket.on('close', resolve))
    const leave = () => (randomInt(3) === 0 ? socket.resetAndDestroy() : socket.destroy())
    const enough = randomInt(600)
    const name = `${act}-${method}-${phase}-${nth++}`
    let read = ''
    socket.on('error', () => undefined)
    socket.on('data', piece => {
      read += piece.toString('latin1')
      if (phase === 'read' && read.length > enough) leave()
    })
    socket.on('end', () => socket.end())
    const lines = [
      `${method} /v1/a?act=${act} HTTP/1.1`,
      'Host: a',
      ...more,
      `Authorization: ${authorization}`,
      'Content-Type: application/json',
      `X-Correlation-Id: ${name}`,
      ...(method !== 'POST' ? [] : [`Content-Length: ${body.length}`]),
      ...(randomInt(5) === 0 ? ['Expect: 100-continue'] : [])
    ]
    socket.write(`${lines.join('\r\n')}\r\n\r\n`)
    if (method === 'POST') socket.write(phase === 'body' ? body.slice(0, randomInt(body.length)) : body)
    if (phase === 'body' || phase === 'sent') await shortly(40).then(leave)
    await closed
    const status = read.replace('HTTP/1.1 100 Continue\r\n\r\n', '').slice('HTTP/1.1 '.length, 'HTTP/1.1 200'.length)
    statuses.set(name, status)
    return status
  }
  const names = Object.keys(acts)
  const burst = (count: number) =>
    Promise.all(
      Array.from({ length: count }, () =>
        one(
          names[randomInt(names.length)] ?? 'whole',
          PHASES[randomInt(PHASES.length)] ?? 'never',
          randomInt(10) === 0 ? 'HEAD' : 'POST'
        )
      )
    )
  return { ...shop, one, burst, statuses, open: gate.resolve, waiting: () => waiting }
}

t.test('requests that break off anywhere: nothing stays reserved, no place is lost, and failures are free', async t => {
  const shop = await openShop(t)
  for (let round = 0; round < ROUNDS; round++) await shop.burst(40)
  const balance = await shop.reserved(0)
  const entries = await shop.store.entries(balance.id, { skip: 0, take: 10_000 })
  t.equal(
    entries.reduce((sum, { msat }) => sum + msat, 0),
    balance.spentMsat
  )
  for (const { request, msat } of entries) {
    const [act = '', method, phase] = request.split('-')
    // A kept connection that the upstream closes meanwhile is a 502, which is free.
    const isWhole = method === 'POST' && SOLD.has(act) && shop.statuses.get(request) === '200'
    const costs = method === 'HEAD' ? [0] : phase === 'never' ? [isWhole ? COST : 0] : [0, COST, RESERVED]
    if (!costs.includes(msat)) t.fail(`${request} cost ${msat}`)
    if (phase === 'body' && method === 'POST') t.equal(msat, 0, `${request}: was not forwarded`)
  }

  let isOpen = false
  const hold = async (): Promise<void> => {
    const status = await shop.one('gate', 'never')
    if (isOpen) return void t.equal(status, '200')
    t.equal(status, '502', 'no place is taken')
    await hold()
  }
  const held = Array.from({ length: 16 }, hold)
  await eventually('each place is free', async () => (shop.waiting() === 16 ? true : null), 60_000)
  isOpen = true
  shop.open()
  await Promise.all(held)
})

t.test('upgrades that break off anywhere: nothing stays reserved, and what was not switched is free', async t => {
  const shop = await openShop(t, {}, 'seconds')
  const names = Object.keys(tunnels)
  const upgrade = ['Connection: Upgrade', 'Upgrade: websocket']
  for (let round = 0; round < ROUNDS; round++)
    await Promise.all(
      Array.from({ length: 20 }, async () => {
        const act = names[randomInt(names.length)] ?? 'echo'
        const isEndless = act === 'echo' || act === 'hangs'
        await shop.one(act, isEndless ? 'sent' : (PHASES[1 + randomInt(3)] ?? 'never'), 'GET', upgrade)
      })
    )
  const balance = await shop.reserved(0)
  for (const { request, msat } of await shop.store.entries(balance.id, { skip: 0, take: 10_000 })) {
    const [act = '', , phase] = request.split('-')
    if (phase === 'never' && (act === 'refuses' || act === 'breaks')) t.equal(msat, 0, request)
    else t.ok(msat <= 2_000, `${request} cost ${msat}`)
  }
})

t.test('a gateway that closes in any phase: no part of a balance stays with it', async t => {
  const database = await openAnyDatabase(t)
  for (let round = 0; round < Math.ceil(ROUNDS / 2); round++) {
    const shop = await openShop(t, { database })
    const burst = shop.burst(40)
    const held = Array.from({ length: 20 }, () => shop.one('gate', 'never'))
    await shortly(60)
    await shop.gateway.close()
    await Promise.all([burst, ...held])
    const [row] = await database.sql`
      select (select count(*) from balance_slices)::int as slices, (select coalesce(sum(held_msat), 0) from balances)::int as held`
    t.same(row, { slices: 0, held: 0 })
  }
})
