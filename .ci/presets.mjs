// Writes the routes of src/app/presets/*.yaml anew from what operations declare; a test fails while they differ.
import { writeFileSync } from 'node:fs'
import { withPlugins } from '../src/app/cli/configuration.ts'
import { rehearse } from '../src/app/cli/rehearse.ts'
import { presetTexts } from '../src/app/composition/preset-routes.ts'
import { loadConfigText } from '../src/engine/config/load.ts'
import { presets } from '../src/app/presets.ts'

// Whatever has operations of its own is there, and no preset that may be out of step is read.
const everything = 'use: []\nstorefront: { kind: sandbox }\nbilling: { kind: sandbox }\n'
const { operations } = await rehearse(await withPlugins(options => loadConfigText('presets', everything, {}, options)))
for (const [name, text] of presetTexts(presets, operations))
  writeFileSync(new URL(`../src/app/presets/${name}.yaml`, import.meta.url), text)
process.exit(0)
