// Run by the release workflow before `npm publish`: fills in where the package comes from (npm compares that with the
// provenance), and makes the links and images of README.md absolute, so that they work on a registry's page.
import { readFileSync, writeFileSync } from 'node:fs'

const { GITHUB_SERVER_URL: server = 'https://github.com', GITHUB_REPOSITORY: repository } = process.env
if (!repository) throw new Error('GITHUB_REPOSITORY is not set: run this in the release workflow')
const home = `${server}/${repository}`
const manifest = JSON.parse(readFileSync('package.json', 'utf8'))
Object.assign(manifest, {
  repository: { type: 'git', url: `git+${home}.git` },
  homepage: `${home}#readme`,
  bugs: { url: `${home}/issues` }
})
writeFileSync('package.json', `${JSON.stringify(manifest, null, 2)}\n`)

const tag = `v${manifest.version}`
const absolute = path => `${home}/${/\.(?:png|svg|gif|jpg)$/.test(path) ? 'raw' : 'blob'}/${tag}/${path}`
const text = readFileSync('README.md', 'utf8')
  .replaceAll(/\]\((?!\w+:|#)([^)]+)\)/g, (_, path) => `](${absolute(path)})`)
  .replaceAll(/(src|href|srcset)="(?!\w+:|#)([^"]+)"/g, (_, name, path) => `${name}="${absolute(path)}"`)
writeFileSync('README.md', text)
