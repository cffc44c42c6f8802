import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { parse } from 'yaml'
import { defaultYaml, rootFolder, startGateway } from '../support/gateway.ts'

const file = `${rootFolder}/deploy/prometheus/alerts.yml`

interface Dashboard {
  readonly panels: ReadonlyArray<{
    readonly title: string
    readonly targets?: ReadonlyArray<{ readonly expr: string }>
  }>
}
// The file is ours, of the form that Grafana exports.
const dashboard = JSON.parse(readFileSync(`${rootFolder}/deploy/grafana/dashboard.json`, 'utf8')) as Dashboard
const shown = dashboard.panels.flatMap(({ targets = [], title }) => targets.map(({ expr }) => ({ title, expr })))

t.test('dashboard: each metric that it shows exists, with its labels', async t => {
  t.ok(shown.length > 20)
  const labels = new Map(
    [
      ...readFileSync(`${rootFolder}/docs/reference/metrics.md`, 'utf8').matchAll(/^\| `(\w+)` \| (\w+) \| ([^|]*)\|/gm)
    ].flatMap(([, name = '', type, of = '']) =>
      (type === 'histogram' ? ['_bucket', '_sum', '_count'] : ['']).map(
        end =>
          [name + end, ['instance', 'job', 'le', ...[...of.matchAll(/`(\w+)`/g)].map(([, label]) => label)]] as const
      )
    )
  )
  for (const { expr, title } of shown) {
    const names = [...expr.matchAll(/\bboltgate_\w+/g)].map(([name]) => name)
    for (const name of names) t.ok(labels.has(name), `${title}: ${name}`)
    const known = names.flatMap(name => labels.get(name) ?? [])
    const used = [...expr.matchAll(/\bby \(([^)]*)\)|[{,](\w+)=/g)].flatMap(([, by = '', label = '']) =>
      [...by.split(', '), label].filter(one => one !== '')
    )
    if (names.length > 0)
      t.same(
        used.filter(label => !known.includes(label)),
        [],
        `${title}: labels`
      )
  }
})

interface Rules {
  readonly groups: ReadonlyArray<{
    readonly rules: ReadonlyArray<{
      readonly alert: string
      readonly expr: string
      readonly annotations: Readonly<Record<'summary' | 'description', string>>
    }>
  }>
}

await t.test('alerts: each metric that they name exists, with its labels, and each says what to do', async t => {
  // The file is ours, of the form that promtool checks.
  const { groups } = parse(readFileSync(file, 'utf8')) as Rules
  const rules = groups.flatMap(group => group.rules)
  t.ok(rules.length > 12)
  const gateway = await startGateway(t, { yaml: defaultYaml() })
  await gateway.send('GET', '/health')
  const { text } = await gateway.adminSend('GET', '/metrics')
  const known = new Map(
    [...text.matchAll(/^# HELP (\w+) (.+)$/gm)].map(([, name = '', help = '']) => [name, help] as const)
  )
  for (const { alert, annotations, expr } of rules) {
    t.match(alert, /^Boltgate[A-Z]/)
    for (const [name] of expr.matchAll(/\bboltgate_\w+/g)) t.ok(known.has(name), `${alert}: ${name}`)
    t.ok(annotations.summary.length > 10 && annotations.description.length > 10, `${alert} says what to do`)
  }
  for (const name of ['lostRefunds', 'refusedOrders', 'pendingWebhooks'])
    t.match(text, new RegExp(`^boltgate_open_work\\{kind="${name}"\\} 0$`, 'm'))
  for (const [line, what] of [
    [/^boltgate_database_up 1$/m, 'the database'],
    [/^boltgate_database_statements\{state="waiting"\} \d+$/m, 'waits'],
    [/^boltgate_state_up 1$/m, 'the state'],
    [/^boltgate_provider_up\{slot="primary",provider="sandbox"\} 1$/m, 'the provider'],
    [/^boltgate_config_last_reload_successful 1$/m, 'the reload'],
    [/^boltgate_config_last_reload_success_timestamp_seconds 1\d{9}(\.\d+)?$/m, 'its time'],
    [/^boltgate_build_info\{version="\d+\.\d+\.\d+[^"]*",node="v\d+[^"]*"\} 1$/m, 'the build'],
    [/^boltgate_jobs\{queue="webhooks",state="due"\} 0$/m, 'the backlog'],
    [/^boltgate_jobs_oldest_due_seconds\{queue="webhooks"\} 0$/m, 'its age']
  ] as const)
    t.match(text, line, what)
  await t.rejects(gateway.reload(`${defaultYaml()}\nnonsense: 1\n`))
  const after = await gateway.adminSend('GET', '/metrics')
  t.match(after.text, /^boltgate_config_last_reload_successful 0$/m)
})

t.test('alerts: promtool accepts the file, and the expressions of the dashboard', async t => {
  const rules = shown.map(({ expr }, index) => ({
    record: `shown:${index}`,
    expr: expr.replaceAll('$__rate_interval', '5m').replaceAll('$route', '.*')
  }))
  const copy = `${t.testdir({})}/dashboard.yml`
  writeFileSync(copy, JSON.stringify({ groups: [{ name: 'dashboard', rules }] }))
  const checked = spawnSync('promtool', ['check', 'rules', file, copy], { encoding: 'utf8' })
  if (checked.error !== undefined) t.pass('no promtool here', { skip: 'promtool is not installed' })
  else t.equal(checked.status, 0, checked.stderr)
})
