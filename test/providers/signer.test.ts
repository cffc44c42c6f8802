import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { secp256k1 } from '@noble/curves/secp256k1.js'
import t from 'tap'
import { decodeInvoice, type InvoiceTerms } from '../../src/lightning/bolt11.ts'
import { loadNodeKey, NodeKeyError } from '../../src/providers/sandbox/node-key.ts'
import { InvoiceSigner, SignerStopped } from '../../src/providers/sandbox/signer.ts'

const key = Buffer.alloc(32, 7)
const terms: InvoiceTerms = {
  network: 'regtest',
  amountMsat: 10_000n,
  paymentHash: 'ab'.repeat(32),
  paymentSecret: 'cd'.repeat(32),
  timestamp: 1_795_000_000,
  expirySeconds: 600,
  description: 'a quote'
}

t.test("invoices are signed in another thread with the node's own key", async t => {
  const signer = new InvoiceSigner(key)
  t.teardown(() => signer.close())
  const invoices = await Promise.all([signer.sign(terms), signer.sign({ ...terms, amountMsat: 25_000n })])
  const decoded = invoices.map(invoice => decodeInvoice(invoice))
  t.same(
    decoded.map(invoice => invoice.amountSats),
    [10, 25],
    'each call gets its own invoice'
  )
  for (const invoice of decoded) t.equal(invoice.payee, Buffer.from(secp256k1.getPublicKey(key)).toString('hex'))
  t.equal(decoded[0]?.network, 'regtest')
  t.ok(invoices[0]?.startsWith('lnbcrt'))
})

t.test('terms that cannot be written are an error of that call alone', async t => {
  const signer = new InvoiceSigner(key)
  t.teardown(() => signer.close())
  await t.rejects(signer.sign({ ...terms, paymentHash: 'nonsense' }), /64 lower-case hex/)
  t.ok(await signer.sign(terms))
})

t.test('a closed signer refuses, and what it had begun does not hang', async t => {
  const signer = new InvoiceSigner(key)
  const begun = signer.sign(terms)
  begun.catch(() => {})
  await signer.close()
  await t.rejects(begun, SignerStopped)
  await t.rejects(signer.sign(terms), SignerStopped)
})

t.test('the node key is made once, readable by its owner alone, and read again', t => {
  const file = join(t.testdir(), 'data', 'sandbox-node.key')
  const made = loadNodeKey(file)
  t.equal(made.length, 32)
  t.equal(statSync(file).mode & 0o777, 0o600)
  t.same(loadNodeKey(file), made)
  chmodSync(file, 0o644)
  t.same(loadNodeKey(file), made)
  t.equal(statSync(file).mode & 0o777, 0o600, 'a mode that was too open is set right')
  t.end()
})

t.test('a file that holds no key is refused and left as it is', t => {
  const dir = t.testdir()
  mkdirSync(join(dir, 'data'))
  for (const text of ['', 'hello', '00'.repeat(32), 'ff'.repeat(32)]) {
    const file = join(dir, 'data', 'sandbox-node.key')
    writeFileSync(file, text)
    t.throws(() => loadNodeKey(file), NodeKeyError, JSON.stringify(text))
    t.equal(readFileSync(file, 'utf8'), text)
  }
  t.end()
})
