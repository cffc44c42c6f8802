import {
  COMMON_METHODS,
  ClientGone,
  definePlugin,
  GatewayError,
  LongError,
  Type,
  type Context,
  type Outcome
} from '../src/index.ts'

/** A fixed set, so that clients cannot create labels. */
const methodNames: readonly string[] = COMMON_METHODS
const classes = ['none', '1xx', '2xx', '3xx', '4xx', '5xx']

function statusClass(status: number): number {
  const digit = Math.trunc(status / 100)
  return digit >= 1 && digit <= 5 ? digit : 0
}

/** The failure as the client saw it; the log has more. */
function describeFault({ error, source, status }: Outcome): string {
  if (!(error instanceof GatewayError))
    return source === 'upstream' ? `The upstream answered ${status}.` : 'A fault of the gateway.'
  const details = error instanceof LongError ? error.more['details'] : undefined
  return typeof details === 'string' ? `${error.message} ${details}` : error.message
}

/** Prometheus metrics of requests. Labels come only from compiled routes, never from clients. */
export default definePlugin({
  name: 'metrics',
  description:
    'Measures requests: count, duration, time to the upstream\'s response head, requests in flight, and bytes in and out. Labels are the route\'s name, the method (unusual ones are "other") and the status class, so the configuration bounds their number.',
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
      .latencyCells(
        'boltgate_request_duration_seconds',
        'Time from the accepted head of a request to the end of its response.',
        ['route']
      )
      .cell(labels)
    const upstream = metrics
      .latencyCells(
        'boltgate_upstream_duration_seconds',
        "Time from forwarding a request to the head of the upstream's response.",
        ['route']
      )
      .cell(labels)
    const asked = metrics
      .counterCells('boltgate_payment_required_total', 'Requests that were answered with 402.', ['route'])
      .cell(labels)
    const probes = metrics
      .counterCells(
        'boltgate_probes_total',
        "Those of them that are no demand: for crawlers of directories that name themselves, HEAD, quotes, and the operator's own tests.",
        ['route']
      )
      .cell(labels)
    const paid = metrics
      .counterCells('boltgate_paid_requests_total', 'Requests that were served for a payment.', ['route'])
      .cell(labels)
    const upstreamFailures = metrics
      .counterCells(
        'boltgate_upstream_failures_total',
        'Requests whose upstream could not be reached, did not answer in time, or not properly.',
        ['route']
      )
      .cell(labels)
    const attempts = metrics.counterCells(
      'boltgate_upstream_attempts_total',
      'Requests sent to an address of an upstream with several, or with fallbacks; one may be sent to more than one.',
      ['route', 'origin']
    )
    const inFlight = metrics.gaugeCells('boltgate_requests_in_flight', 'Requests in flight.', ['route']).cell(labels)
    const bytesIn = metrics
      .counterCells('boltgate_request_bytes_total', 'Bytes of request bodies received.', ['route'])
      .cell(labels)
    const bytesOut = metrics
      .counterCells('boltgate_response_bytes_total', 'Bytes of response bodies sent.', ['route'])
      .cell(labels)
    const forwarded = slot<number>('forwarded at')
    // Lazy, so that unused methods have no series.
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

    const fail = (ctx: Context, outcome: Outcome): void => {
      const { error, source, status } = outcome
      if (status < 500 && source !== 'upstream') return
      const isOfUpstream = source === 'upstream' ? error !== null : status === 502 || status === 504
      if (isOfUpstream && ctx.get(forwarded) !== undefined) {
        upstreamFailures.add(1)
        ctx.tally?.upstreamFailed()
      }
      const at = { route: name, status, at: ctx.now, correlationId: ctx.correlationId }
      metrics.faults.add({ ...at, message: describeFault(outcome) })
    }

    return {
      request(ctx) {
        if (!ctx.internal) inFlight.add(1)
      },
      upstream(ctx, { origin }) {
        ctx.set(forwarded, clock.monotonic())
        if (origin !== undefined) attempts.cell({ route: name, origin }).add(1)
      },
      response(ctx, head) {
        const since = ctx.get(forwarded)
        if (since !== undefined && head.source === 'upstream') upstream.observe((clock.monotonic() - since) / 1000)
      },
      done(ctx, outcome) {
        if (outcome.status >= 500 || (outcome.error !== null && !(outcome.error instanceof ClientGone)))
          fail(ctx, outcome)
        if (ctx.internal) return
        const { tally } = ctx
        inFlight.add(-1)
        cell(ctx, outcome.status).add(1)
        duration.observe(outcome.duration / 1000)
        const isProbe = ctx.isProbe && outcome.status === 402
        // Without it among the requests that did not become sales.
        tally?.over(isProbe ? 0 : outcome.status, outcome.duration / 1000)
        if (!outcome.delivered) {
          unfinished.add(1)
          tally?.brokenOff()
        }
        const isPaid = ctx.payment !== null && outcome.status < 400 && outcome.headSent
        tally?.log({
          at: ctx.now,
          method: ctx.method,
          path: ctx.path,
          status: outcome.status,
          isPaid,
          latencyMs: Math.round(outcome.duration),
          correlationId: ctx.correlationId
        })
        if (isProbe) probes.add(1)
        if (outcome.status === 402) asked.add(1)
        else if (isPaid) {
          paid.add(1)
          tally?.paid()
        }
        if (outcome.bytesIn > 0) bytesIn.add(outcome.bytesIn)
        if (outcome.bytesOut > 0) bytesOut.add(outcome.bytesOut)
      }
    }
  }
})
