import fc from 'fast-check'
import t from 'tap'
import { accentStyle, contrast } from '../../../src/web/kit/accent.ts'

type Colour = [number, number, number]

function colourOf(text: string): Colour {
  const value = parseInt(text.slice(1), 16)
  return [value >> 16, (value >> 8) & 255, value & 255]
}

t.test("words in the merchant's color are readable on every background, whatever color it is", async t => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 0xff_ffff }), chosen => {
      const style = accentStyle(`#${chosen.toString(16).padStart(6, '0')}`)
      const schemes = [...style.matchAll(/--accent:(#\w+);--accent-strong:(#\w+);--on-accent:(#\w+);--wash:(#\w+)/g)]
      const under = [
        [colourOf('#f5f4ef'), colourOf('#ffffff')],
        [colourOf('#0f1211'), colourOf('#181c1a')]
      ]
      return (
        schemes.length === 2 &&
        schemes.every(([, accent = '', , on = '', wash = ''], at) =>
          [...(under[at] ?? []), colourOf(wash), colourOf(on)].every(each => contrast(colourOf(accent), each) >= 4.5)
        )
      )
    })
  )
  t.ok(true)
})

t.test('a readable color stays as chosen; an invalid one changes nothing', async t => {
  t.match(accentStyle('#0b5c43'), '--accent:#0b5c43')
  t.equal(accentStyle('#0B5C43'), accentStyle('#0b5c43'))
  for (const none of ['', 'red', '#fff', '#12345', '#1234567', '#12345g', '#c2410c;}body{display:none'])
    t.equal(accentStyle(none), '', none)
})

t.test('contrast is that of WCAG', async t => {
  t.equal(contrast([0, 0, 0], [255, 255, 255]), 21)
  t.equal(contrast([119, 119, 119], [255, 255, 255]).toFixed(2), '4.48')
  t.equal(contrast([1, 2, 3], [1, 2, 3]), 1)
})
