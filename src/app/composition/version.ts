import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'

/** Version in `package.json`: three levels up from the sources, four from the build. */
export function packageVersion(): string {
  for (const path of ['../../../package.json', '../../../../package.json']) {
    const file = new URL(path, import.meta.url)
    if (!existsSync(file)) continue
    // npm requires a name and a version.
    const { version } = JSON.parse(readFileSync(file, 'utf8')) as { readonly version: string }
    return version
  }
  throw new Error('there is no package.json beside this program')
}

/** Such as `0.2.0 (commit 1a2b3c4d5e6f, built 2026-11-27T01:02:03.000Z)`; a checkout was not built. */
export function versionLine(): string {
  if (import.meta.url.endsWith('.ts')) {
    const options = { cwd: import.meta.dirname, encoding: 'utf8' } as const
    const commit = spawnSync('git', ['rev-parse', '--short=12', 'HEAD'], options).stdout?.trim()
    return `${packageVersion()} (commit ${commit || 'unknown'}, not built)`
  }
  const { commit, built } = JSON.parse(readFileSync(new URL('../../../build.json', import.meta.url), 'utf8')) as {
    readonly commit: string
    readonly built: string
  } /* .ci/build.mjs writes it */
  return `${packageVersion()} (commit ${commit}, built ${built})`
}
