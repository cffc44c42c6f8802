// Rolls up the declarations of what the package exports: dist/index.d.ts and dist/harness.d.ts name parts of
// dist/types.d.ts.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { rolldown } from 'rolldown'
import { dts } from 'rolldown-plugin-dts'

const folder = mkdtempSync(join(tmpdir(), 'boltgate-declarations-'))
try {
  const options = ['--declaration', '--emitDeclarationOnly', '--removeComments', 'false', '--outDir', folder]
  const { status } = spawnSync('tsc', ['-p', 'tsconfig.build.json', ...options], { stdio: 'inherit' })
  if (status !== 0) throw new Error('tsc failed')
  const bundle = await rolldown({
    input: { index: `${folder}/src/index.d.ts`, harness: `${folder}/src/engine/pipeline/harness.d.ts` },
    plugins: [dts({ dtsInput: true, oxc: true })],
    external: /^[@a-z]/,
    // It warns of each `declare module` that is resolved below.
    logLevel: 'silent'
  })
  await bundle.write({
    dir: 'dist',
    chunkFileNames: '[name].d.ts',
    codeSplitting: { groups: [{ name: 'types', test: () => true, includeDependenciesRecursively: true }] }
  })
} finally {
  rmSync(folder, { recursive: true, force: true })
}

// Rooms add members to interfaces of lower rooms with `declare module '../file.ts'`. In one file, a second declaration of
// the interface does that.
const file = 'dist/types.d.ts'
const text = readFileSync(file, 'utf8').replaceAll(/^declare module ['"]\.[^'"]*['"] \{\n([^]*?)\n\}$/gm, (_, body) =>
  body.replaceAll(/^ {2}/gm, '')
)
if (/^declare module/m.test(text)) throw new Error(`${file} still augments a module by its path`)
writeFileSync(file, text)
