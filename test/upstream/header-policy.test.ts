import t from 'tap'
import { responseHeaders } from '../../src/upstream/header-policy.ts'

t.test(
  'a head full of names in Connection is looked at as often as it has names and lines, not as their product',
  async t => {
    const names = Array.from({ length: 500 }, (_, at) => `x-named-${at}`)
    const lines = Array.from({ length: 500 }, (_, at) => [`X-Line-${at}`, '1']).flat()
    const head = [
      'Connection',
      names.join(','),
      ...lines,
      'X-Named-7',
      'gone',
      'X-Line',
      'stays',
      'x-NAMED-499',
      'gone'
    ]
    // Each look at a name puts it in lower case once.
    const looks = t.capture(String.prototype, 'toLowerCase', String.prototype.toLowerCase)
    const { pairs } = responseHeaders(head, 200)
    const count = looks().length
    looks.restore()
    t.ok(count <= 5 * (names.length + lines.length), `${count} looks`)
    t.same(
      pairs.filter(text => /gone|stays/.test(text)),
      ['stays']
    )
    t.ok(pairs.length >= lines.length, 'what is not named stays')
  }
)
