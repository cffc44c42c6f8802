import t from 'tap'
import { providerKinds } from '../../../../src/lightning/kinds/kinds.ts'
import { keepContract } from './contract.ts'
import { nodes, services, wallets } from './subjects.ts'

t.test('every kind of the list is held against the contract', async t => {
  const held = [...services, ...nodes, ...wallets].map(({ kind }) => kind.name)
  t.same(held.toSorted(), providerKinds.map(({ name }) => name).toSorted())
})

await keepContract(t, services)
