import { definePlugin, ShortError, Type } from 'boltgate'

/** Greets: the upstream is told who calls, the answer carries a greeting, and strangers can be refused. */
export default definePlugin({
  name: 'hello-header',
  description: 'Puts a greeting on every answer, and refuses callers whose name is on a list.',
  config: Type.Object(
    {
      greeting: Type.String({ default: 'hello', minLength: 1, description: 'What the greeting begins with.' }),
      refuse: Type.Array(Type.String(), { default: [], description: 'Values of X-Caller that are refused.' })
    },
    { additionalProperties: false }
  ),
  uses: ['log'],
  setup(config, { services, slot }) {
    // Whatever can be decided once is decided here; the hooks below run for every request.
    const refused = new Set(config.refuse)
    const caller = slot<string>('caller')
    return {
      request(ctx) {
        const name = ctx.headers.get('x-caller') ?? 'stranger'
        if (refused.has(name)) throw new ShortError(403, `There is no greeting for ${name}.`)
        ctx.set(caller, name)
      },
      upstream(ctx, out) {
        out.headers.set('X-Greeted', ctx.get(caller) ?? 'nobody')
      },
      response(ctx, head) {
        // A refused request has no caller in its slot, and its answer comes this way too.
        const name = ctx.get(caller)
        if (name !== undefined) head.headers.set('X-Hello', `${config.greeting}, ${name}`)
      },
      done(ctx, outcome) {
        if (!outcome.delivered) services.log.info({ correlationId: ctx.correlationId }, 'a greeting did not arrive')
      }
    }
  }
})
