// `node .ci/reference.mjs [--check]`: writes docs/reference/cli.md and metrics.md from the code; --check compares them.
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { main } from '../src/app/main.ts'

async function printed(...args) {
  const lines = []
  await main(args, { print: text => lines.push(text), complain: text => lines.push(text) })
  return lines.join('\n')
}

async function cliPage() {
  const overview = await printed('help')
  const names = [...overview.matchAll(/^ {2}(\w+) {2,}(.+)$/gm)].map(([, name, about]) => [name, about])
  const sections = []
  for (const [name, about] of names) {
    sections.push(`## boltgate ${name}`, `${about}.`, `\`\`\`text\n${await printed('help', name)}\n\`\`\``)
  }
  return [
    '# CLI',
    'This page is generated from the help of each command; do not edit it.',
    `\`\`\`text\n${overview}\n\`\`\``,
    ...sections
  ]
}

/** Each `'boltgate_…', 'help', [labels]` in the sources. */
function metricsPage() {
  const found = new Map()
  const call =
    /(\w+)(?:<[^>]*>)?\(\s*'(boltgate_\w+)',\s*(?:'((?:[^'\\]|\\.)*)'|"([^"]*)")(?:\s*\+\s*'([^']*)')?,?\s*(?:\[([^\]]*)\])?/g
  for (const file of globSync(['src/**/*.ts', 'plugins/*.ts']).sort()) {
    for (const [, method, name, single, double, more = '', labels = ''] of readFileSync(file, 'utf8').matchAll(call)) {
      const kind = /counter/i.test(method) ? 'counter' : /latency|histogram/i.test(method) ? 'histogram' : 'gauge'
      const help = `${single ?? double}${more}`.replaceAll(/\\(.)/g, '$1').replaceAll('|', '\\|')
      const names = [...labels.matchAll(/'(\w+)'/g)].map(([, label]) => `\`${label}\``)
      found.set(name, `| \`${name}\` | ${kind} | ${names.join(', ')} | ${help} |`)
    }
  }
  return [
    '# Metrics',
    'This page is generated from the code; do not edit it. `/metrics` returns them in the Prometheus text format, with the default metrics of Node. Production requires the admin key. [Monitor your gateway](../how-to/monitoring.md) names those to watch first.',
    [
      '| Metric | Type | Labels | Meaning |',
      '|---|---|---|---|',
      ...[...found].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, row]) => row)
    ].join('\n')
  ]
}

const pages = { 'docs/reference/cli.md': await cliPage(), 'docs/reference/metrics.md': metricsPage() }
for (const [file, parts] of Object.entries(pages)) {
  const text = `${parts.join('\n\n')}\n`
  if (!process.argv.includes('--check')) writeFileSync(file, text)
  else if (readFileSync(file, 'utf8') !== text) {
    console.error(`${file} is not current: run npm run docs`)
    process.exitCode = 1
  }
}
