import t from 'tap'
import { frame, FrameReader } from '../../../../src/platform/database/pglite/frames.ts'

function frameOf(kind: number, text: string) {
  const head = Buffer.alloc(5)
  head.writeUInt8(kind, 0)
  head.writeUInt32LE(Buffer.byteLength(text), 1)
  return Buffer.concat([head, Buffer.from(text)])
}

t.test('frames do not depend on where the stream is split', async t => {
  const stream = Buffer.concat([
    frameOf(frame.ready, ''),
    frameOf(frame.answer, 'one'),
    frameOf(frame.warning, 'a warning'),
    frameOf(frame.answer, ''),
    frameOf(frame.answer, 'two'),
    frameOf(frame.broken, '')
  ])
  for (let size = 1; size <= stream.length; size++) {
    let answers = ''
    const others: [number, string][] = []
    const reader = new FrameReader(
      bytes => {
        answers += bytes.toString()
      },
      (kind, bytes) => {
        others.push([kind, bytes.toString()])
      }
    )
    for (let at = 0; at < stream.length; at += size) reader.read(stream.subarray(at, at + size))
    t.equal(answers, 'onetwo')
    t.same(others, [
      [frame.ready, ''],
      [frame.warning, 'a warning'],
      [frame.broken, '']
    ])
  }
})
