import {
  AuthThrottled,
  clientNetwork,
  ConfigurationMissing,
  definePlugin,
  LongError,
  principalOfKey,
  Type,
  type AdminPrincipal,
  type Context,
  type Hooks,
  type Principal
} from '../src/index.ts'

const keyMissing = (): LongError => new LongError(401, 'API key required', 'Send the API key in the header X-API-Key.')

// One text for every reason: wrong, replaced, deactivated, or a key of the other role (decisions 25 and 29).
const keyInvalid = (): LongError =>
  new LongError(401, 'Invalid API key', 'The API key in the header X-API-Key is not valid.')

const admin: AdminPrincipal = Object.freeze({ kind: 'admin', id: 'admin' })

/**
 * The key as it was sent, verbatim; null when there is none. Two lines cannot be one key, and their sum is no key that
 * exists.
 */
function presentedKey(ctx: Context): string | null {
  const values = ctx.headers.all('x-api-key')
  const key = values.length > 1 ? values.join(', ') : values[0]
  return key === undefined || key.trim() === '' ? null : key
}

/** Establishes whom the request acts for, by X-API-Key (contract, Authentication). */
export default definePlugin({
  name: 'auth',
  description:
    "Asks for an API key in X-API-Key, of a merchant or the admin key, and sets the principal. A missing or invalid key is 401; a deactivated account's key is indistinguishable from an invalid one. After more than 20 failures of one client address (IPv6 by /64) within 60 seconds, every request of that address that needs a key is answered 429 until the window ends, before the key is looked up. While the shared state is away each process counts failures by itself. Keys are looked up in the database for every request; when it is away the response is 503, never 401. The key is not sent on to the upstream.",
  config: Type.Object(
    {
      as: Type.Union([Type.Literal('merchant'), Type.Literal('admin')], { description: 'Whose key is asked for.' }),
      optional: Type.Boolean({
        default: false,
        description: 'Let requests without a key pass, without a principal. A wrong key is refused all the same.'
      }),
      forwardKey: Type.Boolean({
        default: false,
        description:
          "Send X-API-Key on to an upstream of your own. Only where that upstream is to act with the caller's key here."
      })
    },
    { additionalProperties: false, description: 'Who must be calling.' }
  ),
  uses: ['merchants', 'adminKey', 'authThrottle'],
  provides: ['principal'],
  setup(config, { services }) {
    const { merchants, adminKey, authThrottle } = services

    const find = async (key: string): Promise<Principal | null> => {
      if (config.as === 'admin') return adminKey.matches(key) ? admin : null
      const merchant = await merchants.byApiKey(key)
      return merchant === null ? null : principalOfKey(merchant)
    }

    const fail = async (address: string, verdict: LongError): Promise<never> => {
      const blocked = await authThrottle.failed(address)
      throw blocked > 0 ? new AuthThrottled(blocked / 1000) : verdict
    }

    const authenticate = async (ctx: Context, key: string | null): Promise<void> => {
      const address = clientNetwork(ctx.clientAddress)
      const blocked = await authThrottle.blockedFor(address)
      if (blocked > 0) throw new AuthThrottled(blocked / 1000)
      if (config.as === 'admin' && !adminKey.configured) throw new ConfigurationMissing('the admin key')
      if (key === null) return fail(address, keyMissing())
      const principal = await find(key)
      if (principal === null) return fail(address, keyInvalid())
      ctx.principal = principal
    }

    const hooks: Hooks = {
      ...(config.optional ? {} : { establishes: config.as }),
      request(ctx) {
        const key = presentedKey(ctx)
        if (key === null && config.optional) return
        return authenticate(ctx, key)
      }
    }
    // A key that this plugin asked for is one of this gateway's: whoever has it can act for the caller.
    if (!config.forwardKey)
      hooks.upstream = (_ctx, out) => {
        out.headers.delete('x-api-key')
      }
    return hooks
  }
})
