import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fleet, type Starters, type Variant } from '../measure/fleet.ts'
import type { Peer, Target } from '../peers/target.ts'

function target(name: string, log: string[]): Target {
  return {
    port: 1,
    pid: null,
    compiles: false,
    fault: () => null,
    stop: async () => {
      log.push(`stop ${name}`)
    }
  }
}

function starters(log: string[]): Starters {
  return {
    async upstream() {
      log.push('upstream')
      return {
        origin: 'http://127.0.0.1:1',
        pid: 0,
        favored: false,
        label: '',
        stop: async () => {
          log.push('stop upstream')
        }
      }
    },
    async servers() {
      log.push('servers')
      const reachable = (name: string) => ({ databaseUrl: `postgres://${name}`, redisUrl: `redis://${name}` })
      return {
        ...reachable('first'),
        postgresPid: 0,
        redisPid: 0,
        another: async name => reachable(name),
        stop: async () => {
          log.push('stop servers')
        }
      }
    },
    async gateway(_place, options = { name: '' }) {
      log.push(`gateway ${options.name} on ${options.servers?.databaseUrl ?? 'its own'}`)
      return { ...target(options.name, log), pid: process.pid, apiKey: '', output: () => '' }
    }
  }
}

function peer(log: string[], start: () => Promise<Target>): Peer {
  return {
    id: 'peer',
    label: '',
    version: '',
    install: '',
    start: async () => {
      log.push('peer')
      return await start()
    }
  }
}

const embedded: Variant = { id: 'boltgate', label: '', workers: 1, onServers: false }
const two: Variant = { id: 'boltgate-two', label: '', workers: 2, onServers: true }

test('starts only what is asked for, and each once', async () => {
  const log: string[] = []
  const fleet = new Fleet('', null, () => {}, starters(log))
  assert.deepEqual(log, [])
  const one = peer(log, async () => target('peer', log))
  assert.equal(await fleet.peer(one), await fleet.peer(one))
  assert.deepEqual(log, ['upstream', 'peer'])
  const [left, right] = await Promise.all([fleet.gateway(embedded), fleet.gateway(embedded)])
  assert.equal(left, right)
  assert.deepEqual(log.splice(0), ['upstream', 'peer', 'gateway boltgate on its own'])
  await fleet.gateway(two)
  assert.deepEqual(log.splice(0), ['servers', 'gateway boltgate-two on postgres://boltgate_two'])
  await fleet.stop()
  assert.deepEqual(log.toSorted(), ['stop boltgate', 'stop boltgate-two', 'stop peer', 'stop servers', 'stop upstream'])
  assert.deepEqual(log.slice(-2), ['stop servers', 'stop upstream'], 'gateways end before what they depend on')
})

test('a failed start is reported to every caller, and not retried', async () => {
  const log: string[] = []
  const fleet = new Fleet('', null, () => {}, starters(log))
  const broken = peer(log, () => Promise.reject(new Error('no such library')))
  await assert.rejects(fleet.peer(broken), /no such library/)
  await assert.rejects(fleet.peer(broken), /no such library/)
  assert.deepEqual(log, ['upstream', 'peer'])
  await fleet.stop()
})

test('a fleet that was never used has nothing to stop', async () => {
  const log: string[] = []
  await new Fleet('', null, () => {}, starters(log)).stop()
  assert.deepEqual(log, [])
})
