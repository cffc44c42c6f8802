import t from 'tap'
import { decodeInvoice } from '../../../src/lightning/codecs/bolt11.ts'
import {
  EMPTY_BODY_HASH,
  exactCredential,
  exactRequired,
  httpBinding,
  mcpBinding,
  readExactCredential,
  requirementsOf,
  settlementFault,
  x402Header
} from '../../../src/lightning/codecs/x402.ts'
import { sha256 } from '../../../src/lightning/codecs/hmac.ts'

// Published: specs/schemes/exact/vectors/exact_lnbtc.json.
const INVOICE =
  'lnbc250n1pj48ugqpp54y3u9s8ylemsv8l3ewyzzu0klhujvuvmkl6llchq23vy8rzjsf0qsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygshp5p4nz8am4uqj4q8a87z3sk4x6yk4dv2mvel34epw68qqkwy0xcqvqxqzfvcqpjr4rx6ls6j5rpwknuea64evlk7yfx56wmqcer5eerekdsn9tlv6v4ex9mlz5dtm9qapl3svwlqcf7837dmjkru9z9w4h2rvm0md52w2sqxrwu5f'
const PREIMAGE = '0001020304050607080900010203040506070809000102030405060708090102'
const NOW = 1_700_000_000
const URL_A = 'https://api.example.com/article/A'
const OTHER_HASH = '4a99860f75eed1ea8178a5db488e044173bc570c8a6210f2c8590cdf8622d509'

function hashOf(method: string, url: string, body = '', headers: ReadonlyArray<readonly [string, string | null]> = []) {
  return httpBinding({ method, url, bodyHash: sha256(Buffer.from(body, 'hex')).toString('hex'), headers }).requestHash
}

t.test('x402 exact: requests have the published hashes', async t => {
  const vectors: ReadonlyArray<
    readonly [string, string, string, ReadonlyArray<readonly [string, string | null]>, string]
  > = [
    ['GET', URL_A, '', [], '0d6623f775e025501fa7f0a30b54da25aad62b6ccfe35c85da38016711e6c018'],
    ['GET', 'https://api.example.com/article/B', '', [], OTHER_HASH],
    ['POST', URL_A, '', [], 'a66ae81d2b71d1d7f852985ee9db1388df785560d57114524bf7c77512962d08'],
    ['get', URL_A, '', [], 'ae78c3c247698ef6e25d4bb27fe5aa340535bad028d9b4a0716167b239489fc6'],
    ['GET', URL_A, '78', [], 'c51115dd8855d57e7f55c2a57ef957c2c15b4acd627232c88abd0d5d1f4d0c57'],
    ['POST', URL_A, '7b2261223a317d', [], 'bb7f8350652f2332572e25e9cde535f32cac717de22f3ac05f8331d57c3bca68'],
    ['POST', URL_A, '7b2261223a20317d', [], '0807ffd5f59692e814bc38d8d3a7057632e461eb3dc0074c23fe59abc1c71362'],
    ['GET', 'https://api.example.com/%2f', '', [], 'a1d01afa1afcb018fdb18cd50de79eda4b032613636002fc2b436f8beaa2c8d1'],
    ['GET', 'https://api.example.com/%2F', '', [], 'b72e60277f6f14bab83747ac4c4e111a1257d1960288fbeac440b201fc904f8a'],
    [
      'GET',
      'https://api.example.com/?a=1&b=2',
      '',
      [],
      '4877f49a336836be73dbabca1ced250e5280690682dd2e97ec1805f96faff277'
    ],
    [
      'GET',
      'https://api.example.com/?b=2&a=1',
      '',
      [],
      'a061f00271c2e7b18393acf8c6283b9d3e27d0abecc957576dc6dd7f481432dc'
    ],
    [
      'GET',
      'https://[::1]:8443/article/A?x=%2F',
      '',
      [],
      '980a3a54eae008e4be8ee2d2b98483892f1dc7bd7e52aac5a434ff2394ca2dc7'
    ],
    ['GET', URL_A, '', [['cookie', null]], '14ad9a145b7f28cb786994fd6342aded5acd795dc5ab3bdc27b905d9c58b2337'],
    ['GET', URL_A, '', [['cookie', '']], '7770b6930fee0af113be89a84430aae74c7a3ce1cc5b06c6730feec384db7e7f'],
    ['GET', URL_A, '', [['cookie', 'a, b']], '0158d93518bd708dfb5762590fecec0999a0f1632856b22934b828001c8404ef'],
    [
      'GET',
      URL_A,
      '',
      [
        ['accept', null],
        ['content-type', 'application/json']
      ],
      '90d6e7604cd1ad486da4b335f704fa5ec58d4a0e0a2a9e465c65fce4084339a0'
    ]
  ]
  for (const [method, url, body, headers, hash] of vectors)
    t.equal(hashOf(method, url, body, headers), hash, `${method} ${url} ${body} ${JSON.stringify(headers)}`)
})

interface Payload {
  x402Version: number
  accepted: Record<string, unknown>
  payload: Record<string, unknown>
}

const binding = httpBinding({ method: 'GET', url: URL_A, bodyHash: EMPTY_BODY_HASH, headers: [] })

function settled(change: (payload: Payload, extra: Record<string, unknown>) => void, now = NOW, url = URL_A) {
  const requirements = requirementsOf(decodeInvoice(INVOICE), binding)
  const extra: Record<string, unknown> = { ...requirements.extra }
  const payload: Payload = {
    x402Version: 2,
    accepted: { ...requirements, extra },
    payload: { preimage: PREIMAGE }
  }
  change(payload, extra)
  const credential = readExactCredential(Buffer.from(JSON.stringify(payload)).toString('base64'))
  if (typeof credential === 'string') return credential
  const actual = httpBinding({ method: 'GET', url, bodyHash: EMPTY_BODY_HASH, headers: [] })
  return settlementFault(credential, requirementsOf(decodeInvoice(INVOICE), actual), now)
}

t.test('x402 exact: the published example settles until a minute after its invoice ends', async t => {
  const none = () => {}
  t.equal(settled(none), null)
  t.equal(
    settled((_payload, extra) => delete extra['assetTransferMethod']),
    null
  )
  t.equal(
    settled((_payload, extra) => (extra['clientNote'] = 'ignored')),
    null
  )
  t.equal(settled(none, NOW + 300), null)
  t.equal(settled(none, NOW + 360), null)
  t.equal(settled(none, NOW + 361), 'invalid_exact_lnbtc_invoice_expired')
  t.equal(settled(none, NOW - 60), null)
  t.equal(settled(none, NOW - 61), 'invalid_exact_lnbtc_invoice_created_in_future')
})

t.test('x402 exact: each fault has the reason of the specification', async t => {
  const inCore = (name: string, value: unknown) => settled(({ accepted }) => (accepted[name] = value))
  t.equal(inCore('scheme', 'other'), 'unsupported_scheme')
  t.equal(inCore('network', 'lnbtc:000000000933ea01ad0ee984209779ba'), 'network_mismatch')
  t.equal(inCore('amount', '1'), 'invalid_exact_lnbtc_amount_mismatch')
  t.equal(inCore('asset', 'btc'), 'invalid_exact_lnbtc_asset')
  t.equal(inCore('payTo', 'bad'), 'invalid_exact_lnbtc_pay_to_mismatch')
  t.equal(inCore('maxTimeoutSeconds', 1), 'invalid_exact_lnbtc_max_timeout_mismatch')
  const inExtra = (name: string, value: unknown) => settled((_payload, extra) => (extra[name] = value))
  t.equal(inExtra('assetTransferMethod', 'bolt12'), 'invalid_exact_lnbtc_asset_transfer_method')
  t.equal(inExtra('paymentFlow', 'later'), 'invalid_exact_lnbtc_payment_flow')
  t.equal(inExtra('invoice', undefined), 'invalid_exact_lnbtc_invoice_missing')
  t.equal(inExtra('invoice', 'lnbc1'), 'invalid_exact_lnbtc_invoice_decode_failed')
  for (const name of ['requestHash', 'requestBindingProfile', 'requestBindingParams'])
    t.equal(inExtra(name, undefined), 'invalid_exact_lnbtc_request_binding', name)
  t.equal(inExtra('requestHash', OTHER_HASH.toUpperCase()), 'invalid_exact_lnbtc_request_binding')
  t.equal(inExtra('requestBindingProfile', 'http:2'), 'invalid_exact_lnbtc_request_binding')
  for (const params of [
    {},
    [],
    { headers: [], more: 1 },
    { headers: ['Cookie'] },
    { headers: ['z', 'a'] },
    { headers: ['a', 'a'] },
    { headers: ['payment-signature'] }
  ])
    t.equal(inExtra('requestBindingParams', params), 'invalid_exact_lnbtc_request_binding', JSON.stringify(params))
  t.equal(inExtra('requestBindingParams', { headers: ['cookie'] }), 'invalid_exact_lnbtc_request_mismatch')
  t.equal(inExtra('requestHash', OTHER_HASH), 'invalid_exact_lnbtc_request_mismatch')
  const other = 'https://api.example.com/article/B'
  t.equal(
    settled(() => {}, NOW, other),
    'invalid_exact_lnbtc_request_mismatch'
  )
  t.equal(
    settled((_payload, extra) => (extra['requestHash'] = OTHER_HASH), NOW, other),
    'invalid_exact_lnbtc_invoice_request_mismatch',
    'the invoice still commits to the first article'
  )
  const toMcp = (_payload: Payload, extra: Record<string, unknown>) => {
    extra['requestBindingProfile'] = 'mcp:1'
    extra['requestBindingParams'] = { server: 'https://api.example.com/mcp', metadata: [] }
  }
  t.equal(settled(toMcp), 'invalid_exact_lnbtc_request_mismatch')
})

t.test('x402 exact: a preimage must be 32 bytes in lower-case hex that hash to the payment hash', async t => {
  const withPreimage = (preimage: unknown) => settled(({ payload }) => (payload['preimage'] = preimage))
  t.equal(withPreimage(undefined), 'invalid_exact_lnbtc_preimage_missing')
  t.equal(withPreimage('AB'.repeat(32)), 'invalid_exact_lnbtc_preimage_malformed')
  t.equal(withPreimage('ABC'), 'invalid_exact_lnbtc_preimage_malformed')
  t.equal(withPreimage('a'.repeat(63)), 'invalid_exact_lnbtc_preimage_length')
  t.equal(withPreimage(`${PREIMAGE}00`), 'invalid_exact_lnbtc_preimage_length')
  t.equal(withPreimage('00'.repeat(32)), 'invalid_exact_lnbtc_preimage_hash_mismatch')
})

t.test('x402 exact: the header of a 402 is the published requirement, with the mark of the older dialect', async t => {
  const header = x402Header(exactRequired(INVOICE, binding, null))
  t.same(JSON.parse(Buffer.from(header, 'base64').toString()), {
    x402Version: 2,
    resource: { url: URL_A },
    accepts: [
      {
        scheme: 'exact',
        network: 'lnbtc:000000000019d6689c085ae165831e93',
        amount: '25000',
        asset: 'BTC',
        payTo: '0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798',
        maxTimeoutSeconds: 300,
        extra: {
          assetTransferMethod: 'bolt11',
          paymentFlow: 'upfront',
          requestHash: '0d6623f775e025501fa7f0a30b54da25aad62b6ccfe35c85da38016711e6c018',
          requestBindingProfile: 'http:1',
          requestBindingParams: { headers: [] },
          invoice: INVOICE,
          // Not published: by it clients of the older dialect know an invoice.
          paymentMethod: 'lightning'
        }
      }
    ]
  })
})

// Other invoices of the vectors, of the preimage 42…42 unless said otherwise.
const HEAD =
  'lnbc250n1pj48ugqpp5gf0dfe9rdvcw5gdepcsuwykxf85zznpfkl40dqyf6ypecmj48pxqsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygs'
const HASH_A = 'hp5p4nz8am4uqj4q8a87z3sk4x6yk4dv2mvel34epw68qqkwy0xcqvq'
const FUTURE = HEAD.replace('pj48ugq', 'pj48ufa')
const INVOICES = {
  atSkew: `${HEAD.replace('pj48ugq', 'pj48ufu')}${HASH_A}xqzfvcqpjnxlcs8n6knknsh8vvqw6ln96khtkch65zepcjrfecscgpwxjef0znlwu958l82zgt49v3l5xl0kt8vtv05f63gskmu2wcyrv7mh534qqzeaf5s`,
  future: `${FUTURE}${HASH_A}xqzfvcqpjrc7p6q79tr8at05z3zkllkgx44563v7qcnqt38lhcrarxsmczutzlgvpe8yhtdgzckexzpaahhc27elh465sk2r2m6rtkz59zdgsjycpw4nnaw`,
  second: `${HEAD}${HASH_A}xqzfvcqpjfxevavgdka8487x7a3whlz4ujgk0rx6p4r9c57nwhahwqwvgh6j9e4xxmwj862env32h7c3hf7h3nh6ltdql5dkjqsvr9ks6rq2nm0qpqyd8md`,
  named: `${HEAD}${HASH_A}np4qfumuen7l8wthtz45p3ftn58pvrs9xlumvkuu2xet8egzkcklqtesxqzfvcqpjyf6xmg6wrfgmucwurqdd8s453jvezshh4apvk2krtxm034rz02f5ru0t23ye05nm8s2k3zepx6xmcmz0tlg3nve4mam3tuvu20jyckcqcy9t5e`,
  otherSigner: `${HEAD}${HASH_A}xqzfvcqpjf0zlmrmdxsde2qvntzmtpq7zm4777ywnzdnhl2wu695xuqa5lutsp4u45hxu8q76s9vw3uf2fg3vsw5fatls9062wte5mt6hfp5fw0qplv4v5y`,
  testnet: `${HEAD.replace('lnbc', 'lntb')}${HASH_A}xqzfvcqpjesqz56c9tujj73av0ckqrxkjf4f65xdxkp07fp6cdj6kxaf7hzm3en4yn5r0cwqt2myz9kh3sm8t3fhjmpvfxas42zlkvr3gxkup4zqqhn0tj5`,
  cheap: `${HEAD.replace('250n', '10p')}${HASH_A}xqzfvcqpjm80sc7kp2j7l7fv4dpyylpz42syyp65axul7fmf68fq93aespa65ulwuckqzcjdyhff8l5l6r078gqkg8xf7zaewg30ngkkz7vnk7sgpnqv8h0`,
  short: `${HEAD}${HASH_A}xqppcqpjg2huvthjm372tgnpgvlc0nzc0p2fe83mgt0e0kmvfuure0lludy96t9anj096cyxf6rqhhd0fzymgvkw44dss3xejg467ujrnsz8dtqps0xc6a`,
  inline: `${HEAD}dq8w3jhxaqxqzfvcqpjsytqhfd3eljlg8j0gahldrre56amueq3f4grchmwah098lv65syndyavkaxscghl3jnd984fgn0qma99hd0pnzd6tqgja0g6saxjmdqq90rkmz`,
  bare: `${HEAD}xqzfvcqpjc92a4zr4vhqf5n7twmt2ayzr90v2vk6j6y2ta9ntdh49wcewfrryhj8eaf2wmdc6uc7p9gu0yevetrehqazasf9hgxy2uh7e5je683cqsns2rg`,
  twoHashes: INVOICE.replace('cqpjr4rx', 'cqpjhp5qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqr4rx').replace(
    'xrwu5f',
    'ms554k'
  ),
  padded: INVOICE.replace('f0qsp5', 'f0psp5').replace('xrwu5f', 'avc4a0'),
  fractional: INVOICE.replace('250n', '11p').replace('qxrwu5f', 'qfc47dc'),
  badChecksum: INVOICE.replace(/f$/, 'q'),
  mixedCase: INVOICE.replace('lnbc', 'LNBC'),
  mcp: `${HEAD}hp5qw2phlkudtu2pxe0gk07sdrs9p98d2x8tqqu420pfpafya4xj06qxqzfvcqpjm4wa5rfng2g8qqmzh920ay6j7u5snjvcjrr8qf6eva48c46wvs2yf24pq3plxmfe6g08vrccdee3juscvmdn40klz234765qk2aw7hcqwddred`,
  mcpAccount: `${HEAD}hp596rdukct7ma0ajdtqzs4rkw3qc43pke38cyjtrfmewgk8nkmhynqxqzfvcqpjpa0z7h0x06hq8fmwjxajssheamkd84ksfh8apsk3s5uguyc7malqgkqzmzy429a05ud7zc7skqpnq4epc8kpnvpcwkesww4frkd0z3qqh7242v`
}
const OTHER_PREIMAGE = '42'.repeat(32)

const withInvoice = (invoice: string, now = NOW, preimage = OTHER_PREIMAGE) =>
  settled(({ payload }, extra) => {
    extra['invoice'] = invoice
    payload['preimage'] = preimage
  }, now)

t.test('x402 exact: the published invoices settle, or fail for the published reason', async t => {
  t.equal(withInvoice(INVOICES.atSkew), null)
  t.equal(withInvoice(INVOICES.second), null)
  t.equal(withInvoice(INVOICES.named), null)
  for (const [invoice, reason] of [
    [INVOICES.future, 'invoice_created_in_future'],
    [INVOICES.otherSigner, 'invoice_payee_mismatch'],
    [INVOICES.testnet, 'invoice_currency_mismatch'],
    [INVOICES.cheap, 'invoice_amount_mismatch'],
    [INVOICES.short, 'invoice_expiry_mismatch'],
    [INVOICES.inline, 'invoice_description'],
    [INVOICES.bare, 'invoice_description'],
    [INVOICES.twoHashes, 'invoice_description'],
    [INVOICES.padded, 'invoice_decode_failed'],
    [INVOICES.fractional, 'invoice_decode_failed'],
    [INVOICES.badChecksum, 'invoice_decode_failed'],
    [INVOICES.mixedCase, 'invoice_decode_failed'],
    ['garbage', 'invoice_decode_failed'],
    ['', 'invoice_missing']
  ] as const)
    t.equal(withInvoice(invoice, NOW, PREIMAGE), `invalid_exact_lnbtc_${reason}`, reason)
})

t.test('x402 exact: of several faults the first of the specification is named', async t => {
  t.equal(
    settled((_payload, extra) => {
      extra['requestHash'] = OTHER_HASH
      extra['invoice'] = ''
    }),
    'invalid_exact_lnbtc_request_mismatch'
  )
  t.equal(
    settled((_payload, extra) => {
      delete extra['paymentFlow']
      extra['invoice'] = ''
    }),
    'invalid_exact_lnbtc_payment_flow'
  )
  t.equal(withInvoice(INVOICES.otherSigner, NOW, '00'.repeat(32)), 'invalid_exact_lnbtc_invoice_payee_mismatch')
  t.equal(withInvoice(INVOICE, NOW + 361, '00'.repeat(32)), 'invalid_exact_lnbtc_preimage_hash_mismatch')
  t.equal(
    settled((_payload, extra) => delete extra['paymentMethod']),
    'invalid_exact_lnbtc_extra_mismatch'
  )
})

t.test('x402 exact: an actual request that is echoed fails at the invoice', async t => {
  for (const [method, body] of [
    ['POST', ''],
    ['GET', '78']
  ] as const) {
    const bodyHash = sha256(Buffer.from(body, 'hex')).toString('hex')
    const actual = httpBinding({ method, url: URL_A, bodyHash, headers: [] })
    const expected = requirementsOf(decodeInvoice(INVOICE), actual)
    t.equal(faultOf(INVOICE, expected, PREIMAGE), 'invalid_exact_lnbtc_invoice_request_mismatch')
  }
})

type Wanted = ReturnType<typeof requirementsOf>

/** What comes of a credential that echoes `accepted`, by default what is wanted. */
function faultOf(invoice: string, wanted: Wanted, preimage: string, accepted: Partial<Wanted['extra']> = {}) {
  const extra = { ...wanted.extra, ...accepted, invoice }
  const payload = { x402Version: 2, accepted: { ...wanted, extra }, payload: { preimage } }
  // As it arrives.
  const credential = exactCredential(JSON.parse(JSON.stringify(payload)))
  return typeof credential === 'string' ? credential : settlementFault(credential, wanted, NOW)
}

t.test('x402 exact: published calls of MCP tools settle, or fail for the published reason', async t => {
  const SERVER = 'https://api.example.com/mcp'
  const of = (argumentsText: string, server = SERVER) => mcpBinding({ server, name: 'get_article', argumentsText })
  const wants = (bound: ReturnType<typeof of>) => requirementsOf(decodeInvoice(INVOICES.mcp), bound)
  const [a, b] = [of('{"article":"A"}'), of('{"article":"B"}')]
  t.equal(faultOf(INVOICES.mcp, wants(a), OTHER_PREIMAGE), null)
  t.equal(
    faultOf(INVOICES.mcp, wants(b), OTHER_PREIMAGE, { requestHash: a.requestHash }),
    'invalid_exact_lnbtc_request_mismatch'
  )
  const mismatch = 'invalid_exact_lnbtc_invoice_request_mismatch'
  t.equal(faultOf(INVOICES.mcp, wants(b), OTHER_PREIMAGE), mismatch)
  t.equal(
    faultOf(INVOICES.mcp, wants(of('{"article":"A"}', 'https://other.example.com/mcp')), OTHER_PREIMAGE),
    mismatch
  )
  t.equal(faultOf(INVOICES.second, wants(a), OTHER_PREIMAGE), mismatch, 'an invoice of an HTTP request')
  t.equal(faultOf(INVOICES.mcpAccount, wants(a), OTHER_PREIMAGE), mismatch, 'an invoice that binds metadata')
  t.equal(
    faultOf(INVOICES.mcp, wants(a), OTHER_PREIMAGE, {
      requestBindingProfile: 'http:1',
      requestBindingParams: { headers: [] }
    }),
    'invalid_exact_lnbtc_request_mismatch'
  )
  for (const params of [
    { server: SERVER, metadata: ['x402/payment'] },
    { server: SERVER, metadata: ['progressToken'] },
    { server: SERVER, metadata: [''] },
    { server: SERVER, metadata: ['z', 'a'] },
    { server: `${SERVER}#x`, metadata: [] },
    { server: 'https://user@api.example.com/mcp', metadata: [] },
    { server: '\ud800', metadata: [] },
    { server: SERVER, metadata: ['\ud800'] },
    { server: SERVER },
    { metadata: [] }
  ])
    t.equal(
      // A client may send anything.
      faultOf(INVOICES.mcp, wants(a), OTHER_PREIMAGE, { requestBindingParams: params as object as never }),
      'invalid_exact_lnbtc_request_binding',
      JSON.stringify(params)
    )
})
