// `tap build` takes seconds and is needed once for each installation: npm ci removes what it made, and the mark with it.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'

const mark = 'node_modules/.cache/boltgate/tap-built'
// Only these change what is built; a build beside running tests breaks them.
const [plugins] = /^plugin: .*$/m.exec(readFileSync('.taprc', 'utf8'))
if (!existsSync(mark) || !readFileSync(mark, 'utf8').includes(plugins)) {
  execFileSync('tap', ['build'], { stdio: 'inherit' })
  mkdirSync('node_modules/.cache/boltgate', { recursive: true })
  writeFileSync(mark, plugins)
}
