import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { documented } from '../support/documents.ts'
import { defaultYaml, rootFolder, startGateway } from '../support/gateway.ts'
import { RawUpstream } from '../support/raw-upstream.ts'

t.test('the example of the plugin guide works as the guide writes it', async t => {
  const upstream = await RawUpstream.serve('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok').listen()
  t.teardown(() => upstream.close())
  const guide = readFileSync(join(rootFolder, 'docs/how-to/plugins.md'), 'utf8')
  const yaml = /```yaml\nchains:\n([^]*?)routes:\n([^]*?)```/.exec(guide)
  const chain = yaml?.[1] ?? ''
  const route = yaml?.[2] ?? ''
  t.match(chain, './docs/examples/hello-header.ts')
  const gateway = await startGateway(t, {
    yaml: defaultYaml({
      replace: [
        ['chains:\n', `chains:\n${chain}`],
        ['routes:\n', `routes:\n${route.replace('http://127.0.0.1:9000', upstream.origin)}`]
      ]
    })
  })
  const greeted = await gateway.send('GET', '/hello/there', { headers: { 'x-caller': 'ada' } })
  t.equal(greeted.status, 200, greeted.text)
  t.equal(greeted.headers['x-hello'], 'good morning, ada')
  t.match(upstream.requests[0]?.head, /x-greeted: ada/i)
})

t.test('the test of the plugin guide passes as the guide writes it', async t => {
  const example = join(rootFolder, 'docs/examples/hello-header.ts')
  const folder = t.testdir({ 'a.test.ts': documented('hello-header.test.ts').replace('./hello-header.ts', example) })
  const args = ['-u', 'NODE_OPTIONS', process.execPath, '--conditions=checkout', join(folder, 'a.test.ts')]
  const { status, stdout, stderr } = spawnSync('env', args, { cwd: rootFolder, encoding: 'utf8' })
  t.equal(status, 0, stdout + stderr)
  t.match(stdout, 'ok 1 - the answer greets the caller')
})
