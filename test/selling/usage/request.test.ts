import t from 'tap'
import { requestingUsage } from '../../../src/selling/usage/forms.ts'

const asked = (body: unknown) => {
  const bytes = requestingUsage(Buffer.from(typeof body === 'string' ? body : JSON.stringify(body, null, 1)))
  return bytes === null ? null : (JSON.parse(bytes.toString()) as unknown)
}

t.test('a request for a stream: adds the usage option where its client does not', async t => {
  const base = { model: 'm', stream: true }
  for (const kind of [{ messages: [] }, { prompt: 'x "stream_options":{}' }])
    for (const [options, wanted] of [
      [undefined, { include_usage: true }],
      [null, { include_usage: true }],
      [{}, { include_usage: true }],
      [{ include_obfuscation: false }, { include_obfuscation: false, include_usage: true }],
      [{ include_usage: false }, { include_usage: true }],
      [
        { include_usage: null, a: 1 },
        { include_usage: true, a: 1 }
      ]
    ]) {
      const body = { ...base, ...kind, ...(options === undefined ? {} : { stream_options: options }) }
      t.same(asked(body), { ...body, stream_options: wanted }, JSON.stringify(options))
    }
  const far = { messages: ['é😀'], ...base, stream_options: { a: 'é', include_usage: false }, user: 'ü' }
  t.same(asked(far), { ...far, stream_options: { a: 'é', include_usage: true } }, 'characters of several bytes')
  for (const name of ['messages', 'MESSAGES'])
    t.match(asked(`{"messages":[1],"${name}":[],"stream":true}`), { stream_options: { include_usage: true } }, name)
  t.same(asked('{"messages":[],"str\\u0065am":true}'), {
    messages: [],
    stream: true,
    stream_options: { include_usage: true }
  })
})

t.test('other requests: are forwarded unchanged', async t => {
  for (const body of [
    { messages: [], stream: true, stream_options: { include_usage: true } },
    { messages: [], stream: false },
    { messages: [] },
    { input: 'Responses have no such option', stream: true },
    { messages: [{ content: '"stream":true' }] },
    { messages: [{ stream: true }] },
    { messages: [], stream: true, stream_options: 'x' },
    { messages: [], stream: true, stream_options: [1] },
    { messages: [], stream: true, stream_options: { include_usage: 1 } }
  ])
    t.equal(asked(body), null, JSON.stringify(body))
})
