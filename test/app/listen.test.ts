import t from 'tap'
import { Agent, request } from 'undici'
import { startGateway } from '../support/gateway.ts'
import { certificateFiles } from '../engine/listener/support.ts'

for (const [publicUrl, expected] of [
  ['https://api.example.com', 'max-age=31536000'],
  ['https://api.example.com:8443', undefined]
] as const)
  t.test(`own responses over TLS at ${publicUrl}: Strict-Transport-Security is ${expected ?? 'left out'}`, async t => {
    const { cert, key } = certificateFiles(['localhost'])
    const tls = `tls: [{ cert: "${cert}", key: "${key}" }], publicUrl: "${publicUrl}"`
    const gateway = await startGateway(t, {
      yaml: `data: \${BOLTGATE_DATA}\nserver: { listen: "127.0.0.1:0", ${tls} }`
    })
    const agent = new Agent({ connect: { rejectUnauthorized: false } })
    t.teardown(() => agent.close())
    const { headers, body } = await request(`${gateway.url.replace('http:', 'https:')}/live`, { dispatcher: agent })
    await body.dump()
    t.equal(headers['strict-transport-security'], expected)
  })
