import { isoTimeQuery } from '../../engine/formats/iso-time.ts'
import { Type } from 'typebox'
import { percentileMs, type Measured } from './measured.ts'

const milliseconds = (share: string) =>
  Type.Unsafe<number | null>({
    type: ['number', 'null'],
    description: `Milliseconds within which ${share} of the requests were over; null where there were none.`
  })

export const REQUESTS_VIEW = {
  requests: Type.Integer({ description: 'Requests that are over.' }),
  asked: Type.Integer({ description: 'Of these answered with 402.' }),
  paidRequests: Type.Integer({ description: 'Of these served for a payment.' }),
  clientErrors: Type.Integer({ description: 'Of these answered with 4xx other than 402.' }),
  serverErrors: Type.Integer({ description: 'Of these answered with 5xx.' }),
  upstreamFailures: Type.Integer({
    description: 'Of these whose upstream could not be reached, was late, or broke off.'
  }),
  unfinished: Type.Integer({ description: 'Of these whose response did not reach the client completely.' }),
  p50: milliseconds('half'),
  p99: milliseconds('99 of 100')
}

export function requestsOf(sums: Measured) {
  const { requests, asked, paidRequests, clientErrors, serverErrors, upstreamFailures, unfinished } = sums
  return {
    requests,
    asked,
    paidRequests,
    clientErrors,
    serverErrors,
    upstreamFailures,
    unfinished,
    p50: percentileMs(sums, 0.5),
    p99: percentileMs(sums, 0.99)
  }
}

export const PERIOD_QUERY = {
  from: Type.Optional(isoTimeQuery('ISO 8601; the whole step that it is in. A day before `to` unless said.')),
  to: Type.Optional(isoTimeQuery('ISO 8601; the step before it is the last. Now unless said.'))
}
