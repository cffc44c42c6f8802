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
