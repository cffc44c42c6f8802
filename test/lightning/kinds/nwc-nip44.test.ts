import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { Conversation, UndecryptableError } from '../../../src/lightning/kinds/nwc/conversation.ts'
import { publicKeyOf } from '../../../src/lightning/kinds/nwc/event.ts'
import {
  conversationKey,
  decrypt,
  encrypt,
  Nip44Error,
  paddedLength,
  sharedX
} from '../../../src/lightning/kinds/nwc/conversation.ts'

const hex = (text: string) => Buffer.from(text, 'hex')
const one = `${'0'.repeat(63)}1`
const two = `${'0'.repeat(63)}2`

t.test('the published vectors of NIP-44 come out', async t => {
  const shared = 'c41c775356fd92eadc63ff5a0dc1da211b268cbea22316767095b2871ea1412d'
  for (const [secret, publicKey, wanted] of [
    [one, publicKeyOf(two), shared],
    [two, publicKeyOf(one), shared],
    [
      '315e59ff51cb9209768cf7da80791ddcaae56ac9775eb25b6dee1234bc5d2268',
      'c2f9d9948dc8c7c38321e4b85c8558872eafa0641cd269db76848a6073e69133',
      '3dfef0ce2a4d80a25e7a328accf73448ef67096f65f79588e358d9a0eb9013f1'
    ]
  ] as const)
    t.equal(conversationKey(sharedX(hex(secret), hex(publicKey))).toString('hex'), wanted)
  const message =
    'AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABee0G5VSK0/9YypIObAtDKfYEAjD35uVkHyB0F4DwrcNaCXlCWZKaArsGrY6M9wnuTMxWfp1RTN9Xga8no+kF5Vsb'
  t.equal(encrypt('a', hex(shared), hex(one)), message)
  t.equal(decrypt(message, hex(shared)), 'a')
  for (const [length, wanted] of [
    [16, 32],
    [32, 32],
    [33, 64],
    [37, 64],
    [65, 96],
    [100, 128],
    [200, 224],
    [320, 320],
    [383, 384],
    [400, 448],
    [515, 640],
    [700, 768],
    [900, 1024],
    [1020, 1024],
    [65_535, 65_536]
  ] as const)
    t.equal(paddedLength(length), wanted, String(length))
})

t.test('invalid keys have nothing in common', async t => {
  const none = 'f'.repeat(64)
  const order = 'fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141'
  const off = '1234567890abcdef1234567890abcdef1234567890abcdef1234567890abcdef'
  for (const [secret, publicKey] of [
    [none, publicKeyOf(one)],
    ['0'.repeat(64), publicKeyOf(one)],
    [order, publicKeyOf(one)],
    [one, none],
    [two, off]
  ] as const)
    t.throws(() => conversationKey(sharedX(hex(secret), hex(publicKey))))
})

t.test('any text of 1 to 65,535 bytes round-trips, and other lengths are refused', async t => {
  const key = randomBytes(32)
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 600 }), text => {
      t.equal(decrypt(encrypt(text, key), key), text)
    }),
    { numRuns: 50 }
  )
  const longest = 'x'.repeat(65_535)
  t.equal(decrypt(encrypt(longest, key), key), longest)
  for (const text of ['', 'x'.repeat(65_536)]) t.throws(() => encrypt(text, key), Nip44Error)
})

t.test('a modified or malformed message is refused', async t => {
  const key = randomBytes(32)
  const message = encrypt('x'.repeat(40), key)
  const bytes = Buffer.from(message, 'base64')
  for (let at = 0; at < bytes.length; at++) {
    const changed = Buffer.from(bytes)
    changed[at] = (changed[at] ?? 0) ^ 1
    t.throws(() => decrypt(changed.toString('base64'), key), Nip44Error, `byte ${at}`)
  }
  for (const text of [
    '',
    'a'.repeat(131),
    `#${message.slice(1)}`,
    `${message.slice(0, 20)},${message.slice(21)}`,
    message.slice(0, -4),
    `${message}AAAA`,
    'A'.repeat(90_000)
  ])
    t.throws(() => decrypt(text, key), Nip44Error, text.slice(0, 30))
  t.throws(() => decrypt(message, randomBytes(32)), Nip44Error, 'another key')
})

t.test('messages of NIP-04 are read and written as other implementations do', async t => {
  const sender = '91ba716fa9e7ea2fcbad360cf4f8e0d312f73984da63d90f524ad61a6a1e7dbe'
  const recipient = '96f6fa197aa07477ab88f6981118466ae3a982faab8ad5db9d5426870c73d220'
  const ours = new Conversation(recipient, publicKeyOf(sender))
  // Made by go-nostr.
  const message = 'zJxfaJ32rN5Dg1ODjOlEew==?iv=EV5bUjcc4OX2Km/zPp4ndQ=='
  t.equal(ours.decrypt(message), 'nanana')
  const theirs = new Conversation(sender, publicKeyOf(recipient))
  const written = theirs.encrypt('{"method":"get_info"}', 'nip04')
  t.match(written, /^[A-Za-z0-9+/]+={0,2}\?iv=[A-Za-z0-9+/]{22}==$/)
  t.equal(ours.decrypt(written), '{"method":"get_info"}')
  for (const text of [
    '?iv=',
    `AAAA?iv=${'A'.repeat(22)}==`,
    message.replace('ndQ', 'nd'),
    `${message}\n`,
    `${'AAAA'.repeat(30_000)}${message}`
  ])
    t.throws(() => ours.decrypt(text), UndecryptableError, text.slice(0, 30))
})
