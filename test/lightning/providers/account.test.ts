import * as fc from 'fast-check'
import t from 'tap'
import {
  choiceAfterSaving,
  resolveProvider,
  type AccountFacts,
  type ProviderSlot
} from '../../../src/lightning/providers/slot-keys.ts'

const slots: ProviderSlot[] = ['primary', 'alternate']
const facts = fc.record({
  providerChoice: fc.constantFrom<ProviderSlot | null>('primary', 'alternate', null),
  hasPrimaryKey: fc.boolean(),
  hasAlternateKey: fc.boolean()
})

t.test('(a) an explicit provider choice on the account comes first, even without a key in its slot', t => {
  fc.assert(
    fc.property(facts, given => given.providerChoice === null || resolveProvider(given) === given.providerChoice)
  )
  t.end()
})

t.test('(b) otherwise, if exactly one provider key is saved, that provider', t => {
  t.equal(resolveProvider({ providerChoice: null, hasPrimaryKey: true, hasAlternateKey: false }), 'primary')
  t.equal(resolveProvider({ providerChoice: null, hasPrimaryKey: false, hasAlternateKey: true }), 'alternate')
  t.end()
})

t.test('(c) otherwise, with both keys or none, the platform default primary', t => {
  t.equal(resolveProvider({ providerChoice: null, hasPrimaryKey: true, hasAlternateKey: true }), 'primary')
  t.equal(resolveProvider({ providerChoice: null, hasPrimaryKey: false, hasAlternateKey: false }), 'primary')
  t.end()
})

t.test('saving a primary key sets the provider only when no explicit choice exists; an alternate key never does', t => {
  t.equal(choiceAfterSaving('primary', null), 'primary')
  t.equal(choiceAfterSaving('alternate', null), null)
  for (const slot of slots) for (const choice of slots) t.equal(choiceAfterSaving(slot, choice), choice)
  t.end()
})

t.test("whatever is saved in whatever order, the result is the contract's", t => {
  type Act = { save: ProviderSlot } | { choose: ProviderSlot }
  const act: fc.Arbitrary<Act> = fc.oneof(
    fc.constantFrom(...slots).map(save => ({ save })),
    fc.constantFrom(...slots).map(choose => ({ choose }))
  )
  fc.assert(
    fc.property(fc.array(act, { maxLength: 8 }), acts => {
      let state: AccountFacts = { providerChoice: null, hasPrimaryKey: false, hasAlternateKey: false }
      for (const one of acts) {
        if ('choose' in one) state = { ...state, providerChoice: one.choose }
        else {
          state = {
            providerChoice: choiceAfterSaving(one.save, state.providerChoice),
            hasPrimaryKey: state.hasPrimaryKey || one.save === 'primary',
            hasAlternateKey: state.hasAlternateKey || one.save === 'alternate'
          }
        }
      }
      // Independent of the code: the first thing that makes a choice, then every later explicit one.
      const chosen = acts.reduce<ProviderSlot | null>(
        (so, one) => ('choose' in one ? one.choose : (so ?? (one.save === 'primary' ? 'primary' : null))),
        null
      )
      const onlyAlternate = acts.some(one => 'save' in one)
      return resolveProvider(state) === (chosen ?? (onlyAlternate ? 'alternate' : 'primary'))
    })
  )
  t.end()
})
