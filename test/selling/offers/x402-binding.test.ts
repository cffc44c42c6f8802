/**
 * What a gateway binds x402 invoices to, by the published vectors (x402-foundation/x402,
 * specs/schemes/exact/vectors/exact_lnbtc.json): `http_server_adapter`, the addresses of `http_binding`, and
 * `mcp_binding`. Left out: bound metadata and headers other than Content-Type, since this gateway binds none.
 */
import t from 'tap'
import { mcpBinding } from '../../../src/lightning/codecs/x402.ts'
import { readMessages } from '../../../src/selling/rpc/message.ts'
import { defaultYaml, startGateway } from '../../support/gateway.ts'
import { RawClient } from '../../support/raw-client.ts'
import { countingUpstream } from '../../security/shop.ts'

const ARTICLE_A = '0d6623f775e025501fa7f0a30b54da25aad62b6ccfe35c85da38016711e6c018'
const HOST = 'api.example.com'
const MALFORMED = [
  'api.example.com/article/A?q=',
  'api.example.com?query=',
  'api.example.com#fragment',
  'api.example.com\\other',
  'user@api.example.com',
  'api.example.com:bad',
  'api.example.com:65536',
  'api.example.com%zz',
  'foo[::1]bar',
  ''
]

t.test('http:1: the published requests are bound as published, or by another scheme', async t => {
  const upstream = await countingUpstream(t)
  const open = async (publicUrl: string): Promise<(target: string, lines: readonly string[]) => Promise<unknown>> => {
    const gateway = await startGateway(t, {
      env: { PUBLIC_URL: publicUrl },
      yaml: defaultYaml({
        replace: [
          ['chains:\n', 'payment: { schemes: [ l402, payment, x402 ], maxOutstanding: { address: 1000 } }\nchains:\n'],
          [
            'routes:\n',
            `routes:\n  - { match: { path: [ /article/*, / ] }, price: 7 sats, chain: paid, upstream: { url: "${upstream.origin}" } }\n`
          ]
        ]
      })
    })
    return async (target, lines) => {
      const raw = await RawClient.connect(Number(new URL(gateway.url).port))
      raw.send(`GET ${target} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`)
      const response = await raw.response('GET')
      raw.socket.destroy()
      const header = response.header('payment-required')
      if (header === null || header === undefined) return response.status
      const { accepts } = JSON.parse(Buffer.from(header, 'base64').toString()) as {
        accepts: ReadonlyArray<{ extra: { requestHash: string } }>
      }
      return accepts[0]?.extra.requestHash
    }
  }
  const hash = await open(`https://${HOST}`)
  const host = `Host: ${HOST}`
  for (const [target, wanted] of [
    ['/article/A', ARTICLE_A],
    ['/article/B', '4a99860f75eed1ea8178a5db488e044173bc570c8a6210f2c8590cdf8622d509'],
    ['/?a=1&b=2', '4877f49a336836be73dbabca1ced250e5280690682dd2e97ec1805f96faff277'],
    ['/?b=2&a=1', 'a061f00271c2e7b18393acf8c6283b9d3e27d0abecc957576dc6dd7f481432dc'],
    ['/article/A?x=%zz', 402],
    ['/article/A?x=%2', 402]
  ] as const)
    t.equal(await hash(target, [host]), wanted, target)
  for (const [lines, wanted] of [
    [['Host: API.EXAMPLE.COM'], ARTICLE_A],
    [[`Host: ${HOST}:443`], ARTICLE_A],
    [['Host: internal:8080', `X-Forwarded-Host: ${HOST}, proxy:8080`], ARTICLE_A],
    [[host, 'X-Forwarded-Proto: https, http'], ARTICLE_A],
    [[host, 'X-Forwarded-Proto: https://api.example.com/path?'], 402],
    [[host, 'X-Forwarded-Proto: https, '], 402],
    [[host, 'X-Forwarded-Host: bad/path'], 402],
    [['Host: other.example.com'], 402],
    [['Host: evil.example'], 402],
    [[`Host: ${HOST}:80`], 402],
    [[`X-Forwarded-Host: ${HOST}`], 400],
    ...MALFORMED.map(value => [[`Host: ${value}`], 400] as const),
    ...MALFORMED.map(value => [[host, `X-Forwarded-Host: ${value}`], 402] as const)
  ] as const)
    t.equal(await hash('/article/A', lines), wanted, lines.join(' '))
  const ipv6 = await open('https://[::1]:8443')
  t.equal(
    await ipv6('/article/A?x=%2F', ['Host: [::1]:8443']),
    '980a3a54eae008e4be8ee2d2b98483892f1dc7bd7e52aac5a434ff2394ca2dc7'
  )
})

function hashOfCall(params: string, server = 'https://api.example.com/mcp') {
  const body = Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`)
  const read = readMessages(body, { protocol: 'mcp', toolErrors: 'sold', tools: { '*': 1 } }, null, true)
  if ('code' in read) return null
  const [message] = read.messages
  if (message?.kind !== 'priced') return null
  const { tool = null } = message.call
  return tool === null ? null : mcpBinding({ server, ...tool }).requestHash
}

t.test('mcp:1: the published calls have the published hashes, or are not bound', async t => {
  for (const [params, wanted] of [
    [
      '{"name":"get_article","arguments":{"article":"A"}}',
      '03941bfedc6af8a09b2f459fe83470284a76a8c75801caa9e1487a9276a693f4'
    ],
    [
      '{"name":"get_article","arguments":{"article":"B"}}',
      'b3e425970d64cd4f08fc4d57a11b76da59ce6a5760d92687398c91f063120678'
    ],
    [
      '{"name":"delete_article","arguments":{"article":"A"}}',
      '3a52bbf19dda8b5765a27246b12e805770298273b48526956c421f02fe043455'
    ],
    [
      '{"name":"get_article","arguments":{"b":2,"a":1}}',
      'aa5886940da79b269a85818a7b1ed98f18c2925125ee734cc7333a199dfce606'
    ],
    [
      '{"name":"get_article","arguments":{"a":1,"b":2},"_meta":{"progressToken":"new","x402/payment":{"preimage":"proof"}}}',
      'aa5886940da79b269a85818a7b1ed98f18c2925125ee734cc7333a199dfce606'
    ],
    ['{"name":"get_article"}', 'c4ba2588ec820d46601685d57efa5b56425af89a0e075b54d2096bd10e549477'],
    ['{"name":"get_article","arguments":{}}', 'c4ba2588ec820d46601685d57efa5b56425af89a0e075b54d2096bd10e549477'],
    [
      '{"name":"get_article","arguments":{"x":9007199254740991}}',
      'bd755cb7da899cc3e9cda1821c4cf1f368704b0e7368eb5c00dd224cc6f61315'
    ],
    [
      '{"name":"get_article","arguments":{"title":"ナンセンス"}}',
      '9fb4614b67a74e12a9228595fe0d4d1c0bb9638e08192e307d2882cebed8898e'
    ],
    ['{"name":"get_article","arguments":null}', null],
    ['{"name":"get_article","arguments":[]}', null],
    ['{"name":"get_article","_meta":null}', null],
    ['{"name":""}', null],
    ['{"name":"get_article","arguments":{"x":"\\ud800"}}', null],
    // Open in the vectors: these are refused here.
    ['{"name":"get_article","arguments":{"x":9007199254740993}}', null],
    ['{"name":"get_article","arguments":{"x":18446744073709551616}}', null]
  ] as const)
    t.equal(hashOfCall(params), wanted, params)
  t.equal(
    hashOfCall('{"name":"get_article","arguments":{"article":"A"}}', 'https://other.example.com/mcp'),
    '96903c29186c6aabc95e48abafd8ce3ad32b4060f5d5bf22cf75f3fbfe816e45'
  )
})
