-- Prints what the harness needs as one line of JSON; wrk's own summary has no 99.9th percentile.
done = function (summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"seconds":%.6f,"refused":%d,"broken":%d,"sent":%d,"latency":{"p50":%.1f,"p99":%.1f,"p999":%.1f}}\n',
    summary.requests, summary.duration / 1e6, errors.status, errors.connect + errors.read + errors.write + errors.timeout,
    summary.requests, latency:percentile(50), latency:percentile(99), latency:percentile(99.9)
  ))
end
