import {
  context,
  propagation,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Attributes,
  type Context,
  type Span
} from '@opentelemetry/api'

/** Headers that a trace is read from or written to; the values are not secret. */
interface TraceHeaders {
  get(name: string): string | undefined
  set(name: string, value: string): void
}

interface TracedRequest {
  readonly method: string
  readonly host: string
  readonly clientAddress: string
  readonly correlationId: string
  readonly headers: Pick<TraceHeaders, 'get'>
}

const provider = trace.getTracerProvider()
const delegate =
  'getDelegate' in provider && typeof provider.getDelegate === 'function' ? provider.getDelegate() : provider

/** Whether an OpenTelemetry SDK was registered before the gateway, as by `node --import`. Known at startup. */
export const isTracing = (delegate as object | null)?.constructor.name !== 'NoopTracerProvider'

const tracer = trace.getTracer('boltgate')

const FROM: { get(headers: Pick<TraceHeaders, 'get'>, name: string): string | undefined; keys(): string[] } = {
  get: (headers, name) => headers.get(name),
  keys: () => []
}
const TO = {
  set(headers: TraceHeaders, name: string, value: string): void {
    headers.set(name, value)
  }
}

/**
 * The spans of one request (OpenTelemetry semantic conventions for HTTP and generative AI). No attribute holds a
 * credential, a path or a query: the addresses of pay pages are secret.
 */
export class RequestTrace {
  readonly #span: Span
  readonly #context: Context
  #upstream: Span | null = null

  constructor({ method, host, clientAddress, correlationId, headers }: TracedRequest) {
    const parent = propagation.extract(ROOT_CONTEXT, headers, FROM)
    const attributes = {
      'http.request.method': method,
      'server.address': host,
      'client.address': clientAddress,
      'boltgate.correlation_id': correlationId
    }
    this.#span = tracer.startSpan(method, { kind: SpanKind.SERVER, attributes }, parent)
    this.#context = trace.setSpan(parent, this.#span)
  }

  /** Runs work whose spans belong to this request. */
  within(run: () => void): void {
    context.with(this.#context, run)
  }

  /** The request goes to an upstream: adds `traceparent` to its headers. */
  forwarding(method: string, origin: string, headers: TraceHeaders): void {
    this.#upstream?.end()
    const attributes = { 'http.request.method': method, 'server.address': new URL(origin).host }
    this.#upstream = tracer.startSpan(method, { kind: SpanKind.CLIENT, attributes }, this.#context)
    propagation.inject(trace.setSpan(this.#context, this.#upstream), headers, TO)
  }

  answered(status: number): void {
    this.#upstream?.setAttribute('http.response.status_code', status)
  }

  set(attributes: Attributes): void {
    this.#span.setAttributes(attributes)
  }

  end(route: string, status: number, error: Error | null): void {
    this.#upstream?.end()
    this.#span.setAttributes({ 'http.route': route, 'http.response.status_code': status })
    if (status >= 500) this.#span.setStatus({ code: SpanStatusCode.ERROR })
    if (error !== null) this.#span.setAttribute('error.type', error.name)
    this.#span.updateName(route)
    this.#span.end()
  }
}

/** Begins a span of the current traced request for a call; null without one. `end` takes the call's error. */
export function beginCall(name: string, attributes: Attributes): { end(error?: unknown): void } | null {
  if (!isTracing || trace.getActiveSpan() === undefined) return null
  const span = tracer.startSpan(name, { kind: SpanKind.CLIENT, attributes })
  return {
    end(error) {
      if (error !== undefined) {
        span.setStatus({ code: SpanStatusCode.ERROR })
        span.setAttribute('error.type', error instanceof Error ? error.name : 'unknown')
      }
      span.end()
    }
  }
}
