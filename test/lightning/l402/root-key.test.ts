import { randomBytes } from 'node:crypto'
import t from 'tap'
import { TokenKeyRing } from '../../../src/lightning/l402/root-key.ts'

const OLD = Buffer.alloc(32, 1)
const NEW = Buffer.alloc(32, 2)

const hex = (bytes: Uint8Array | null | undefined) =>
  bytes === null || bytes === undefined ? null : Buffer.from(bytes).toString('hex')

t.test('a root key depends on the token id and the master, and on nothing else', async t => {
  const ring = new TokenKeyRing(NEW)
  const one = ring.newTokenId(Buffer.alloc(28, 7))
  const other = ring.newTokenId(Buffer.alloc(28, 8))
  t.equal(ring.rootKey(one)?.length, 32)
  t.equal(hex(ring.rootKey(one)), hex(new TokenKeyRing(NEW).rootKey(one)))
  t.not(hex(ring.rootKey(one)), hex(ring.rootKey(other)))
})

t.test('the token id names its generation in its first four bytes', async t => {
  const ring = new TokenKeyRing(NEW, [OLD])
  const tokenId = ring.newTokenId(randomBytes(28))
  t.equal(tokenId.length, 32)
  t.equal(hex(tokenId.subarray(0, 4)), ring.currentGeneration)
  t.equal(ring.generationOf(tokenId), ring.currentGeneration)
  t.not(hex(ring.newTokenId(randomBytes(28))), hex(tokenId))
  t.throws(() => ring.newTokenId(randomBytes(27)), { code: 'BG_MASTER_SECRET' })
})

t.test('after a rotation the old tokens verify until their master is removed', async t => {
  const before = new TokenKeyRing(OLD)
  const tokenId = before.newTokenId(randomBytes(28))
  const key = hex(before.rootKey(tokenId))
  const rotated = new TokenKeyRing(NEW, [OLD])
  t.equal(hex(rotated.rootKey(tokenId)), key)
  t.not(rotated.currentGeneration, before.currentGeneration)
  t.equal(new TokenKeyRing(NEW).rootKey(tokenId), null)
  t.same(rotated.generations, [new TokenKeyRing(NEW).currentGeneration, before.currentGeneration])
})

t.test('a token id of unknown generation or wrong length has no root key', async t => {
  const ring = new TokenKeyRing(NEW)
  t.equal(ring.rootKey(Buffer.alloc(32)), null)
  t.equal(ring.rootKey(ring.newTokenId(randomBytes(28)).subarray(0, 31)), null)
})

t.test('purposes and generations give unrelated keys', async t => {
  const ring = new TokenKeyRing(NEW, [OLD])
  const [current, previous] = ring.paymentIdKeys
  t.equal(current.generation, ring.currentGeneration)
  t.equal(current.key.length, 32)
  const keys = [
    hex(current.key),
    hex(previous?.key),
    hex(ring.deriveKey('a')),
    hex(ring.deriveKey('b')),
    hex(ring.deriveKey('a', previous?.generation)),
    hex(ring.deriveKey('payment-id')),
    hex(ring.deriveKey('macaroon'))
  ]
  t.equal(new Set(keys).size, keys.length)
  t.equal(hex(ring.deriveKey('a')), hex(new TokenKeyRing(NEW).deriveKey('a')))
  t.equal(ring.deriveKey('a', 'ffffffff'), null)
})

t.test('a short or repeated master is refused, and the message does not hold it', async t => {
  t.throws(() => new TokenKeyRing(Buffer.alloc(31)), { code: 'BG_MASTER_SECRET' })
  t.throws(() => new TokenKeyRing(NEW, [OLD, Buffer.from(NEW)]), { message: /listed twice/ })
})

t.test('the ring keeps its own copy of a master', async t => {
  const master = Buffer.from(NEW)
  const ring = new TokenKeyRing(master)
  const tokenId = ring.newTokenId(Buffer.alloc(28))
  const key = hex(ring.rootKey(tokenId))
  master.fill(0)
  t.equal(hex(ring.rootKey(tokenId)), key)
})
