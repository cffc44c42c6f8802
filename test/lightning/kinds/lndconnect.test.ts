import fc from 'fast-check'
import t from 'tap'
import { AddressKeyError } from '../../../src/lightning/provider-calls/address-key.ts'
import { readLndConnect } from '../../../src/lightning/kinds/lnd/folder.ts'
import { selfSigned } from '../../fakes/certificate.ts'
import { lndConnect } from '../../fakes/lnd.ts'

const { certificate } = selfSigned({ names: ['localhost', 'node.example.com', '127.0.0.1'] })
const macaroon = Buffer.from('0201036c6e6402f801030a10', 'hex')
const cert = Buffer.from(certificate).toString('base64url')
const secret = macaroon.toString('base64url')

/** The refusal of a text; it must not hold the macaroon, which errors are logged with. */
function refusal(text: string) {
  try {
    readLndConnect(text)
  } catch (error) {
    if (error instanceof AddressKeyError) return error.message
    throw error
  }
  return 'accepted'
}

t.test('host, certificate and macaroon come out as lnd wants them', async t => {
  const read = readLndConnect(lndConnect('Node.Example.com:8080', certificate, macaroon))
  t.same(
    { ...read, macaroon: read.macaroon.reveal() },
    { origin: 'https://node.example.com:8080', certificate, servername: null, macaroon: macaroon.toString('hex') }
  )
  t.notMatch(JSON.stringify(read), macaroon.toString('hex'))
})

t.test('the certificate may be PEM, padded, or left out for a public authority', async t => {
  t.equal(readLndConnect(`lndconnect://node.example.com:8080?cert=${cert}&macaroon=${secret}`).certificate, certificate)
  t.equal(
    readLndConnect(
      `lndconnect://node.example.com:8080/?macaroon=${secret}&cert=${Buffer.from(certificate).toString('base64').replaceAll('+', '-').replaceAll('/', '_')}`
    ).certificate,
    certificate
  )
  const plain = Buffer.from([2, 251, 239, 190, 255, 255]).toString('base64')
  t.equal(readLndConnect(`lndconnect://node.example.com:8080?macaroon=${plain}`).macaroon.reveal(), '02fbefbeffff')
  t.match(readLndConnect(`lndconnect://node.example.com:443?macaroon=${secret}`), {
    origin: 'https://node.example.com:443',
    certificate: null,
    servername: null
  })
})

t.test('a host that the certificate does not hold is checked by a name that it does', async t => {
  const served = (host: string, pem: string) => readLndConnect(lndConnect(host, pem, macaroon)).servername
  t.equal(served('other.example.org:8080', certificate), 'localhost')
  t.equal(served('203.0.113.7:8080', certificate), 'localhost')
  t.equal(served('[2001:db8::1]:8080', certificate), 'localhost')
  t.equal(served('127.0.0.1:8080', certificate), null)
  t.equal(
    served('other.example.org:8080', selfSigned({ names: ['127.0.0.1'] }).certificate),
    null,
    'without a name there is nothing to ask for'
  )
})

// What holds of every key with an address is in address-key.test.ts.
t.test('errors are reported, without the macaroon', async t => {
  const cases: ReadonlyArray<readonly [string, RegExp]> = [
    ['', /must have the form lndconnect:/],
    [`https://node.example.com:8080?macaroon=${secret}`, /must have the form/],
    [`lndconnect://node.example.com:8080/path?macaroon=${secret}`, /must have the form/],
    [`lndconnect://node.example.com?macaroon=${secret}`, /host and port/],
    [`lndconnect://:8080?macaroon=${secret}`, /host and port/],
    [`lndconnect://node.example.com:99999?macaroon=${secret}`, /host and port/],
    [`lndconnect://node.example.com:8080?cert=${cert}`, /no macaroon/],
    [`lndconnect://node.example.com:8080?macaroon=`, /macaroon in the lnd key is not base64url/],
    [`lndconnect://node.example.com:8080?macaroon=${secret}%20`, /not base64url/],
    [`lndconnect://node.example.com:8080?macaroon=${macaroon.toString('hex')}`, /not hex/],
    [`lndconnect://node.example.com:8080?cert=${secret}&macaroon=${secret}`, /not one X.509/],
    [`lndconnect://node.example.com:8080?cert=&macaroon=${secret}`, /cert in the lnd key is not base64url/],
    [
      `lndconnect://node.example.com:8080?cert=${Buffer.from(certificate + certificate).toString('base64url')}&macaroon=${secret}`,
      /not one X.509/
    ]
  ]
  for (const [text, wanted] of cases) {
    const message = refusal(text)
    t.match(message, wanted, text.slice(0, 60))
    t.notOk(message.includes(secret) || message.includes(macaroon.toString('hex')), 'no macaroon in the message')
  }
})

t.test('every macaroon and host that is written is read back', async () => {
  const label = fc.stringMatching(/^[a-z][a-z0-9]{0,10}$/)
  const host = fc.oneof(
    fc.tuple(label, label).map(parts => parts.join('.')),
    fc.ipV4(),
    fc.constant('[2001:db8::1]')
  )
  fc.assert(
    fc.property(
      host,
      fc.integer({ min: 1, max: 65535 }),
      fc.uint8Array({ maxLength: 300 }),
      fc.boolean(),
      (name, port, rest, isPinned) => {
        const bytes = Buffer.concat([Buffer.from([2]), rest])
        const read = readLndConnect(lndConnect(`${name}:${port}`, isPinned ? certificate : null, bytes))
        return (
          read.origin === `https://${name}:${port}` &&
          read.macaroon.reveal() === bytes.toString('hex') &&
          (read.certificate !== null) === isPinned
        )
      }
    )
  )
})

t.test('any other text is refused by AddressKeyError alone', async () => {
  const noise = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string().map(text => `lndconnect://${text}`),
    fc.string().map(text => `lndconnect://node.example.com:8080?${text}`),
    fc.string().map(text => `lndconnect://node.example.com:8080?macaroon=${secret}&cert=${text}`)
  )
  fc.assert(
    fc.property(noise, text => !refusal(text).includes(secret)),
    { numRuns: 200 }
  )
})
