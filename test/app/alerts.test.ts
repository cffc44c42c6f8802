import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import t from 'tap'
import { parse } from 'yaml'
import { defaultYaml, rootFolder, startGateway } from '../support/gateway.ts'

const file = `${rootFolder}/deploy/prometheus/alerts.yml`

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
  const { text } = await gateway.send('GET', '/metrics', { headers: { 'x-api-key': gateway.adminKey } })
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
  const after = await gateway.send('GET', '/metrics', { headers: { 'x-api-key': gateway.adminKey } })
  t.match(after.text, /^boltgate_config_last_reload_successful 0$/m)
})

t.test('alerts: promtool accepts the file', async t => {
  const checked = spawnSync('promtool', ['check', 'rules', file], { encoding: 'utf8' })
  if (checked.error !== undefined) t.pass('no promtool here', { skip: 'promtool is not installed' })
  else t.equal(checked.status, 0, checked.stderr)
})
