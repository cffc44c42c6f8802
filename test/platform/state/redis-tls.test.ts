import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import t, { type Test as T } from 'tap'
import { StateUnavailable } from '../../../src/platform/state/state.ts'
import { openState } from '../../../src/platform/state/redis.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import { selfSigned } from '../../fakes/certificate.ts'
import { ownRedis } from '../../support/own-servers.ts'

async function take(t: T, url: string) {
  const state = await openState(url, { clock: systemClock, log: silentLog })
  t.teardown(() => state.close())
  return await state.takeFixed('k', 10, 60_000)
}

t.test("state: rediss:// verifies the server's identity", async t => {
  const own = selfSigned({ names: ['localhost'] })
  const server = await ownRedis(t, own)
  if (server === null) return
  const named = server.url.replace('127.0.0.1', 'localhost')
  await t.rejects(take(t, named), StateUnavailable, 'its authority is not known')
  const known = getCACertificates('default')
  // As NODE_EXTRA_CA_CERTS does at the start of a process.
  setDefaultCACertificates([...known, own.certificate])
  t.teardown(() => {
    setDefaultCACertificates(known)
  })
  t.match(await take(t, named), { allowed: true })
  await t.rejects(take(t, server.url), StateUnavailable, 'the certificate is for another name')
  await t.rejects(take(t, named.replace('rediss:', 'redis:')), StateUnavailable, 'the server speaks TLS only')
})
