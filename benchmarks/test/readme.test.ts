import assert from 'node:assert/strict'
import { test } from 'node:test'
import { renderBlock, replaceBlock, type ScenarioFile, type StudyFile } from '../report/readme.ts'
import { summarize } from '../report/summary.ts'
import type { Sample } from '../measure/round.ts'
import type { RunResult } from '../measure/run.ts'

const sample = (cpuPerRequest: number | null, reason?: string): Sample => ({
  requests: 1000,
  seconds: 1,
  refused: 0,
  broken: 0,
  sent: 1000,
  latency: { p50: 120, p99: 300, p999: 900 },
  cpuPerRequest,
  saturated: true,
  foreign: 0,
  ...(reason === undefined ? {} : { void: reason })
})

const run: RunResult = {
  scenario: { id: 'verified-l402', title: 'Warm token', text: '' },
  at: '2026-01-02T03:04:05.000Z',
  machine: { processor: 'A processor', cores: 2, memoryMiB: 1, kernel: '', node: 'v24', load: [] },
  effort: {
    name: 'quick',
    rounds: 1,
    compile: { requests: 1, seconds: 1 },
    warmUp: 1,
    settle: 0,
    window: 1,
    connections: 1,
    spare: 0,
    openRounds: 1,
    loads: [0.6]
  },
  rounds: 1,
  rates: [600],
  closedBy: 'wrk',
  once: null,
  upstream: '',
  cores: null,
  remarks: [],
  rows: [
    { id: 'boltgate', label: 'boltgate', version: '1', absent: null, closed: [sample(60)], open: [[sample(80)]] },
    {
      id: 'nginx',
      label: 'nginx',
      version: '2',
      absent: null,
      closed: [sample(10)],
      open: [[sample(10, '12 requests were never sent, since no connection was free')]]
    },
    {
      id: 'haproxy',
      label: 'HAProxy',
      version: '',
      absent: null,
      closed: [sample(10)],
      open: [[sample(10, 'the generator fell behind: 2000 µs late at p99')]]
    },
    {
      id: 'undici',
      label: 'undici',
      version: '',
      absent: null,
      closed: [sample(40)],
      open: [[{ ...sample(40), tailVoid: 'the generator fell behind: 2000 µs late at p99' }]]
    },
    { id: 'direct', label: 'no proxy', version: '', absent: null, closed: [], open: [[sample(null)]] },
    { id: 'aperture', label: 'aperture', version: '', absent: 'not on PATH', closed: [], open: [] }
  ]
}
const scenario: ScenarioFile = { ...run, command: 'npm run bench', summary: summarize(run) }
const study: StudyFile = {
  id: 'sse',
  title: 'Streams',
  charted: 'memory',
  at: '2026-01-01T03:04:05.000Z',
  remarks: [],
  rows: [
    { id: 'boltgate', label: 'boltgate', absent: null, figures: { memory: { unit: 'KiB', values: [7] } } },
    { id: 'undici', label: 'undici', absent: 'did not do it', figures: {} }
  ]
}

test('the README gets the main table, a line for each scenario and study, and what was not run', () => {
  const block = renderBlock(
    [
      ['verified-l402', scenario],
      ['sse', study],
      ['idle', null]
    ],
    'benchmarks/results',
    { command: 'npm run bench', at: '2026-01-02T03:09:05.000Z', seconds: 271 }
  )
  assert.match(
    block,
    /^\| boltgate 1 \| \*\*60\.0\*\* \(60\.0–60\.0\) \| 1\.50× \| 6\.00× \| \*\*1,000\*\* \(1,000–1,000\) \| 0\.00 \| 0\.00 \|$/m
  )
  assert.match(block, /^\| nginx 2 \|.*\| not held \| – \|$/m)
  assert.match(block, /^\| HAProxy \|.*\| void \| – \|$/m)
  assert.match(block, /^\| undici \|.*\| 0\.00 \| void \|$/m)
  assert.match(block, /^\| no proxy \|.*\| \(0\.12\) \| \(0\.30\) \|$/m)
  assert.match(block, /^\| aperture \| not on PATH \| \| \| \| \| \|$/m)
  assert.match(block, /!\[CPU for each request\]\(benchmarks\/results\/verified-l402-cpu\.svg\)/)
  assert.match(
    block,
    /^\| \[Warm token\]\(benchmarks\/results\/verified-l402\.md\) \| \*\*60\.0\*\* \| – \| – \| 40\.0 \| 10\.0 \| 1\.50× \| 6\.00× \|$/m
  )
  assert.match(
    block,
    /^\| \[Streams\]\(benchmarks\/results\/sse\.md\) \(2026-01-01\) \| memory \| boltgate 7\.0 KiB, undici: did not do it \|$/m
  )
  assert.match(block, /^Not run: idle\.$/m)
  assert.match(block, /^`npm run bench` took 271 s as a whole on 2026-01-02\.$/m)
})

test('only the text between the marks is replaced', () => {
  assert.equal(
    replaceBlock('a\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nb\n', 'new'),
    'a\n<!-- bench:begin -->\nnew\n<!-- bench:end -->\nb\n'
  )
  assert.throws(() => replaceBlock('nothing here', 'new'), /needs a line/)
})
