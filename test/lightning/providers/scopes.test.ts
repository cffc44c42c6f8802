import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { providerKinds } from '../../../src/lightning/kinds/kinds.ts'
import { rootFolder } from '../../support/gateway.ts'

const GUIDE = globSync('docs/how-to/lightning/*.md', { cwd: rootFolder })
  .map(page => readFileSync(join(rootFolder, page), 'utf8'))
  .join('\n')
/** A Lightning address is no key, and the sandbox takes any. */
const WITHOUT = ['lnurl', 'sandbox']

t.test(
  'every kind whose keys can be allowed less than all says what a key needs, and the guide has it too',
  async t => {
    for (const { name, scopes = [] } of providerKinds) {
      t.equal(scopes.length === 0, WITHOUT.includes(name), name)
      t.equal(new Set(scopes.map(({ scope }) => scope)).size, scopes.length, `${name} names none twice`)
      t.ok(
        scopes.some(({ purpose }) => purpose.startsWith('Refunds')) || scopes.length === 0,
        `${name} says what refunds need`
      )
      for (const { scope } of scopes) t.ok(GUIDE.includes(scope.replace('method=', '')), `${name}: ${scope}`)
    }
  }
)
