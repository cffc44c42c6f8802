import { createHash, randomBytes } from 'node:crypto'
import { secp256k1 } from '@noble/curves/secp256k1.js'
import bolt11 from 'bolt11'
import * as fc from 'fast-check'
import { bech32 } from '@scure/base'
import lightBolt11 from 'light-bolt11-decoder'
import t from 'tap'
import { decodeInvoice, InvoiceError, type InvoiceNetwork } from '../../../src/lightning/codecs/bolt11.ts'
import {
  encodeInvoice,
  MAX_DESCRIPTION_BYTES,
  shortDescription,
  type InvoiceTerms
} from '../../../src/lightning/codecs/bolt11-encode.ts'
import { INVALID, PAYEE, VALID } from './bolt11-vectors.ts'

const KEY = Buffer.from('e126f68f7eafcc8b74f54d269fe206be715000f94dac067d1c04a8ca3b2db734', 'hex')
const HASH = '0001020304050607080900010203040506070809000102030405060708090102'
const SECRET = '11'.repeat(32)

const TERMS: InvoiceTerms = {
  network: 'regtest',
  amountMsat: 10_000n,
  paymentHash: HASH,
  paymentSecret: SECRET,
  timestamp: 1_790_000_000,
  expirySeconds: 600,
  description: 'a quote'
}

function refusal(run: () => unknown) {
  try {
    run()
  } catch (error) {
    if (error instanceof InvoiceError) return error
    throw error
  }
  throw new Error('nothing was refused')
}

t.test('every valid example of BOLT 11 is read, with its amount and payee', async t => {
  t.equal(VALID.length, 16)
  for (const { what, text, amountMsat } of VALID) {
    const invoice = decodeInvoice(text)
    t.equal(invoice.amountMsat, amountMsat === null ? null : BigInt(amountMsat), what)
    t.equal(invoice.text, text.toLowerCase(), what)
    if (what.includes('pico')) continue // that one has another payment hash
    t.equal(invoice.paymentHash, HASH, what)
    if (what.includes('high-S')) t.equal(invoice.payee, bolt11.decode(text).payeeNodeKey, what)
    else t.equal(invoice.payee, PAYEE, what)
  }
})

t.test('every invalid example of BOLT 11 is refused for its own reason', async t => {
  t.equal(INVALID.length, 10)
  for (const { what, text, code } of INVALID) t.equal(refusal(() => decodeInvoice(text)).code, code, what)
})

t.test('expiry, network, features and description are read', async t => {
  const coffee = decodeInvoice(VALID[1]?.text ?? '')
  t.match(coffee, {
    description: '1 cup coffee',
    expirySeconds: 60,
    timestamp: 1_496_314_658,
    expiresAt: 1_496_314_718,
    amountSats: 250_000,
    network: 'mainnet'
  })
  t.equal(decodeInvoice(VALID[2]?.text ?? '').description, 'ナンセンス 1杯')
  const hashed = decodeInvoice(VALID[4]?.text ?? '')
  t.equal(hashed.network, 'testnet')
  t.equal(hashed.description, null)
  t.equal(hashed.descriptionHash, '3925b6f67e2c340036ed12093dd44e0368df1b6ea26c53dbe4811f58fd5db8c1')
  t.equal(hashed.expirySeconds, 3600)
  t.same(decodeInvoice(VALID[11]?.text ?? '').features, [8, 14, 99])
  t.equal(decodeInvoice(VALID[10]?.text ?? '').amountSats, 967_878, 'satoshis are rounded down')
})

t.test('an edited invoice fails its signature, unless that check is left out', async t => {
  const text = encodeInvoice(TERMS, KEY)
  const { prefix, words } = bech32.decode(text as `${string}1${string}`, false) // the cast only states the library's input type
  const higher = bech32.encode('lnbcrt200n', words, false)
  t.equal(prefix, 'lnbcrt100n')
  t.not(decodeInvoice(higher).payee, decodeInvoice(text).payee, 'recovery names another payee')
  t.equal(decodeInvoice(text, { signature: 'none' }).payee, null)
  const broken = [...words]
  broken[broken.length - 1] = 31
  broken[broken.length - 2] = 31
  t.equal(refusal(() => decodeInvoice(bech32.encode(prefix, broken, false))).code, 'signature')
  t.equal(
    decodeInvoice(bech32.encode(prefix, broken, false), { signature: 'named' }).payee,
    null,
    'nor requested where it could only name some key'
  )
})

t.test('a named payee must have signed, in low-S form', async t => {
  const { prefix, words } = bech32.decode(encodeInvoice(TERMS, KEY) as `${string}1${string}`, false) // as above
  const sign = (payee: string, highS: boolean) => {
    const data = [...words.slice(0, -104), 19, 1, 21, ...bech32.toWords(Buffer.from(payee, 'hex'))]
    const bits = data.map(word => word.toString(2).padStart(5, '0')).join('')
    const bytes = (bits.match(/.{1,8}/g) ?? []).map(byte => Number.parseInt(byte.padEnd(8, '0'), 2))
    const hash = createHash('sha256').update(prefix).update(Buffer.from(bytes)).digest()
    const low = secp256k1.Signature.fromBytes(secp256k1.sign(hash, KEY, { prehash: false }))
    const s = highS ? secp256k1.Point.Fn.ORDER - low.s : low.s
    const signature = Buffer.from(low.r.toString(16).padStart(64, '0') + s.toString(16).padStart(64, '0') + '00', 'hex')
    return bech32.encode(prefix, [...data, ...bech32.toWords(signature)], false)
  }
  t.equal(decodeInvoice(sign(PAYEE, false)).payee, PAYEE)
  t.equal(decodeInvoice(sign(PAYEE, false), { signature: 'named' }).payee, PAYEE)
  t.equal(refusal(() => decodeInvoice(sign(PAYEE, true))).code, 'signature', 'high S')
  const outsider = Buffer.from(secp256k1.getPublicKey(Buffer.alloc(32, 9))).toString('hex')
  t.equal(refusal(() => decodeInvoice(sign(outsider, false))).code, 'signature', 'another payee')
  t.equal(
    refusal(() => decodeInvoice(sign(outsider, false), { signature: 'named' })).code,
    'signature',
    'another payee, where only named ones are checked'
  )
  t.equal(refusal(() => decodeInvoice(sign(`02${'00'.repeat(32)}`, false))).code, 'signature', 'no point of the curve')
})

t.test('an ambiguous invoice is refused', async t => {
  const { prefix, words } = bech32.decode(encodeInvoice(TERMS, KEY) as `${string}1${string}`, false) // as above
  const insert = (...field: number[]) =>
    bech32.encode(prefix, [...words.slice(0, 7), ...field, ...words.slice(7)], false)
  const hash = [1, 1, 20, ...bech32.toWords(Buffer.alloc(32, 7)).slice(0, 52)]
  t.equal(refusal(() => decodeInvoice(insert(...hash), { signature: 'none' })).code, 'field', 'two payment hashes')
  t.equal(refusal(() => decodeInvoice(insert(6, 0, 1, 5), { signature: 'none' })).code, 'field', 'two expiries')
  t.equal(
    refusal(() => decodeInvoice(insert(23, 1, 20, ...bech32.toWords(Buffer.alloc(32))), { signature: 'none' })).code,
    'description',
    'd and h'
  )
  const bare = bech32.decode(VALID[15]?.text as `${string}1${string}`, false) // as above; it has neither x nor c
  const numbered = (...field: number[]) =>
    decodeInvoice(bech32.encode(bare.prefix, [...bare.words.slice(0, 7), ...field, ...bare.words.slice(7)], false), {
      signature: 'none'
    })
  t.equal(numbered(6, 0, 2, 1, 0).expirySeconds, 32)
  t.equal(numbered(24, 0, 1, 9).minFinalCltvExpiry, 9)
  t.equal(refusal(() => numbered(6, 0, 2, 0, 1)).code, 'field', 'an expiry with a leading zero')
  t.equal(refusal(() => numbered(24, 0, 2, 0, 1)).code, 'field', 'a cltv delta with a leading zero')
  t.equal(
    refusal(() => numbered(6, 0, 11, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)).code,
    'field',
    'an expiry beyond exact numbers'
  )
  const plain = bech32.decode(encodeInvoice({ ...TERMS, features: [] }, KEY) as `${string}1${string}`, false) // as above
  const featured = (...field: number[]) =>
    decodeInvoice(bech32.encode(plain.prefix, [...plain.words.slice(0, 7), ...field, ...plain.words.slice(7)], false), {
      signature: 'none'
    })
  t.same(featured(5, 0, 2, 8, 0).features, [8])
  t.equal(refusal(() => featured(5, 0, 3, 0, 8, 0)).code, 'field', 'features with a leading zero')
  t.ok(decodeInvoice(insert(2, 0, 1, 5), { signature: 'none' }), 'an unknown field is passed over')
  t.equal(
    refusal(() => decodeInvoice(insert(2, 31, 31, 5), { signature: 'none' })).code,
    'field',
    'a field past the end'
  )
  for (const bad of ['lnbcrt0100n', 'lnbcrt-1n', 'lnbcrt100', 'lnbcrt22000000', 'lnbcrt1n1n', 'lnbcrtn', 'lnxx1n']) {
    const text = bech32.encode(bad, words, false)
    if (bad === 'lnbcrt100')
      t.equal(decodeInvoice(text, { signature: 'none' }).amountMsat, 10_000_000_000_000n, '100 BTC')
    else t.throws(() => decodeInvoice(text, { signature: 'none' }), InvoiceError, bad)
  }
  t.equal(refusal(() => decodeInvoice('lnbc1'.padEnd(8000, 'q'))).code, 'length')
  t.throws(() => decodeInvoice(`lightning:${encodeInvoice(TERMS, KEY)}`), InvoiceError)
})

t.test('two independent decoders read our invoices as we do', async t => {
  const regtest = { bech32: 'bcrt', pubKeyHash: 0x6f, scriptHash: 0xc4, validWitnessVersions: [0, 1] }
  for (const terms of [
    TERMS,
    { ...TERMS, network: 'mainnet' as const, amountMsat: 1_000_000n },
    { ...TERMS, amountMsat: null }
  ]) {
    const text = encodeInvoice(terms, KEY)
    const ours = decodeInvoice(text)
    const theirs = bolt11.decode(text, terms.network === 'regtest' ? regtest : undefined)
    t.equal(theirs.tagsObject.payment_hash, ours.paymentHash)
    t.equal(theirs.tagsObject.payment_secret, SECRET)
    t.equal(theirs.tagsObject.description, 'a quote')
    t.equal(theirs.tagsObject.expire_time, 600)
    t.equal(theirs.payeeNodeKey, ours.payee)
    t.equal(theirs.millisatoshis ?? null, ours.amountMsat === null ? null : String(ours.amountMsat))
    const light = lightBolt11.decode(text)
    const section = (name: string) => light.sections.find(part => part.name === name && 'value' in part && part.value)
    t.match(section('payment_hash'), { value: HASH })
    t.match(section('timestamp'), { value: TERMS.timestamp })
    t.equal(light.expiry, 600)
  }
})

t.test('the signing key is the payee, and the signature is low-S', async t => {
  const payee = Buffer.from(secp256k1.getPublicKey(KEY)).toString('hex')
  t.equal(payee, PAYEE, 'the key is the one of the examples')
  t.equal(decodeInvoice(encodeInvoice(TERMS, KEY)).payee, payee)
  t.same(decodeInvoice(encodeInvoice(TERMS, KEY)).features, [8, 14, 17])
  t.same(decodeInvoice(encodeInvoice({ ...TERMS, features: [] }, KEY)).features, [])
})

t.test('signatures, and the payees that they recover to, are those of another implementation', async t => {
  const signed = (invoice: string, change: (signature: Buffer) => void) => {
    const { prefix, words } = bech32.decode(invoice as `${string}1${string}`, false) // as above
    const data = words.slice(0, -104)
    const bits = data.map(word => word.toString(2).padStart(5, '0')).join('')
    const bytes = (bits.match(/.{1,8}/g) ?? []).map(byte => Number.parseInt(byte.padEnd(8, '0'), 2))
    const signature = Buffer.from(bech32.fromWords(words.slice(-104)))
    change(signature)
    return {
      invoice: bech32.encode(prefix, [...data, ...bech32.toWords(signature)], false),
      hash: createHash('sha256').update(prefix).update(Buffer.from(bytes)).digest()
    }
  }
  const theirs = (hash: Buffer, signature: Buffer) => {
    try {
      const recovered = Buffer.concat([signature.subarray(64), signature.subarray(0, 64)])
      return Buffer.from(secp256k1.recoverPublicKey(recovered, hash, { prehash: false })).toString('hex')
    } catch {
      // No key has made it.
      return null
    }
  }
  for (let run = 0; run < 40; run++) {
    const key = secp256k1.utils.randomSecretKey()
    const plain = encodeInvoice({ ...TERMS, amountMsat: BigInt(run + 1) * 1000n }, key)
    let own = Buffer.alloc(0)
    const { hash } = signed(plain, signature => (own = Buffer.from(signature)))
    const other = secp256k1.sign(hash, key, { prehash: false, lowS: true, format: 'recovered' })
    t.same(own, Buffer.concat([other.subarray(1), other.subarray(0, 1)]))
    let changed = Buffer.alloc(0)
    const broken = signed(plain, signature => {
      const at = randomBytes(1).readUInt8() % 64
      signature.writeUInt8(signature.readUInt8(at) ^ 0x40, at)
      signature.writeUInt8(run % 2, 64)
      changed = Buffer.from(signature)
    })
    const expected = theirs(hash, changed)
    if (expected === null) t.equal(refusal(() => decodeInvoice(broken.invoice)).code, 'signature')
    else t.equal(decodeInvoice(broken.invoice).payee, expected)
  }
  for (const nothing of [Buffer.alloc(64), Buffer.concat([Buffer.alloc(32, 0xff), Buffer.alloc(32, 1)])]) {
    const { invoice } = signed(encodeInvoice(TERMS, KEY), signature => {
      nothing.copy(signature)
    })
    t.equal(refusal(() => decodeInvoice(invoice)).code, 'signature', 'numbers that no signature has')
  }
})

t.test('an invoice is encoded as it was decoded', async t => {
  const networks: InvoiceNetwork[] = ['mainnet', 'testnet', 'signet', 'regtest']
  const hex32 = fc.uint8Array({ minLength: 32, maxLength: 32 }).map(bytes => Buffer.from(bytes).toString('hex'))
  fc.assert(
    fc.property(
      fc.record(
        {
          network: fc.constantFrom(...networks),
          amountMsat: fc.option(fc.bigInt({ min: 1n, max: 2_100_000_000_000_000_000n })),
          paymentHash: hex32,
          paymentSecret: hex32,
          timestamp: fc.integer({ min: 0, max: 2 ** 35 - 1 }),
          expirySeconds: fc.integer({ min: 0, max: 2 ** 31 }),
          description: fc.string({ unit: 'grapheme', maxLength: 60 }).map(text => shortDescription(text)),
          minFinalCltvExpiry: fc.integer({ min: 0, max: 100_000 })
        },
        { noNullPrototype: true }
      ),
      terms => {
        const {
          text,
          amountSats: _,
          expiresAt,
          payee,
          features,
          descriptionHash,
          ...read
        } = decodeInvoice(encodeInvoice(terms, KEY))
        t.strictSame({ ...read }, terms)
        return (
          text.length > 0 &&
          expiresAt === terms.timestamp + terms.expirySeconds &&
          payee === PAYEE &&
          features.length === 3 &&
          descriptionHash === null
        )
      }
    ),
    { numRuns: 60 }
  )
})

t.test('terms that cannot be written are refused', async t => {
  const refused = (terms: Partial<InvoiceTerms>) =>
    t.throws(() => encodeInvoice({ ...TERMS, ...terms }, KEY), InvoiceError, Object.keys(terms).join())
  refused({ amountMsat: 0n })
  refused({ amountMsat: 2_100_000_000_000_000_001n })
  t.equal(
    decodeInvoice(encodeInvoice({ ...TERMS, amountMsat: 2_100_000_000_000_000_000n }, KEY)).amountMsat,
    2_100_000_000_000_000_000n
  )
  refused({ paymentHash: 'AA'.repeat(32) })
  refused({ paymentSecret: '' })
  refused({ timestamp: 1.5 })
  refused({ expirySeconds: -1 })
  refused({ description: 'x'.repeat(MAX_DESCRIPTION_BYTES + 1) })
  t.equal(
    decodeInvoice(encodeInvoice({ ...TERMS, description: shortDescription('é'.repeat(400)) }, KEY)).description,
    'é'.repeat(319)
  )
})

t.test('no text makes the decoder throw anything but an InvoiceError', async t => {
  const only = (text: string) => {
    try {
      decodeInvoice(text, { signature: 'none' })
    } catch (error) {
      if (!(error instanceof InvoiceError)) throw error
    }
  }
  fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 300 }), only), { numRuns: 300 })
  // With a right checksum, so that the fields behind it are reached.
  const words = fc.array(fc.integer({ min: 0, max: 31 }), { minLength: 0, maxLength: 300, size: 'max' })
  const prefixes = fc.constantFrom('lnbc', 'lnbcrt10n', 'lntbs1', 'lntb5p', 'ln', 'bc')
  fc.assert(
    fc.property(prefixes, words, (prefix, data) => only(bech32.encode(prefix, data, false))),
    { numRuns: 500 }
  )
  const signature = [...bech32.toWords(randomBytes(65))]
  const good = bech32.decode(encodeInvoice(TERMS, KEY) as `${string}1${string}`, false).words // as above
  t.throws(
    () =>
      decodeInvoice(
        bech32.encode('lnbcrt100n', [...good.slice(0, -104), ...signature.slice(0, 100), 31, 31, 31, 31], false)
      ),
    InvoiceError
  )
  fc.assert(
    fc.property(fc.nat(good.length - 1), fc.integer({ min: 0, max: 31 }), (index, word) => {
      const edited = [...good]
      edited[index] = word
      try {
        decodeInvoice(bech32.encode('lnbcrt100n', edited, false))
      } catch (error) {
        if (!(error instanceof InvoiceError)) throw error
      }
    }),
    { numRuns: 150 }
  )
})
