import { definePlugin, Type } from '../src/index.ts'

/** Forwards the request's correlation id (decision 14). The engine chooses it and adds it to every response. */
export default definePlugin({
  name: 'correlation',
  description:
    "Forwards the correlation ID of a request to its upstream, so that both logs can be joined. The ID is the client's X-Correlation-Id if it has 1 to 128 letters, digits, dots, underscores, colons or dashes, and otherwise a new UUID. Every response and every log line has it, with or without this plugin.",
  config: Type.Object(
    {
      header: Type.String({
        default: 'X-Correlation-Id',
        pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
        description: "Name of the header towards the upstream; a client's own header of that name is replaced."
      })
    },
    { additionalProperties: false, description: 'Where the id is sent.' }
  ),
  setup({ header }) {
    return {
      upstream(ctx, out) {
        out.headers.set(header, ctx.correlationId)
      }
    }
  }
})
