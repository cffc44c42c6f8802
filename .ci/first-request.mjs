// `node .ci/first-request.mjs`: sells a file in an empty folder and draws the terminal as docs/images/first-request.svg.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

const WIDTH = 92
const boltgate = resolve('src/app/cli/boltgate.mjs')
const folder = mkdtempSync(join(tmpdir(), 'boltgate-picture-'))
const run = (...args) => spawnSync(process.execPath, [boltgate, ...args], { cwd: folder, encoding: 'utf8' }).stdout
mkdirSync(join(folder, 'files'))
writeFileSync(join(folder, 'files/a.txt'), 'worth 100 sats\n')
const lines = ['$ npx boltgate init --sell files --upstream ./files --price "100 sats"']
lines.push(run('init', '--sell', 'files', '--upstream', './files', '--price', '100 sats').split('\n')[0], '')

const gateway = spawn(process.execPath, [boltgate, 'start'], { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] })
let out = ''
for await (const piece of gateway.stdout.setEncoding('utf8')) {
  out += piece
  if (out.includes('"msg":"ready"')) break
}
lines.push('$ npx boltgate start', ...out.split('\n').filter(line => /^boltgate is|^ {2}Sells/.test(line)), '')
lines.push(
  '$ npx boltgate pay http://127.0.0.1:8080/files/a.txt',
  ...run('pay', 'http://127.0.0.1:8080/files/a.txt').trim().split('\n')
)
gateway.kill()
await once(gateway, 'exit')
rmSync(folder, { recursive: true })

const shown = lines
  .filter(line => !/^< (?:content-type|cache-control)/.test(line))
  .map(line => (line.length > WIDTH ? `${line.slice(0, WIDTH - 1)}…` : line))
const escape = text => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
const color = line =>
  line.startsWith('$')
    ? '#fff'
    : /^< 402/.test(line)
      ? '#fbbf24'
      : /^< 200|^worth|^Paid/.test(line)
        ? '#4ade80'
        : '#94a3b8'
const height = shown.length * 20 + 40
writeFileSync(
  'docs/images/first-request.svg',
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 780 ${height}" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13.5">
<title>The first paid request</title>
<style>@media (prefers-reduced-motion: no-preference) { text { animation: show 0.3s both } @keyframes show { from { opacity: 0 } } }</style>
<rect width="780" height="${height}" rx="8" fill="#0f172a"/>
${shown.map((line, at) => `<text x="16" y="${at * 20 + 32}" xml:space="preserve" fill="${color(line)}" style="animation-delay:${(at * 0.25).toFixed(2)}s">${escape(line)}</text>`).join('\n')}
</svg>
`
)
