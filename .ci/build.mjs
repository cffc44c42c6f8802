// Builds dist, as packed and as in the image: JavaScript, assets, the image of a new database, and build.json for
// `boltgate --version`. BOLTGATE_COMMIT names the commit where there is no repository.
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, rmSync, writeFileSync } from 'node:fs'

rmSync('dist', { recursive: true, force: true })
execFileSync('tsc', ['-p', 'tsconfig.build.json'], { stdio: 'inherit' })
for (const asset of ['src/web/kit/assets', 'src/app/chains.yaml']) cpSync(asset, `dist/${asset}`, { recursive: true })

/** Null outside a repository, and where git is missing. */
const git = (...args) => spawnSync('git', args, { encoding: 'utf8' }).stdout?.trim() || null
const commit = process.env.BOLTGATE_COMMIT || git('rev-parse', 'HEAD') || 'unknown'
const built = new Date(Number(process.env.SOURCE_DATE_EPOCH || Date.now() / 1000) * 1000)
writeFileSync('dist/build.json', `${JSON.stringify({ commit: commit.slice(0, 12), built: built.toISOString() })}\n`)

execFileSync(process.execPath, ['src/app/cli/image.mjs', '--built'], { stdio: 'inherit' })
