import fc from 'fast-check'
import t from 'tap'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import {
  addressKeyFault,
  AddressKeyError,
  keyOrNull,
  readAddressKey,
  readKeyForCall,
  type AddressKeyForm
} from '../../../src/lightning/provider-calls/address-key.ts'

const form: AddressKeyForm<'key' | 'note'> = {
  kind: 'toy',
  example: 'toy+https://host/path?key=<text>',
  schemes: { 'toy+https': 'https:', 'toy+http': 'http:' },
  hasPath: true,
  needsPort: false,
  required: ['key'],
  optional: ['note']
}
const read = (text: string) => readAddressKey(text, form)
const secret = 'canary-8f2d61c0b7'

t.test('address and parameters come out in one spelling', async t => {
  t.same(read(`toy+https://Shop.Example.com/wallets/a/?key=${secret}`), {
    origin: 'https://shop.example.com:443',
    hostname: 'shop.example.com',
    base: 'https://shop.example.com:443/wallets/a',
    parameters: { key: secret }
  })
  t.match(read('TOY+HTTP://[2001:DB8::1]:5000?key=a%2Bb%3D&note='), {
    origin: 'http://[2001:db8::1]:5000',
    base: 'http://[2001:db8::1]:5000',
    parameters: { key: 'a+b=', note: '' }
  })
  t.match(read('toy+http://0x7f.1?key=a'), { origin: 'http://127.0.0.1:80' }, 'an address that reads in two ways')
})

t.test('errors are reported, without the secret', async t => {
  const cases: ReadonlyArray<readonly [string, RegExp]> = [
    ['', /must have the form toy\+https:/],
    [`toy://host?key=${secret}`, /must have the form/],
    [`constructor://host?key=${secret}`, /must have the form/],
    [`toy+https://host?key=${secret}#x`, /must have the form/],
    [`toy+https://host/a/../b?key=${secret}`, /must have the form/],
    [`toy+https://host/a%2Fb?key=${secret}`, /must have the form/],
    [`toy+https://?key=${secret}`, /must name the host after toy\+https:\/\//],
    [`toy+https://user:${secret}@host?key=${secret}`, /user name/],
    [`toy+https://host:0?key=${secret}`, /from 1 to 65535/],
    [`toy+https://host:65536?key=${secret}`, /must name the host/],
    [`toy+https://ho st?key=${secret}`, /must name the host/],
    [`toy+https://host?note=${secret}`, /has no key/],
    [`toy+https://host?key=${secret}&key=${secret}`, /key twice/],
    [`toy+https://host?key=${secret}&admin=1`, /parameters note and key, and no others/],
    [`toy+https://host?key=${secret}%`, /begins no character/],
    [`toy+https://host?key=${'a'.repeat(20_000)}`, /longer than/]
  ]
  const fault = addressKeyFault(read)
  for (const [text, wanted] of cases) {
    const message = fault(text) ?? 'accepted'
    t.match(message, wanted, text.slice(0, 60))
    t.notOk(message.includes(secret))
  }
  t.equal(fault(` toy+https://host?key=${secret}\n`), undefined, 'spaces around a key that was pasted do not matter')
})

t.test('breakers know hosts apart, and an invalid key has no address', async t => {
  t.match(keyOrNull(new Secret('toy+http://node.example.com:1/a?key=a'), 'toy', read), {
    origin: 'http://node.example.com:1'
  })
  t.equal(keyOrNull(new Secret('nonsense'), 'toy', read), null)
  t.equal(keyOrNull(null, 'toy', read), null)
})

t.test('a key is read once for as long as it is at hand, by each reader for itself', async t => {
  let readings = 0
  const counting = (text: string) => ({ ...read(text), nth: ++readings })
  const key = new Secret('toy+https://host?key=a')
  const first = readKeyForCall(key, 'toy', counting)
  t.equal(readKeyForCall(key, 'toy', counting), first)
  t.equal(readings, 1)
  t.notOk('nth' in readKeyForCall(key, 'toy', read), "another reader's result is not returned")
  t.equal(readKeyForCall(new Secret('toy+https://host?key=a'), 'toy', counting).nth, 2, 'another copy of its text')
})

t.test('any text is read or refused by AddressKeyError alone, and a value round-trips', async () => {
  const noise = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string().map(text => `toy+https://${text}`),
    fc.string().map(text => `toy+https://host/${text}?key=a`),
    fc.string().map(text => `toy+https://host?key=${text}`)
  )
  fc.assert(
    fc.property(noise, text => {
      try {
        return read(text).origin !== ''
      } catch (error) {
        return error instanceof AddressKeyError
      }
    }),
    { numRuns: 300 }
  )
  fc.assert(
    fc.property(
      fc.string({ minLength: 1 }).filter(text => text.isWellFormed()),
      text => read(`toy+https://host?key=${encodeURIComponent(text)}`).parameters.key === text
    )
  )
})
