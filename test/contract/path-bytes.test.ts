import t from 'tap'
import { startGateway } from '../support/gateway.ts'

/** What PostgreSQL takes in no text, and what no id has. */
const ODD = ['%00', 'a%00b', '%ff', '%F0%9F%90%98', 'x'.repeat(1_000)]

t.test('no parameter of a path, whatever its bytes, is more than an unknown one, to any operation', async t => {
  const gateway = await startGateway(t)
  const operations = gateway.operations.filter(({ path }) => path.includes(':'))
  t.ok(operations.length > 40, `${operations.length} operations`)
  const faults: string[] = []
  for (const { method, path, access } of operations) {
    const names = [...path.matchAll(/:[a-zA-Z]+/g)].map(([name]) => name)
    for (const name of names)
      for (const odd of ODD) {
        const target = path.replace(name, odd).replaceAll(/:[a-zA-Z]+/g, '1')
        const key = access === 'merchant' ? gateway.merchant.apiKey : access === 'admin' ? gateway.adminKey : null
        const headers: Record<string, string> = key === null ? {} : { 'x-api-key': key }
        const body = method === 'POST' || method === 'PUT' || method === 'PATCH' ? { body: {} } : {}
        const { status, text } = await gateway.send(method, target, { headers, ...body })
        if (status >= 500) faults.push(`${method} ${target.slice(0, 80)}: ${status} ${text.slice(0, 200)}`)
      }
  }
  t.same(faults, [])
})
