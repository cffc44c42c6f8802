// An OpenTelemetry SDK that writes each span to standard error, for `node --import`.
import { NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node'

const exporter = {
  export(spans, done) {
    for (const span of spans) {
      const { name, kind, attributes, status, parentSpanContext } = span
      const line = {
        span: { name, kind, attributes, status, parent: parentSpanContext?.spanId, ...span.spanContext() }
      }
      process.stderr.write(`${JSON.stringify(line)}\n`)
    }
    done({ code: 0 })
  },
  shutdown: () => Promise.resolve()
}

new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register()
