import { definePlugin, ShortError, Type } from 'boltgate'

/** Names the caller to the upstream, adds a greeting to the response, and rejects callers on a list. */
export default definePlugin({
  name: 'hello-header',
  description: 'Adds a greeting to every response and rejects callers on a list.',
  config: Type.Object(
    {
      greeting: Type.String({ default: 'hello', minLength: 1, description: 'First word of the greeting.' }),
      refuse: Type.Array(Type.String(), { default: [], description: 'Values of X-Caller to reject.' })
    },
    { additionalProperties: false }
  ),
  uses: ['log'],
  setup(config, { services, slot }) {
    // Prepare everything here: the hooks below run for every request.
    const refused = new Set(config.refuse)
    const caller = slot<string>('caller')
    return {
      request(ctx) {
        const name = ctx.headers.get('x-caller') ?? 'guest'
        if (refused.has(name)) throw new ShortError(403, `There is no greeting for ${name}.`)
        ctx.set(caller, name)
      },
      upstream(ctx, out) {
        out.headers.set('X-Greeted', ctx.get(caller) ?? 'unknown')
      },
      response(ctx, head) {
        // Responses to rejected requests pass here too, without a caller in the slot.
        const name = ctx.get(caller)
        if (name !== undefined) head.headers.set('X-Hello', `${config.greeting}, ${name}`)
      },
      done(ctx, outcome) {
        if (!outcome.delivered) services.log.info({ correlationId: ctx.correlationId }, 'a greeting did not arrive')
      }
    }
  }
})
