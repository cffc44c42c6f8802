import t from 'tap'
import { requestHeaders } from '../../../src/engine/upstream/header-policy.ts'
import { contextOf } from './harness.ts'

t.test("names with an underscore are not passed on: behind CGI they are the gateway's own", async t => {
  const ctx = contextOf({
    headers: ['X_Forwarded_For', '1.2.3.4', 'x_l402_payment_hash', 'a', 'X-Good', 'b', 'User_Id', '1']
  })
  t.notMatch(requestHeaders(ctx, 'a', null, []).join('\n'), /_/)
  t.match(requestHeaders(ctx, 'a', null, []).join('\n'), /X-Good\nb/)
  t.match(requestHeaders(ctx, 'a', null, ['Own_Name', 'c']).join('\n'), /Own_Name\nc/, "the operator's setting wins")
})

t.test('an HTTP/1.0 client that names no host is forwarded without a made-up one', async t => {
  const pairs = requestHeaders(contextOf({ host: '', httpVersion: '1.0' }), 'up.example', null, [])
  t.notOk(pairs.includes('X-Forwarded-Host'))
  t.notMatch(pairs.join('\n'), /host="/)
})
