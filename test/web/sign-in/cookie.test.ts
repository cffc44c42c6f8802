import t from 'tap'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { isFromHere } from '../../../src/web/sign-in/cookie.ts'

t.test('a form is ours by what the browser says of where it comes from, over plain HTTP in a network too', async t => {
  const from = (publicUrl: string, ...headers: string[]): boolean =>
    isFromHere({ host: new URL(publicUrl).host, headers: new HeaderList(headers) }, publicUrl)
  for (const here of ['https://gate.example.com', 'http://gate.internal:8080']) {
    t.equal(from(here, 'Origin', here), true)
    t.equal(from(here, 'Sec-Fetch-Site', 'same-origin', 'Origin', 'null'), true)
    t.equal(from(here), true, 'no browser')
    for (const origin of ['null', 'https://evil.example', 'nonsense', ''])
      t.equal(from(here, 'Origin', origin), false, `${here}: ${origin}`)
    for (const site of ['cross-site', 'same-site', 'none'])
      t.equal(from(here, 'Sec-Fetch-Site', site), false, `${here}: ${site}`)
  }
})
