// Prints the licenses of the packages that run in production, by the lock file: what the image has to carry.
import { globSync, readFileSync } from 'node:fs'

const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8'))
const sections = Object.entries(packages).flatMap(([folder, { version, license, dev, devOptional }]) => {
  if (!folder.startsWith('node_modules/') || dev || devOptional) return []
  const name = folder.slice(folder.lastIndexOf('node_modules/') + 'node_modules/'.length)
  const files = globSync(`${folder}/{LICEN[CS]E,NOTICE,COPYING}*`, { exclude: path => path.endsWith('.map') })
  // Some packages ship no license file. Their manifest names the license, whose text others below repeat.
  return [
    `${name} ${version} (${license})\n\n${files.map(file => readFileSync(file, 'utf8').trim()).join('\n\n')}`.trim()
  ]
})
const node = process.argv[2]
if (node !== undefined) sections.push(`Node.js ${process.version}\n\n${readFileSync(node, 'utf8').trim()}`)
process.stdout.write(`${sections.join(`\n\n${'-'.repeat(80)}\n\n`)}\n`)
