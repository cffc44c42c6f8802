import { Type } from 'typebox'
import type { Context } from '../../engine/message/context.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'

const QUOTES = Object.freeze([
  'Money is a matter of functions four: a medium, a measure, a standard, a store.',
  'A penny saved is a penny earned.',
  'Beware of little expenses; a small leak will sink a great ship.',
  'He that goes a borrowing goes a sorrowing.',
  'Pay what you owe, and you will know what is your own.'
])

const Quote = Type.Object({ quote: Type.String(), paidSats: Type.Integer() }, { title: 'Quote' })
const Echo = Type.Object({ echo: Type.Unknown(), paidSats: Type.Integer() }, { title: 'Echo' })

const quote = {
  method: 'GET',
  tag: 'demo',
  access: 'credential',
  responses: { 200: { description: 'The proverb.', schema: Quote } },
  handle({ ctx }: { readonly ctx: Context }) {
    const quote = QUOTES[Math.floor(ctx.now / 1000) % QUOTES.length] ?? ''
    return { status: 200, body: { quote, paidSats: ctx.payment?.amountSats ?? 0 } }
  }
} as const

/** Upstream `demo` of the default deployment: something to buy without an API of one's own. */
function demoOperations(): AnyOperation[] {
  return [
    defineOperation({
      ...quote,
      id: 'getDemoQuote',
      path: '/demo/quote',
      summary: 'A proverb about money',
      description:
        "Something to buy before there is an API of one's own: without a credential 402 with an invoice, with it one of a few proverbs."
    }),
    defineOperation({
      ...quote,
      id: 'getDemoCharge',
      path: '/demo/charge',
      summary: 'The same proverb, for clients of the Payment scheme',
      description:
        'Some clients read the first line of WWW-Authenticate alone. Here that is the Payment line; everywhere else it is ' +
        'the L402 line, unless Accept-Payment asks for the other.'
    }),
    defineOperation({
      id: 'postDemoEcho',
      method: 'POST',
      path: '/demo/echo',
      summary: 'Sends the JSON body back',
      description:
        'For trying payment with a body: a Payment credential is bound to the very bytes that were challenged. Any JSON will do.',
      tag: 'demo',
      access: 'credential',
      body: Type.Unknown(),
      responses: { 200: { description: 'The body.', schema: Echo } },
      handle: ({ ctx, body }) => ({ status: 200, body: { echo: body, paidSats: ctx.payment?.amountSats ?? 0 } })
    })
  ]
}

export function openDemo() {
  return { operations: demoOperations() }
}
