import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import t from 'tap'
import '../../../src/platform/state/redis.ts'

t.test('Redis: no class of a loaded package extends String, which slows every string of the process', async t => {
  const { cache } = createRequire(import.meta.url)
  const loaded = Object.entries(cache).flatMap(([file, module]) =>
    module !== undefined && file.includes('/ioredis/') ? [module] : []
  )
  t.ok(loaded.length > 20, `${loaded.length} files`)
  for (const module of loaded) {
    for (const [name, exported] of Object.entries((module?.exports ?? {}) as Record<string, unknown>))
      if (typeof exported === 'function') t.not(Object.getPrototypeOf(exported), String, name)
    const source = readFileSync(module?.filename ?? '', 'utf8')
    if (!source.includes('extends String')) continue
    t.match(module?.filename, /resp\/verbatim-string\.js$/, 'the one that is replaced')
  }
})
