import { jsonOrUndefined } from '../../platform/system/json.ts'
import { CodedError } from '../../platform/system/errors.ts'
import { GATEWAY_FLAGS } from '../cli/help.ts'
import { defineCommand } from '../cli/command.ts'
import { callAdmin } from '../cli/admin-call.ts'
import { beginningOf } from '../cli/gateway-call.ts'
import { OTHER_RESPONSE, UsageError } from '../cli/output.ts'

export const merchant = defineCommand(
  {
    about: "Creates a merchant's account",
    takes: 'create',
    words: ['create'],
    details: `Prints the account's API key, which is not shown again. The gateway must be running and serve \`operator-api\`
(see \`use\`). The admin key comes from the configuration.`,
    flags: {
      '--name <name>': 'Name of the merchant (required)',
      '--email <address>': 'Email address of the merchant (required)',
      ...GATEWAY_FLAGS
    },
    examples: ['boltgate merchant create --name "Ada" --email ada@example.com']
  },
  async (values, _words, out) => {
    const { name, email } = values
    if (name === undefined || email === undefined)
      throw new UsageError(`Missing --${name === undefined ? 'name' : 'email'}.`)
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
)
