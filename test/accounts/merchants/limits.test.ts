import t from 'tap'
import { defaultYaml, startGateway } from '../../support/gateway.ts'
import { newAccount } from './accounts.ts'

const policies = ['global', 'payment-create', 'admin']
  .map(name => `  ${name}: { limit: 100000, window: 1m }`)
  .concat('  read: { limit: 8, window: 1m }', '  write: { limit: 4, window: 1m }')
  .join('\n')

const read = [
  ['GET', '/api/merchant/me'],
  ['GET', '/api/merchant/l402-status'],
  ['GET', '/api/merchant/subscription'],
  ['GET', '/api/merchant/api-key-info'],
  ['GET', '/api/merchant/quickstart'],
  ['PUT', '/api/merchant/primary-key'],
  ['PUT', '/api/merchant/alternate-key'],
  ['PUT', '/api/merchant/webhook-url']
] as const
const write = [
  ['PUT', '/api/merchant/payment-provider'],
  ['POST', '/api/merchant/validate-primary'],
  ['POST', '/api/merchant/validate-alternate'],
  ['POST', '/api/merchant/regenerate-key']
] as const

t.test(
  'Read: GET operations on merchant settings, also the merchant key and webhook-url PUT endpoints; Write: the other self-service writes',
  async t => {
    const gateway = await startGateway(t, { yaml: defaultYaml({ policies }) })
    for (const [name, used, other] of [
      ['read', read, write],
      ['write', write, read]
    ] as const) {
      const account = await newAccount(gateway)
      let { send } = account
      for (const [method, path] of used) {
        const answer = await send(method, path, method === 'PUT' ? {} : undefined)
        t.not(answer.status, 429, `${method} ${path}`)
        if (path.endsWith('regenerate-key')) {
          const { apiKey } = answer.json() as { apiKey: string }
          send = (method, path, body) =>
            gateway.send(method, path, { headers: { 'x-api-key': apiKey }, ...(body === undefined ? {} : { body }) })
        }
      }
      for (const [method, path] of used) {
        const answer = await send(method, path, method === 'PUT' ? {} : undefined)
        t.equal(answer.status, 429, `${name} is used up by one call of each: ${method} ${path}`)
      }
      const [[method, path]] = other
      t.not(
        (await send(method, path, method === 'PUT' ? {} : undefined)).status,
        429,
        'the other policy is not touched'
      )
    }
  }
)
