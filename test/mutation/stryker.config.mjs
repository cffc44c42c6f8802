import { availableParallelism } from 'node:os'

/** Arguments of `.ci/mutate.mjs`: files to change, test files to run, and the percentage of mutants to kill. */
const { mutate, tests, least } = JSON.parse(process.env['BOLTGATE_MUTATE'] ?? '{}')

export default {
  testRunner: 'tap',
  plugins: ['@stryker-mutator/tap-runner'],
  mutate,
  tap: {
    testFiles: tests,
    nodeArgs: [
      '--conditions=checkout',
      '--import=./test/support/without-tracking.ts',
      '-r',
      '{{hookFile}}',
      '{{testFile}}'
    ],
    forceBail: true
  },
  coverageAnalysis: 'perTest',
  concurrency: availableParallelism(),
  // Most strings are messages for people and logs, which have tests of their own.
  mutator: { excludedMutations: ['StringLiteral'] },
  // Milliseconds beyond a test's usual time after which a hanging mutant counts as killed.
  timeoutMS: 20_000,
  ignorePatterns: ['/benchmarks', '/docs/images', '/data', '/dist', '/test/mutation', '**/node_modules'],
  tempDirName: '.mutation',
  reporters: ['clear-text', 'progress', 'json'],
  jsonReporter: { fileName: '.mutation/report.json' },
  clearTextReporter: { logTests: false, reportTests: false },
  thresholds: { high: least, low: least, break: least },
  // Stryker rewrites a tsconfig with TypeScript's old API, which TypeScript 7 lacks; stripped types need none.
  tsconfigFile: 'none'
}
