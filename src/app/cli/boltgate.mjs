#!/usr/bin/env node
// Starts the command line: the built files when the package is installed, the sources in a checkout.
import { existsSync } from 'node:fs'
import module from 'node:module'

// Sent by log rotation and by mistake. SIGUSR1 would open the inspector, and with it the master secret, to everyone on
// this machine; SIGUSR2 would end the process. The flag --disable-sigusr1 covers the moment before this line.
for (const signal of ['SIGUSR1', 'SIGUSR2']) process.on(signal, () => {})
const [major = 0] = process.versions.node.split('.').map(Number)
if (major < 24) {
  process.stderr.write(
    `boltgate needs Node 24 or later; this is ${process.version}. In a checkout, "npm start" and "npx boltgate" bring their own.\n`
  )
  process.exit(1)
}
const source = new URL('../main.ts', import.meta.url)
const built = new URL('../../../dist/src/app/main.js', import.meta.url)
const isCheckout = existsSync(source)
// Hundreds of files are stripped of their types there: from the second start on they are read ready-made, in half the time.
// What is built needs no stripping, and the cache would only take its memory.
if (isCheckout) module.enableCompileCache()
const { run } = await import((isCheckout ? source : built).href)
await run(process.argv.slice(2))
// When nothing is left to do and all other listeners have been called. Node 24 would clean up its environment now, which
// sometimes never ends: `CleanupHandles` spins in an empty loop.
process.on('exit', code => {
  process.exit(process.exitCode ?? code)
})
