import { createRequire } from 'node:module'

// By the package's own name: from the checkout and from what is built alike.
const manifest: unknown = createRequire(import.meta.url)('boltgate/package.json')
const version =
  typeof manifest === 'object' && manifest !== null && 'version' in manifest ? String(manifest.version) : 'unknown'

/** What deliveries name themselves: `boltgate/<version of the package>`. */
export const USER_AGENT = `boltgate/${version}`
