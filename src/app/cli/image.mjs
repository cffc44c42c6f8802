// Makes the image that a first start begins with (image-making.ts): before tests, and when a package is built. Not at
// installation, where npm warns of scripts. Without it a first start takes some seconds more, so nothing here may fail.
import { existsSync } from 'node:fs'

const source = new URL('../image-making.ts', import.meta.url)
const built = new URL('../../../dist/src/app/image-making.js', import.meta.url)
// `--built`: what `npm run build` has made just now, not the sources beside it.
const file = process.argv[2] !== '--built' && existsSync(source) ? source : built
try {
  const { makeImage } = await import(file.href)
  await makeImage()
} catch (error) {
  process.stderr.write(
    `The image of a new database was not made, a first start makes its database itself: ${error instanceof Error ? error.message : String(error)}\n`
  )
}
process.exit(0)
