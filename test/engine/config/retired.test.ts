import t from 'tap'
import { stringify } from 'yaml'
import { builtInPlugins } from '../../../src/app/plugins.ts'
import { ConfigError } from '../../../src/engine/config/diagnose.ts'
import { loadConfigText } from '../../../src/engine/config/load.ts'
import { RETIRED } from '../../../src/engine/sections/retired.ts'

/** A file that sets the key at this path of the table. */
function fileWith(path: string) {
  const steps = path.split('.')
  const [part] = steps
  const file = steps.reduceRight<unknown>((value, step, at) => {
    const inList = (part === 'routes' && at === 0) || (part === 'chains' && at === 1)
    return { [step === '*' ? 'free' : step]: inList ? [value] : value }
  }, 1)
  return stringify(file)
}

async function problemsOf(text: string) {
  try {
    await loadConfigText('gateway.yaml', text, {}, { plugins: builtInPlugins })
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems
  }
}

for (const [path, sentence] of Object.entries(RETIRED)) {
  t.test(`${path}: an error names its replacement, with line and column`, async t => {
    const text = fileWith(path)
    const key = path.split('.').at(-1) ?? ''
    const lines = text.trimEnd().split('\n')
    const problems = await problemsOf(text)
    const found = problems.find(({ code }) => code === 'BG_CONFIG_UNKNOWN_KEY')
    t.match(found, {
      message: `found "${key}", which was removed: ${sentence}`,
      line: lines.length,
      column: (lines.at(-1) ?? '').indexOf(`${key}:`) + 1
    })
  })
}
