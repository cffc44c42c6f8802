import t from 'tap'
import { isConnectionFault } from '../../../src/platform/database/errors.ts'

t.test('database errors: exhausted resources are a fault of the database, which is answered with 503', async t => {
  const coded = (code: string) => Object.assign(new Error(code), { code })
  for (const code of ['53000', '53100', '53200', '53300', '53400', '08006', '57P03'])
    t.ok(isConnectionFault(coded(code)), code)
  for (const code of ['23505', '22001', '42601', '54000', '5310', '531000'])
    t.notOk(isConnectionFault(coded(code)), code)
})
