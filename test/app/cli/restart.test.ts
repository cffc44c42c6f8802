import t from 'tap'
import { needsRestart } from '../../../src/engine/config/effective.ts'
import { defaultYaml, loadText } from '../../support/gateway.ts'

t.test(
  'a reload says which parts take effect only after a restart, and does not mention those that apply immediately',
  async t => {
    const read = async (from: string, to: string) => (await loadText(defaultYaml({ replace: [[from, to]] }), {})).config
    const before = await read('mode: development', 'mode: development')
    for (const [from, to, named] of [
      ['storefront: { kind: sandbox }', 'storefront: { kind: shopify }', ['storefront']],
      ['billing:    { kind: sandbox }', 'billing:    { kind: none }', ['billing']],
      [
        'mode: development',
        'mode: development\nprices: { urls: { kraken: "https://mirror.example" } }\nlog: { level: debug }',
        ['prices', 'log']
      ],
      ['mode: development', 'mode: development\npayment: { schemes: [l402] }', []]
    ] as const)
      t.same(needsRestart(before, await read(from, to)), named, to)
  }
)
