/** The files of `deploy/`: each is what the documentation shows, and what its own program accepts. */
import { spawnSync } from 'node:child_process'
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { packageVersion } from '../../src/app/composition/version.ts'
import { temporaryFolder } from '../support/database.ts'
import { blocksOf, guides } from '../support/documents.ts'
import { loadText, rootFolder } from '../support/gateway.ts'
import { programPath } from '../support/program-path.ts'

const read = (name: string) => readFileSync(join(rootFolder, name), 'utf8')
const files = globSync('deploy/**/*.*', { cwd: rootFolder }).sort()

interface Resource {
  readonly kind: string
  readonly data?: Readonly<Record<string, string>>
  readonly spec: {
    readonly selector: { readonly matchLabels?: object }
    readonly strategy: object
    readonly template: {
      readonly metadata: { readonly labels: object }
      readonly spec: { readonly containers: object[] }
    }
  }
}

t.test('deploy: the documentation shows the files themselves', async t => {
  const shown = guides.flatMap(blocksOf).flatMap(({ text }) => {
    const [, name] = /^# (deploy\/[\w./-]+):/.exec(text) ?? []
    return name === undefined ? [] : [{ name, text }]
  })
  t.same(shown.map(({ name }) => name).toSorted(), [
    'deploy/Caddyfile',
    'deploy/boltgate.service',
    'deploy/cloudflared.yml',
    'deploy/nginx.conf',
    'deploy/prometheus/prometheus.yml'
  ])
  for (const { name, text } of shown) t.equal(text, read(name), name)
  const pages = guides.map(read).join('\n')
  for (const name of files) {
    const isLinked = pages.includes(`(../../${name})`) || shown.some(one => one.name === name)
    t.ok(isLinked || read('compose.yaml').includes(`./${name}:`), `${name} is shown, linked or mounted`)
  }
})

t.test('deploy: every proxy leads to the port that a gateway listens on', async t => {
  const { config } = await loadText('routes: []', {})
  const { host, port } = config.server.listen
  for (const name of ['nginx.conf', 'Caddyfile', 'cloudflared.yml']) t.match(read(`deploy/${name}`), `${host}:${port}`)
})

t.test('deploy: systemd accepts the unit, and calls it hardened', async t => {
  if (programPath('systemd-analyze') === null) return t.pass('no systemd here')
  const unit = join(temporaryFolder(t), 'boltgate.service')
  writeFileSync(unit, read('deploy/boltgate.service').replace(/^ExecStart=.*$/m, 'ExecStart=/bin/true'))
  const verified = spawnSync('systemd-analyze', ['verify', unit], { encoding: 'utf8' })
  t.equal(verified.status, 0, verified.stderr)
  t.notMatch(verified.stderr, /boltgate\.service:\d+:/)
  const exposed = spawnSync('systemd-analyze', ['security', '--offline=true', '--threshold=20', unit], {
    encoding: 'utf8'
  })
  t.equal(exposed.status, 0, exposed.stdout.split('\n').slice(-3).join('\n'))
  const drain = (await loadText('routes: []', {})).config.server.limits.drainTimeout
  t.match(read('deploy/boltgate.service'), new RegExp(`^TimeoutStopSec=${drain / 1000 + 30}$`, 'm'))
})

t.test('deploy: the manifests fit each other, and their configuration is valid', async t => {
  const all = parseAllDocuments(read('deploy/kubernetes.yaml')).map(one => one.toJS() as Resource) // see `Resource`
  const of = (kind: string) => {
    const found = all.find(one => one.kind === kind)
    if (found === undefined) throw new Error(`no ${kind}`)
    return found
  }
  const { spec } = of('Deployment')
  t.match(spec.strategy, { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0 } })
  const { labels } = spec.template.metadata
  t.same([spec.selector.matchLabels, of('PodDisruptionBudget').spec.selector.matchLabels], [labels, labels])
  t.same(of('Service').spec.selector, labels)
  const [container] = spec.template.spec.containers
  t.match(container, {
    image: new RegExp(`:${packageVersion()}$`),
    startupProbe: { httpGet: { path: '/ready' } },
    readinessProbe: { httpGet: { path: '/ready' } },
    livenessProbe: { tcpSocket: { port: 'http' } },
    securityContext: { readOnlyRootFilesystem: true, allowPrivilegeEscalation: false }
  })
  const { env } = container as { readonly env: ReadonlyArray<{ readonly name: string }> } // matched above
  const values: Readonly<Record<string, string>> = {
    DATABASE_URL: 'postgres://u:p@database/boltgate',
    REDIS_URL: 'redis://:p@state:6379'
  }
  const given = env.map(({ name }) => name.replace(/_FILE$/, ''))
  const { config } = await loadText(
    of('ConfigMap').data?.['gateway.yaml'] ?? '',
    Object.fromEntries(given.map(name => [name, values[name] ?? 'x'.repeat(40)]))
  )
  t.equal(config.mode, 'production')
})

t.test('deploy: Prometheus loads the rules, and scrapes with the admin key', async t => {
  const name = 'deploy/prometheus/prometheus.yml'
  t.match(parse(read(name)), {
    rule_files: ['alerts.yml'],
    scrape_configs: [{ job_name: 'boltgate', http_headers: { 'X-API-Key': {} } }]
  })
  const version = spawnSync('promtool', ['--version'], { encoding: 'utf8' })
  const [, major = 0, minor = 0] = (/version (\d+)\.(\d+)/.exec(version.stdout ?? '') ?? []).map(Number)
  if (major < 3 && minor < 55) return t.pass('promtool 2.55 is not here')
  const checked = spawnSync('promtool', ['check', 'config', '--syntax-only', join(rootFolder, name)], {
    encoding: 'utf8'
  })
  t.equal(checked.status, 0, checked.stderr)
})
