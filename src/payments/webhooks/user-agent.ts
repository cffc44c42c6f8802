import { createRequire } from 'node:module'

// Resolved by package name, which works in the checkout and in the build.
const manifest: unknown = createRequire(import.meta.url)('boltgate/package.json')
const version =
  typeof manifest === 'object' && manifest !== null && 'version' in manifest ? String(manifest.version) : 'unknown'

/** User-Agent of deliveries: `boltgate/<version of the package>`. */
export const USER_AGENT = `boltgate/${version}`
