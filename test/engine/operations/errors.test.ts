import t from 'tap'
import { SUBSCRIPTION_REQUIRED } from '../../../src/engine/operations/error-kinds.ts'
import {
  asGatewayError,
  AuthThrottled,
  ClientGone,
  ConfigurationMissing,
  errorReply,
  GateError,
  LongError,
  methodNotAllowed,
  notFound,
  PayloadTooLarge,
  ProblemError,
  RateLimited,
  ShortError,
  Unavailable,
  ValidationError,
  type GatewayError
} from '../../../src/engine/operations/errors.ts'

const around = { correlationId: 'c-1', now: Date.parse('2026-11-21T00:54:00.123Z'), mode: 'production' } as const
const JSON_TYPE = 'application/json; charset=utf-8'
const PROBLEM = 'application/problem+json; charset=utf-8'

/** Each shape of the contract's error table: the error, its status, headers and exact bytes. */
const table: [string, GatewayError, number, string[], string][] = [
  ['short', new ShortError(400, 'No.'), 400, [JSON_TYPE], '{"error":"No."}'],
  [
    'long',
    new LongError(403, 'Forbidden', 'Not here.', { proxy_id: 'p' }),
    403,
    [JSON_TYPE],
    '{"error":"Forbidden","message":"Not here.","proxy_id":"p"}'
  ],
  ['not found', notFound(), 404, [JSON_TYPE], '{"error":"Not found","message":"Nothing is served at this path."}'],
  [
    'method',
    methodNotAllowed('PUT', ['GET', 'HEAD']),
    405,
    [JSON_TYPE, 'Allow', 'GET, HEAD'],
    '{"error":"Method not allowed","message":"This path does not take PUT; it takes GET, HEAD."}'
  ],
  [
    'too large',
    new PayloadTooLarge(1_048_576, { proxy_id: 'p' }),
    413,
    [JSON_TYPE, 'Connection', 'close'],
    '{"error":"Payload too large","message":"The request body is larger than the limit of 1048576 bytes.","proxy_id":"p"}'
  ],
  [
    'rate limit',
    new RateLimited(12.1),
    429,
    [JSON_TYPE, 'Retry-After', '13'],
    '{"error":"Too many requests","message":"Rate limit exceeded. Try again in 13 seconds.","retryAfter":13}'
  ],
  [
    'unavailable',
    new Unavailable('Payment provider error', 'Try later.', 7),
    503,
    [JSON_TYPE, 'Retry-After', '7'],
    '{"error":"Payment provider error","message":"Try later."}'
  ],
  [
    'validation',
    new ValidationError({ OrderId: ['This field is required.'] }),
    400,
    [PROBLEM],
    '{"type":"https://tools.ietf.org/html/rfc9110#section-15.5.1","title":"One or more validation errors occurred.","status":400,"errors":{"OrderId":["This field is required."]},"traceId":"c-1"}'
  ],
  [
    'problem',
    new ProblemError(
      404,
      'https://g.example/problems/challenge-not-found',
      'Challenge not found',
      'No such challenge.',
      { error: 'Challenge not found' }
    ),
    404,
    [PROBLEM],
    '{"type":"https://g.example/problems/challenge-not-found","title":"Challenge not found","status":404,"detail":"No such challenge.","error":"Challenge not found"}'
  ],
  [
    'gate',
    new GateError(SUBSCRIPTION_REQUIRED, 'Subscribe first.', {
      action_required: 'subscribe',
      current_plan: 'l402',
      subscription_status: null
    }),
    403,
    [JSON_TYPE],
    '{"error":"Subscription required","message":"Subscribe first.","action_required":"subscribe","current_plan":"l402","subscription_status":null}'
  ],
  [
    'configuration',
    new ConfigurationMissing('secrets.master'),
    500,
    [JSON_TYPE],
    '{"error":"Server configuration error"}'
  ],
  [
    'unhandled',
    asGatewayError(new TypeError('secret detail')),
    500,
    [JSON_TYPE],
    '{"error":"An unexpected error occurred","correlationId":"c-1","timestamp":"2026-11-21T00:54:00.123Z"}'
  ]
]

for (const [name, error, status, headers, body] of table) {
  t.test(`${name}: status, headers and bytes are the contract's`, async t => {
    const reply = errorReply(error, around)
    t.equal(reply.status, status)
    t.same(reply.headers, ['Content-Type', ...headers])
    t.equal(reply.body, body)
  })
}

t.test('retryAfter is whole seconds and at least one', async t => {
  for (const [seconds, expected] of [
    [0, 1],
    [0.001, 1],
    [1, 1],
    [59.2, 60]
  ] as const)
    t.equal(new RateLimited(seconds).retryAfter, expected)
  t.same(new AuthThrottled(0.2).headers, ['Retry-After', '1'])
  t.match(JSON.parse(String(errorReply(new AuthThrottled(30), around).body)), {
    error: 'Too many failed authentication attempts',
    message: /30 seconds/
  })
})

t.test('outside production an unforeseen error says what it was', async t => {
  const cause = new RangeError('index 7')
  const body: unknown = JSON.parse(String(errorReply(asGatewayError(cause), { ...around, mode: 'development' }).body))
  t.match(body, {
    error: 'An unexpected error occurred',
    correlationId: 'c-1',
    detail: 'index 7',
    exceptionType: 'RangeError',
    stackTrace: /RangeError: index 7/
  })
  const text: unknown = JSON.parse(
    String(errorReply(asGatewayError('a text'), { ...around, mode: 'development' }).body)
  )
  t.match(text, { detail: 'a text', exceptionType: 'string', stackTrace: null })
})

t.test('a known error stays itself, and keeps its cause', async t => {
  const known = new ShortError(400, 'No.')
  t.equal(asGatewayError(known), known)
  t.equal(new Unavailable('a', 'b', 5, {}, known).cause, known)
  t.equal(known.name, 'ShortError')
})

t.test('a disconnected client gets no bytes', async t => {
  t.strictSame(errorReply(new ClientGone(), around), { status: 499, headers: [], body: null })
})
