import { definePlugin, Type, type Context } from '../src/index.ts'

/** Methods with a label of their own; a client cannot make new ones. */
const methodNames = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
const classes = ['none', '1xx', '2xx', '3xx', '4xx', '5xx']

// Seconds: from a cached response to a long poll.
const seconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

function statusClass(status: number): number {
  const digit = Math.trunc(status / 100)
  return digit >= 1 && digit <= 5 ? digit : 0
}

/** Measures requests for Prometheus. All labels come from the compiled route, never from what a client sends. */
export default definePlugin({
  name: 'metrics',
  description:
    'Counts requests and measures how long they take, how long the upstream takes to its head, how many are under way, and how many bytes go in and out. Labels are the route\'s name, the method (others than the usual ones are "other") and the class of the status, so that their number is bounded by the configuration.',
  config: Type.Object({}, { additionalProperties: false, description: 'Nothing to set.' }),
  uses: ['metrics', 'clock'],
  setup(_config, { services: { metrics, clock }, route, slot }) {
    const name = route.name
    const labels = { route: name }
    const requests = metrics.counterCells(
      'boltgate_requests_total',
      'Requests that are over, by route, method and class of status.',
      ['route', 'method', 'status']
    )
    const unfinished = metrics
      .counterCells(
        'boltgate_requests_unfinished_total',
        'Requests whose response did not reach the client completely.',
        ['route']
      )
      .cell(labels)
    const duration = metrics
      .histogramCells(
        'boltgate_request_duration_seconds',
        'Time from the accepted head of a request to the end of its response.',
        ['route'],
        seconds
      )
      .cell(labels)
    const upstream = metrics
      .histogramCells(
        'boltgate_upstream_duration_seconds',
        "Time from forwarding a request to the head of the upstream's response.",
        ['route'],
        seconds
      )
      .cell(labels)
    const inFlight = metrics.gaugeCells('boltgate_requests_in_flight', 'Requests under way.', ['route']).cell(labels)
    const bytesIn = metrics
      .counterCells('boltgate_request_bytes_total', 'Bytes of request bodies received.', ['route'])
      .cell(labels)
    const bytesOut = metrics
      .counterCells('boltgate_response_bytes_total', 'Bytes of response bodies sent.', ['route'])
      .cell(labels)
    const forwarded = slot<number>('forwarded at')
    // Filled as they occur, so that a route shows no methods that nobody uses.
    const cells: (ReturnType<typeof requests.cell> | undefined)[] = []

    const cell = (ctx: Context, status: number): ReturnType<typeof requests.cell> => {
      const method = methodNames.indexOf(ctx.method) + 1
      const kind = statusClass(status)
      const at = method * classes.length + kind
      return (cells[at] ??= requests.cell({
        route: name,
        method: methodNames[method - 1] ?? 'other',
        status: classes[kind] ?? 'none'
      }))
    }

    return {
      request() {
        inFlight.add(1)
      },
      upstream(ctx) {
        ctx.set(forwarded, clock.monotonic())
      },
      response(ctx, head) {
        const since = ctx.get(forwarded)
        if (since !== undefined && head.source === 'upstream') upstream.observe((clock.monotonic() - since) / 1000)
      },
      done(ctx, outcome) {
        inFlight.add(-1)
        cell(ctx, outcome.status).add(1)
        duration.observe(outcome.duration / 1000)
        if (!outcome.delivered) unfinished.add(1)
        if (outcome.bytesIn > 0) bytesIn.add(outcome.bytesIn)
        if (outcome.bytesOut > 0) bytesOut.add(outcome.bytesOut)
      }
    }
  }
})
