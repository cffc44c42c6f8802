import { createHmac, hkdfSync, randomBytes } from 'node:crypto'
import * as fc from 'fast-check'
import oracle from 'macaroon'
import t from 'tap'
import { equalDigests, hkdfSha256, hmacChain, hmacSha256 } from '../../../src/lightning/codecs/hmac.ts'
import {
  addCaveat,
  decodeIdentifier,
  decodeMacaroon,
  decodeMacaroonBase64,
  decodeMacaroonHex,
  encodeIdentifier,
  encodeMacaroon,
  MacaroonError,
  macaroonToBase64,
  MAX_CAVEATS,
  MAX_MACAROON_BYTES,
  mintMacaroon,
  verifySignature
} from '../../../src/lightning/l402/macaroon.ts'

const KEY = Buffer.from('this is the key')
const BARE = 'AgETaHR0cDovL2V4YW1wbGUub3JnLwIFa2V5aWQAAAYgfN7nklEcW8b1KEhYBd_psk54XijiqZMB-dcRxgnjjvc'
const ACCOUNT =
  'AgETaHR0cDovL2V4YW1wbGUub3JnLwIFa2V5aWQAAhRhY2NvdW50ID0gMzczNTkyODU1OQAABiD1SAf23G7fiL8PcwazgiVio2JTPb9zObphdl2kvSWdhw'

function refusal(run: () => unknown) {
  try {
    run()
  } catch (error) {
    if (error instanceof MacaroonError) return error
    throw error
  }
  throw new Error('nothing was refused')
}

const mint = (caveats: string[]) => mintMacaroon(KEY, 'http://example.org/', Buffer.from('keyid'), caveats)

t.test('the published vectors are written byte for byte', async t => {
  t.equal(Buffer.from(encodeMacaroon(mint([]))).toString('base64url'), BARE)
  t.equal(Buffer.from(encodeMacaroon(mint(['account = 3735928559']))).toString('base64url'), ACCOUNT)
  t.ok(verifySignature(decodeMacaroonBase64(ACCOUNT), KEY))
})

t.test('base64 is read in every spelling that clients send, and in no other', async t => {
  const bytes = Buffer.from(ACCOUNT, 'base64url')
  const standard = bytes.toString('base64')
  for (const text of [
    ACCOUNT,
    standard,
    standard.replace(/=+$/, ''),
    ACCOUNT.padEnd(Math.ceil(ACCOUNT.length / 4) * 4, '=')
  ]) {
    t.ok(verifySignature(decodeMacaroonBase64(text), KEY), text.slice(-6))
  }
  t.ok(verifySignature(decodeMacaroonHex(bytes.toString('hex')), KEY))
  t.ok(verifySignature(decodeMacaroonHex(bytes.toString('hex').toUpperCase()), KEY))
  for (const bad of [
    '',
    '=',
    `${standard}=`,
    standard.replace('A', ' '),
    `${ACCOUNT}-+`,
    'A',
    `é${standard}`,
    `${ACCOUNT}\n`
  ]) {
    t.throws(() => decodeMacaroonBase64(bad), MacaroonError, JSON.stringify(bad))
  }
  const whole =
    [1, 2, 3]
      .map(length => macaroonToBase64(mintMacaroon(KEY, '', Buffer.alloc(length, 1), [])))
      .find(text => !text.endsWith('=')) ?? ''
  t.ok(decodeMacaroonBase64(whole))
  t.equal(refusal(() => decodeMacaroonBase64(`${whole}A`)).code, 'encoding', 'a dangling character is not passed over')
  for (const bad of ['0', 'zz', 'zz00']) t.equal(refusal(() => decodeMacaroonHex(bad)).code, 'encoding', bad)
  t.equal(refusal(() => decodeMacaroonHex('0201')).code, 'format')
})

t.test('an independent implementation reads and verifies what we sign', async t => {
  const identifier = encodeIdentifier('ab'.repeat(32), Buffer.alloc(32, 5))
  const rootKey = Buffer.alloc(32, 9)
  const caveats = ['services=boltgate:0', 'path=/a/ü', `long=${'x'.repeat(300)}`]
  const theirs = oracle.importMacaroon(encodeMacaroon(mintMacaroon(rootKey, 'l402', identifier, caveats)))
  t.same(Buffer.from(theirs.identifier), identifier)
  t.equal(theirs.location, 'l402')
  const seen: string[] = []
  theirs.verify(rootKey, (caveat: string) => {
    seen.push(caveat)
    return null
  })
  t.same(seen, caveats)
  t.throws(() => {
    theirs.verify(Buffer.alloc(32, 8), () => null)
  })
})

t.test('the identifier is 66 raw bytes: version, payment hash, token id', async t => {
  const tokenId = randomBytes(32)
  const identifier = encodeIdentifier('cd'.repeat(32), tokenId)
  t.equal(identifier.length, 66)
  const read = decodeIdentifier(identifier)
  t.equal(read.paymentHash, 'cd'.repeat(32))
  t.same(Buffer.from(read.tokenId), tokenId)
  t.equal(refusal(() => decodeIdentifier(identifier.subarray(1))).code, 'identifier')
  t.equal(refusal(() => decodeIdentifier(Buffer.concat([Buffer.of(0, 1), identifier.subarray(2)]))).code, 'identifier')
  t.throws(() => encodeIdentifier('cd', tokenId), MacaroonError)
  t.throws(() => encodeIdentifier('zz'.repeat(32), tokenId), MacaroonError)
  t.throws(() => encodeIdentifier('cd'.repeat(32), tokenId.subarray(1)), MacaroonError)
})

t.test('a changed byte, a dropped or reordered caveat and another key all fail', async t => {
  const good = mint(['a=1', 'b=2'])
  t.notOk(verifySignature(good, Buffer.from('this is the kez')))
  t.notOk(verifySignature({ ...good, caveats: good.caveats.slice(0, 1) }, KEY))
  t.notOk(verifySignature({ ...good, caveats: good.caveats.toReversed() }, KEY))
  t.notOk(verifySignature({ ...good, identifier: Buffer.from('keyie') }, KEY))
  t.notOk(verifySignature({ ...good, signature: good.signature.subarray(1) }, KEY))
  const bytes = Buffer.from(encodeMacaroon(good))
  const inLocation = (index: number) => index > 2 && index < 22 // the location is the one part that no signature covers
  for (let index = 0; index < bytes.length; index++) {
    if (inLocation(index)) continue
    const edited = Buffer.from(bytes)
    edited[index] = (edited[index] ?? 0) ^ 1
    let verified: boolean
    try {
      verified = verifySignature(decodeMacaroon(edited), KEY)
    } catch (error) {
      if (!(error instanceof MacaroonError)) throw error
      verified = false
    }
    if (verified) t.fail(`byte ${index} can be changed`)
  }
})

t.test('a holder can narrow a token without the key', async t => {
  const narrowed = addCaveat(mint(['a=1']), 'b=2')
  t.same(encodeMacaroon(narrowed), encodeMacaroon(mint(['a=1', 'b=2'])))
  t.ok(verifySignature(decodeMacaroonBase64(macaroonToBase64(narrowed)), KEY))
})

t.test('other formats than a first-party macaroon of version 2 are refused by name', async t => {
  const hex = (text: string) => Buffer.from(text.replaceAll(' ', ''), 'hex')
  const signature = `06 20 ${'00'.repeat(32)}`
  const code = (text: string) => refusal(() => decodeMacaroon(hex(text))).code
  t.ok(decodeMacaroon(hex(`02 02 01 61 00 00 ${signature}`)))
  t.ok(decodeMacaroon(hex(`02 02 01 61 00 01 01 62 02 01 63 00 00 ${signature}`)), 'a caveat may carry a location')
  t.equal(code(`02 02 01 61 00 01 01 62 02 01 63 04 01 64 00 00 ${signature}`), 'third-party')
  t.equal(code(`02 02 01 61 00 02 01 63 04 01 64 00 00 ${signature}`), 'third-party')
  const bad: Record<string, string> = {
    'version 1 text': '3030',
    nothing: '',
    'no identifier': `02 00 00 ${signature}`,
    'fields descend': `02 02 01 61 01 01 62 00 00 ${signature}`,
    'unknown field': `02 02 01 61 03 01 62 00 00 ${signature}`,
    'bytes after the signature': `02 02 01 61 00 00 ${signature} 00`,
    'no signature': '02 02 01 61 00 00',
    'short signature': `02 02 01 61 00 00 06 1f ${'00'.repeat(31)}`,
    'length past the end': '02 02 7f 61',
    'varint that never ends': '02 ff ff ff ff ff 00',
    'varint with needless bytes': `02 02 81 00 61 00 00 ${signature}`,
    'type with needless bytes': `02 82 00 01 61 00 00 ${signature}`,
    'location that is not UTF-8': `02 01 01 ff 02 01 61 00 00 ${signature}`
  }
  for (const [what, text] of Object.entries(bad)) t.equal(code(text), 'format', what)
  t.match(refusal(() => decodeMacaroon(hex('02 ff ff ff ff ff 00'))).message, 'byte 4 is too large')
})

t.test('sizes are limited when reading and when writing', async t => {
  const many = Array.from({ length: MAX_CAVEATS + 1 }, (_, index) => `c=${index}`)
  t.equal(refusal(() => encodeMacaroon(mint(many))).code, 'size')
  t.ok(decodeMacaroon(encodeMacaroon(mint(many.slice(1)))))
  t.equal(refusal(() => encodeMacaroon(mint(['x'.repeat(MAX_MACAROON_BYTES)]))).code, 'size')
  t.equal(refusal(() => decodeMacaroon(Buffer.alloc(MAX_MACAROON_BYTES + 1, 2))).code, 'size')
  t.equal(refusal(() => decodeMacaroonBase64('A'.repeat(30_000))).code, 'size')
  t.equal(refusal(() => decodeMacaroonHex('0'.repeat(40_000))).code, 'size')
  const caveat = Buffer.from('0201610002', 'hex')
  const flood = Buffer.concat([
    Buffer.from('0202016100', 'hex'),
    ...Array.from({ length: 100 }, () => Buffer.from('02016300', 'hex')),
    caveat
  ])
  t.equal(refusal(() => decodeMacaroon(flood)).code, 'size')
})

t.test('any macaroon is encoded as it was decoded', async () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 200 }),
      fc.string({ unit: 'grapheme', maxLength: 20 }),
      fc.uint8Array({ minLength: 1, maxLength: 100 }),
      fc.array(fc.string({ unit: 'grapheme', maxLength: 300, size: 'max' }), { maxLength: 8 }),
      (key, location, identifier, caveats) => {
        const made = mintMacaroon(key, location, identifier, caveats)
        const read = decodeMacaroonBase64(macaroonToBase64(made))
        return (
          verifySignature(read, key) &&
          read.location === location &&
          Buffer.compare(read.identifier, identifier) === 0 &&
          read.caveats.every((caveat, index) => Buffer.from(caveat).toString() === caveats[index]) &&
          read.caveats.length === caveats.length
        )
      }
    )
  )
})

t.test('no bytes make the decoder throw anything but a MacaroonError', async () => {
  const only = (run: () => unknown) => {
    try {
      run()
    } catch (error) {
      if (!(error instanceof MacaroonError)) throw error
    }
  }
  const small = fc.array(fc.constantFrom(0, 1, 2, 4, 6, 0x20, 0x80, 0xff), { maxLength: 60 })
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300, size: 'max' }), bytes => only(() => decodeMacaroon(bytes))),
    { numRuns: 300 }
  )
  fc.assert(
    fc.property(small, bytes => only(() => decodeMacaroon(Uint8Array.from([2, ...bytes])))),
    { numRuns: 1000 }
  )
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), text => only(() => decodeMacaroonBase64(text))),
    { numRuns: 300 }
  )
})

t.test('a chain of HMACs agrees with node:crypto, whatever was hashed before it', async t => {
  const bytes = fc.uint8Array({ maxLength: 140, size: 'max' })
  fc.assert(
    fc.property(
      bytes,
      fc.array(fc.uint8Array({ maxLength: 1100, size: 'max' }), { maxLength: 9 }),
      bytes,
      (key, messages, other) => {
        hmacSha256(other, key)
        const expected = messages.reduce(
          (before, message) => createHmac('sha256', before).update(message).digest(),
          Buffer.from(key)
        )
        return equalDigests(hmacChain(key, messages), expected)
      }
    ),
    { numRuns: 500 }
  )
  t.same(hmacChain(KEY, []), Buffer.from(KEY), 'no message: the key')
})

t.test('HMAC and HKDF agree with node:crypto at every length', async t => {
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 140, size: 'max' }),
      fc.uint8Array({ maxLength: 1500, size: 'max' }),
      (key, message) => equalDigests(hmacSha256(key, message), createHmac('sha256', key).update(message).digest())
    )
  )
  for (const length of [0, 1023, 1024, 1025, 5000]) {
    const message = randomBytes(length)
    t.same(hmacSha256(KEY, message), createHmac('sha256', KEY).update(message).digest(), String(length))
  }
  fc.assert(
    fc.property(
      fc.uint8Array({ minLength: 1, maxLength: 80 }),
      fc.uint8Array({ maxLength: 80 }),
      fc.uint8Array({ maxLength: 80 }),
      (secret, salt, info) =>
        equalDigests(hkdfSha256(secret, salt, info), Buffer.from(hkdfSync('sha256', secret, salt, info, 32)))
    )
  )
})
