import t from 'tap'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import { isFromHere } from '../../../src/web/sign-in/cookie.ts'
import { mayActByCookie } from '../../../src/web/sign-in/signed-in.ts'

t.test('a form is ours by what the browser says of where it comes from, over plain HTTP in a network too', async t => {
  const from = (publicUrl: string, ...headers: string[]) =>
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

t.test('a cookie acts for pages of this origin alone; reading also for links and typed addresses', async t => {
  const [here, evil] = ['https://gate.example.com', 'https://evil.example']
  const may = (method: string, headers: Record<string, string>, host = 'gate.example.com', secure = true) =>
    mayActByCookie({ method, host, secure, headers: new HeaderList(Object.entries(headers).flat()) }, here)
  const navigation = { 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'document' }
  const cases: Array<[headers: Record<string, string>, reads: boolean, changes: boolean]> = [
    [{}, true, false],
    [{ Origin: here }, true, true],
    [{ Origin: evil }, false, false],
    [{ Origin: 'null' }, false, false],
    [{ 'Sec-Fetch-Site': 'same-origin' }, true, true],
    [{ 'Sec-Fetch-Site': 'same-origin', Origin: here }, true, true],
    [{ 'Sec-Fetch-Site': 'same-origin', Origin: evil }, false, false],
    [{ 'Sec-Fetch-Site': 'none' }, true, false],
    [{ 'Sec-Fetch-Site': 'none', Origin: here }, true, false]
  ]
  for (const site of ['cross-site', 'same-site']) {
    cases.push([{ 'Sec-Fetch-Site': site }, false, false])
    cases.push([{ 'Sec-Fetch-Site': site, Origin: here }, false, false])
    cases.push([{ 'Sec-Fetch-Site': site, ...navigation }, true, false])
    cases.push([{ 'Sec-Fetch-Site': site, ...navigation, 'Sec-Fetch-Dest': 'iframe' }, false, false])
    cases.push([{ 'Sec-Fetch-Site': site, ...navigation, 'Sec-Fetch-Mode': 'no-cors' }, false, false])
  }
  for (const [headers, reads, changes] of cases) {
    for (const method of ['GET', 'HEAD', 'OPTIONS']) t.equal(may(method, headers), reads, JSON.stringify(headers))
    for (const method of ['POST', 'DELETE']) t.equal(may(method, headers), changes, JSON.stringify(headers))
  }
  t.equal(may('POST', { Origin: 'http://gate.internal:8080' }, 'gate.internal:8080', false), true, 'as it was reached')
  t.equal(may('POST', { Origin: 'http://gate.internal:8080' }, 'gate.internal:8080'), false)
})
