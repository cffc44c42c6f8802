import t from 'tap'
import { isRoleEnough, neededRole, ROLES } from '../../../src/engine/operations/operation.ts'

t.test('each role may do what those before it may, and nothing of those after it', async t => {
  for (const [has, one] of ROLES.entries())
    for (const [needed, other] of ROLES.entries()) t.equal(isRoleEnough(one, other), has >= needed, `${one}, ${other}`)
  t.notOk(isRoleEnough(undefined as never /* what a plugin of others may have left out */, 'viewer'))
})

t.test('reading requires viewer and changing editor, unless the operation says otherwise', async t => {
  t.equal(neededRole({ method: 'GET' }), 'viewer')
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'] as const) t.equal(neededRole({ method }), 'editor')
  t.equal(neededRole({ method: 'GET', role: 'owner' }), 'owner')
})
