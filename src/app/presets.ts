import { readFileSync } from 'node:fs'
import type { Presets } from '../engine/config/presets.ts'

/** What a file need not spell out: the files in `presets/`, each in the form of a configuration file. */
export const presets: Presets = {
  read: name => ({
    file: `presets/${name}.yaml`,
    text: readFileSync(new URL(`./presets/${name}.yaml`, import.meta.url), 'utf8')
  })
}
