import { bech32, bech32m, createBase58check } from '@scure/base'
import fc from 'fast-check'
import t from 'tap'
import { AddressError, readAddress, type AddressErrorCode } from '../../../src/lightning/codecs/address.ts'
import { sha256 } from '../../../src/lightning/codecs/hmac.ts'

const base58check = createBase58check(sha256)

function codeOf(text: string) {
  try {
    readAddress(text)
    return 'valid'
  } catch (error) {
    if (error instanceof AddressError) return error.code
    throw error
  }
}

const valid: ReadonlyArray<[text: string, kind: string, networks: string]> = [
  // BIP 173 and BIP 350, valid segwit addresses
  ['BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4', 'p2wpkh', 'mainnet'],
  ['tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7', 'p2wsh', 'testnet signet'],
  ['bc1pw508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7kt5nd6y', 'witness', 'mainnet'],
  ['BC1SW50QGDZ25J', 'witness', 'mainnet'],
  ['bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs', 'witness', 'mainnet'],
  ['tb1qqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesrxh6hy', 'p2wsh', 'testnet signet'],
  ['tb1pqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesf3hn0c', 'p2tr', 'testnet signet'],
  ['bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0', 'p2tr', 'mainnet'],
  // The first coinbase's address, and common examples of the other base58 forms
  ['1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa', 'p2pkh', 'mainnet'],
  ['3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy', 'p2sh', 'mainnet'],
  ['mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn', 'p2pkh', 'testnet signet regtest'],
  ['2MzQwSSnBHWHqSAqtTVQ6v47XtaisrJa1Vc', 'p2sh', 'testnet signet regtest'],
  ['1111111111111111111114oLvT2', 'p2pkh', 'mainnet']
]

for (const [text, kind, networks] of valid) {
  t.test(`${text} is ${kind} of ${networks}`, async t => {
    const address = readAddress(text)
    t.equal(address.kind, kind)
    t.equal(address.networks.join(' '), networks)
  })
}

const invalid: ReadonlyArray<[why: string, text: string, code: AddressErrorCode]> = [
  // BIP 350
  ['invalid human-readable part', 'tc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vq5zuyut', 'form'],
  [
    'bech32 instead of bech32m, version 1',
    'bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqh2y7hd',
    'checksum'
  ],
  [
    'bech32 instead of bech32m, version 2',
    'tb1z0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqglt7rf',
    'checksum'
  ],
  [
    'bech32 instead of bech32m, version 16',
    'BC1S0XLXVLHEMJA6C4DQV22UAPCTQUPFHLXM9H8Z3K2E72Q4K9HCZ7VQ54WELL',
    'checksum'
  ],
  ['bech32m instead of bech32, 20 bytes', 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kemeawh', 'checksum'],
  ['bech32m instead of bech32, 32 bytes', 'tb1q0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vq24jc47', 'checksum'],
  ['invalid character in checksum', 'bc1p38j9r5y49hruaue7wxjce0updqjuyyx0kh56v8s25huc6995vvpql3jow4', 'form'],
  ['invalid witness version', 'BC130XLXVLHEMJA6C4DQV22UAPCTQUPFHLXM9H8Z3K2E72Q4K9HCZ7VQ7ZWS8R', 'version'],
  ['invalid program length (1 byte)', 'bc1pw5dgrnzv', 'length'],
  [
    'invalid program length (41 bytes)',
    'bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7v8n0nx0muaewav253zgeav',
    'length'
  ],
  ['invalid program length for witness version 0', 'BC1QR508D6QEJXTDG4Y5R3ZARVARYV98GJ9P', 'length'],
  ['mixed case', 'tb1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vq47Zagq', 'form'],
  ['more than 4 padding bits', 'bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7v07qwwzcrf', 'length'],
  ['non-zero padding', 'tb1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vpggkg4j', 'length'],
  ['empty data section', 'bc1gmk9yu', 'checksum'],
  // BIP 173, and its valid addresses that BIP 350 made invalid
  ['invalid human-readable part', 'tc1qw508d6qejxtdg4y5r3zarvary0c5xw7kg3g4ty', 'form'],
  ['invalid checksum', 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5', 'checksum'],
  ['invalid witness version', 'BC13W508D6QEJXTDG4Y5R3ZARVARY0C5XW7KN40WF2', 'checksum'],
  ['invalid program length', 'bc1rw5uspcuh', 'checksum'],
  [
    'invalid program length',
    'bc10w508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7kw5rljs90',
    'checksum'
  ],
  ['mixed case', 'tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sL5k7', 'form'],
  ['more than 4 padding bits', 'bc1zw508d6qejxtdg4y5r3zarvaryvqyzf3du', 'checksum'],
  ['non-zero padding', 'tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3pjxtptv', 'length'],
  [
    'version 1 with the old checksum',
    'bc1pw508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7k7grplx',
    'checksum'
  ],
  ['version 16 with the old checksum', 'BC1SW50QA3JX3S', 'checksum'],
  ['version 2 with the old checksum', 'bc1zw508d6qejxtdg4y5r3zarvaryvg6kdaj', 'checksum'],
  // base58
  ['one character changed', '1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb', 'checksum'],
  ['one character left out', '1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfN', 'checksum'],
  ['a character that base58 does not have', '1A1zP1eP5QGefi2DMPTfTL5SLmv7Div0Na', 'form'],
  ['an address of Litecoin', 'LVg2kJoFNg45Nbpy53h7Fe1wKyeXVRhMH9', 'network'],
  ['too short a hash', base58check.encode(new Uint8Array(20).fill(7, 1)), 'length'],
  // and anything else
  ['nothing', '', 'form'],
  ['a prefix alone', 'bc1', 'form'],
  ['a link', 'bitcoin:1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa', 'form'],
  ['a space in front', ' 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa', 'form'],
  ['a letter that lower case turns into an ASCII one', 'bc1\u212Aw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4', 'form'],
  ['too long', `bc1q${'q'.repeat(100)}`, 'length']
]

for (const [why, text, code] of invalid) {
  t.test(`${JSON.stringify(text.slice(0, 100))} is refused: ${why}`, async t => {
    t.equal(codeOf(text), code)
  })
}

const programs = fc.uint8Array({ minLength: 20, maxLength: 20 })

t.test(
  'every address that can be written is read back for its network, and none with one character changed',
  async t => {
    const written = fc.oneof(
      fc
        .tuple(
          fc.constantFrom<[number, string, string]>(
            [0x00, 'p2pkh', 'mainnet'],
            [0x05, 'p2sh', 'mainnet'],
            [0x6f, 'p2pkh', 'testnet signet regtest'],
            [0xc4, 'p2sh', 'testnet signet regtest']
          ),
          programs
        )
        .map(([[version, kind, networks], bytes]) => ({
          text: base58check.encode(Uint8Array.of(version, ...bytes)),
          kind,
          networks
        })),
      fc
        .tuple(
          fc.constantFrom<[string, string]>(['bc', 'mainnet'], ['tb', 'testnet signet'], ['bcrt', 'regtest']),
          programs
        )
        .map(([[prefix, networks], bytes]) => ({
          text: bech32.encode(prefix, [0, ...bech32.toWords(bytes)]),
          kind: 'p2wpkh',
          networks
        })),
      fc
        .tuple(
          fc.constantFrom<[string, string]>(['bc', 'mainnet'], ['tb', 'testnet signet'], ['bcrt', 'regtest']),
          fc.uint8Array({ minLength: 32, maxLength: 32 })
        )
        .map(([[prefix, networks], bytes]) => ({
          text: bech32m.encode(prefix, [1, ...bech32m.toWords(bytes)]),
          kind: 'p2tr',
          networks
        }))
    )
    t.doesNotThrow(() =>
      fc.assert(
        fc.property(
          written,
          fc.nat(),
          fc.constantFrom(...'023456789acdefghjkmnpqrstuvwxyz'),
          ({ text, kind, networks }, place, other) => {
            const address = readAddress(text)
            if (address.kind !== kind || address.networks.join(' ') !== networks) return false
            const at = place % text.length
            const changed = text.slice(0, at) + other + text.slice(at + 1)
            return changed === text || codeOf(changed) !== 'valid'
          }
        ),
        { numRuns: 500 }
      )
    )
  }
)

t.test('no text makes anything but an AddressError', async t => {
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: 'binary' }),
          fc.string().map(text => `bc1${text}`),
          fc.string().map(text => `BCRT1${text}`)
        ),
        text => {
          codeOf(text)
        }
      ),
      { numRuns: 300 }
    )
  )
})
