import t from 'tap'
import { dueStep, extended, GRACE, monthAfter } from '../../src/plans/bitcoin/period.ts'

const at = (text: string) => Date.parse(`${text}Z`)
const DAY = 86_400_000

t.test('one period is one calendar month, and month ends keep their day where the month has it', async t => {
  const rows: ReadonlyArray<readonly [from: string, anchorDay: number, to: string]> = [
    ['2026-11-21T08:30:00.123', 21, '2026-12-21T08:30:00.123'],
    ['2026-12-31T23:59:59.999', 31, '2027-01-31T23:59:59.999'],
    ['2027-01-31T00:00:00.000', 31, '2027-02-28T00:00:00.000'],
    ['2027-02-28T00:00:00.000', 31, '2027-03-31T00:00:00.000'],
    ['2027-02-28T00:00:00.000', 28, '2027-03-28T00:00:00.000'],
    ['2028-01-30T12:00:00.000', 30, '2028-02-29T12:00:00.000'],
    ['2027-03-31T12:00:00.000', 31, '2027-04-30T12:00:00.000'],
    ['2027-10-31T12:00:00.000', 31, '2027-11-30T12:00:00.000'],
    ['2027-12-15T12:00:00.000', 15, '2028-01-15T12:00:00.000']
  ]
  for (const [from, anchorDay, to] of rows)
    t.equal(new Date(monthAfter(at(from), anchorDay)).toISOString(), `${to}Z`, `${from} on day ${anchorDay}`)
})

t.test('period end = max(now, current end) + one month', async t => {
  const now = at('2027-01-31T10:00:00.000')
  t.same(extended(null, now), { end: at('2027-02-28T10:00:00.000'), anchorDay: 31 }, 'none yet: from now')
  t.same(
    extended({ end: now - 1, anchorDay: 5 }, now),
    { end: at('2027-02-28T10:00:00.000'), anchorDay: 31 },
    'over: from now'
  )
  t.same(
    extended({ end: at('2027-02-28T09:00:00.000'), anchorDay: 31 }, now),
    { end: at('2027-03-31T09:00:00.000'), anchorDay: 31 },
    'running: from its end, nothing is lost'
  )
})

t.test('reminders: 7, 3 and 1 days before the end, at the end, and at the end of the grace', async t => {
  const end = at('2027-02-28T10:00:00.000')
  t.equal(dueStep(end, null, end - 7 * DAY - 1), null)
  t.equal(dueStep(end, null, end - 7 * DAY), 'week')
  t.equal(dueStep(end, 'week', end - 3 * DAY - 1), null, 'once')
  t.equal(dueStep(end, 'week', end - 3 * DAY), 'three-days')
  t.equal(dueStep(end, 'three-days', end - DAY), 'day')
  t.equal(dueStep(end, 'day', end - 1), null)
  t.equal(dueStep(end, 'day', end), 'ended')
  t.equal(dueStep(end, 'ended', end + GRACE - 1), null)
  t.equal(dueStep(end, 'ended', end + GRACE), 'canceled')
  t.equal(dueStep(end, 'canceled', end + 1000 * DAY), null)
  t.equal(dueStep(end, null, end - DAY), 'day', 'after a long outage only the latest is sent')
  t.equal(dueStep(end, 'day', end - 3 * DAY), null, 'a clock that goes back sends nothing')
})
