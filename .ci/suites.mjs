// Prints the test files that use storage or state, told by the helpers that they import.
import { globSync, readFileSync } from 'node:fs'

const files = globSync('test/**/*.test.ts', { exclude: ['**/node_modules/**'] })
console.log(files.filter(file => /support\/(database|redis|state|gateway|gateway-process)\.ts'/.test(readFileSync(file, 'utf8'))).sort().join(' '))
