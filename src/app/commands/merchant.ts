import { parseArgs } from 'node:util'
import { jsonOrUndefined } from '../../engine/formats/json-reader.ts'
import { CodedError } from '../../platform/system/errors.ts'
import { callAdmin } from '../cli/admin-call.ts'
import { beginningOf } from '../cli/gateway-call.ts'
import { OTHER_RESPONSE, UsageError, type Output } from '../cli/output.ts'

export const merchantUsage = `boltgate merchant create --name NAME --email ADDRESS [--url URL] [--config FILE]

Creates a merchant's account on a running gateway and prints its API key, which is shown this once. The admin key, and
URL by default, come from FILE, ./gateway.yaml by default. The gateway must serve \`operator-api\` (see \`use\`).`

/** @throws UsageError, ConfigError, CodedError when the gateway refuses */
export async function merchant(args: readonly string[], out: Output): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      name: { type: 'string' },
      email: { type: 'string' },
      url: { type: 'string' },
      config: { type: 'string', short: 'c' }
    }
  })
  if (positionals.join(' ') !== 'create')
    throw new UsageError(`merchant needs what to do, which is create.\n\n${merchantUsage}`)
  const { name, email } = values
  if (name === undefined || email === undefined)
    throw new UsageError(`merchant create needs --${name === undefined ? 'name' : 'email'}.\n\n${merchantUsage}`)
  const { url, status, text } = await callAdmin('POST', '/api/admin/merchants', { name, email }, values)
  const made = jsonOrUndefined(text)
  if (status !== 201 || typeof made !== 'object' || made === null || !('apiKey' in made))
    throw new CodedError(OTHER_RESPONSE, `${url} answered ${status}: ${beginningOf(text)}`)
  out.complain(
    `Created the account of ${email}. Its console is at ${new URL('/console', url).href}; sign in with this key:`
  )
  out.print(String(made.apiKey))
  return 0
}
