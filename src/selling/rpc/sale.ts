import type { CallPrices } from '../../engine/checks/price.ts'
import type { RouteConfig } from '../../engine/config/schema.ts'
import { RouteOffers, type Offer } from '../offers/offer.ts'
import { challengeLines, offeredSchemes } from '../minting/replies.ts'
import { keepPrivate } from '../holding/paid-responses.ts'
import type { Challenges } from '../challenges/service.ts'
import type { SentChallenge } from '../holding/challenge.ts'
import type { CredentialRefusal } from '../verifying/verdict.ts'
import type { Context } from '../../engine/message/context.ts'
import { METHOD_NOT_ALLOWED, REQUEST_MALFORMED } from '../../engine/operations/error-kinds.ts'
import { GatewayError, LongError } from '../../engine/operations/errors.ts'
import { bodyCoding, otherCharset, readUnpaidBody } from '../../engine/message/unpaid-body.ts'
import type { Outcome, Reply } from '../../engine/message/reply.ts'
import type { Responder } from '../../engine/pipeline/plugin.ts'
import { readCredential } from '../../lightning/codecs/credential.ts'
import { encodeReceipt } from '../../lightning/payment-scheme/payment-credential.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { CallsUnderWay, type PaidCall } from './calls.ts'
import { readMessages, type PricedCall, type RoutingHeaders, type RpcMessage } from './message.ts'
import { RpcResponder } from './response.ts'
import {
  CREDENTIAL,
  errorText,
  faultText,
  INVALID_PARAMS,
  INVALID_REQUEST,
  paymentError,
  X402_PAYMENT,
  x402Result
} from './wire.ts'

interface RpcSaleDependencies {
  readonly challenges: Challenges
  readonly clock: Clock
  readonly route: RouteConfig
  readonly prices: CallPrices
  forward(ctx: Context, responder: Responder, body: Uint8Array | null): void | Promise<void>
}

export interface RpcUnderWay {
  readonly calls: CallsUnderWay
  readonly responder: RpcResponder | null
}

/** The response to a call that was not forwarded, with its challenge. */
interface Answered {
  readonly text: string
  readonly challenge: SentChallenge | null
}

const JSON_TYPE = ['Content-Type', 'application/json', 'Cache-Control', 'no-store']
/** Streamable HTTP requests without a message: the server's message stream, and the end of a session. */
const MCP_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS'])
const PLAIN_METHODS: ReadonlySet<string> = new Set(['OPTIONS'])

export class RpcSale {
  readonly #dependencies: RpcSaleDependencies
  readonly #offers: RouteOffers

  /** @throws TypeError for contradictory settings */
  constructor(dependencies: RpcSaleDependencies) {
    const fault = settingsFault(dependencies.prices)
    if (fault !== null) throw new TypeError(fault)
    this.#dependencies = dependencies
    this.#offers = dependencies.challenges.routeOffers(dependencies.route)
  }

  /**
   * Handles a request: forwards free calls unchanged and paid ones without credentials, and answers the rest. `begun`
   * gets what the request's end must finish.
   */
  handle(ctx: Context, responder: Responder, begun: (inFlight: RpcUnderWay) => void): void | Promise<void | Reply> {
    const { prices, forward } = this.#dependencies
    if (ctx.upgrade !== null) throw notTaken('Calls are sold over POST; there is no upgrade.')
    if (ctx.method === 'POST') return this.#post(ctx, responder, begun)
    if (!(prices.protocol === 'mcp' ? MCP_METHODS : PLAIN_METHODS).has(ctx.method))
      throw notTaken('Messages are sent with POST.')
    // Its body would pass unchecked.
    if (ctx.body.length !== 0)
      throw new LongError(REQUEST_MALFORMED, 'Bad request', `A ${ctx.method} has no body here.`)
    return forward(ctx, responder, null)
  }

  async #post(ctx: Context, responder: Responder, begun: (inFlight: RpcUnderWay) => void): Promise<void | Reply> {
    const { prices, forward } = this.#dependencies
    const routing = prices.protocol === 'mcp' ? routingHeaders(ctx) : null
    const fault = codingFault(ctx)
    if (fault !== null) return refusal(fault)
    if (typeof routing === 'string') return refusal(routing)
    const bytes = await readUnpaidBody(ctx, body =>
      [CREDENTIAL, X402_PAYMENT].some(name => Buffer.from(body.buffer, body.byteOffset, body.byteLength).includes(name))
    )
    const takesX402 = this.#dependencies.challenges.settings.x402Origin !== null
    const read = readMessages(bytes, prices, routing, takesX402)
    if ('code' in read) return answer(errorText(read.id, read.code, read.message))
    const { messages, isBatch, isUntouched } = read
    const announces = messages.flatMap(message =>
      message.kind === 'free' && message.announces !== null ? [message.announces] : []
    )
    if (isUntouched && announces.length === 0 && messages.every(({ kind }) => kind === 'free'))
      return forward(ctx, responder, null)

    const { challenges, clock } = this.#dependencies
    const { protocol, toolErrors } = prices
    const calls = new CallsUnderWay({ challenges, clock, protocol, toolErrors }, announces)
    begun({ calls, responder: null })
    const judged = new Map<RpcMessage, Answered>()
    // All of them, even if one fails: a payment leased after the request's end would never be released.
    const judging = await Promise.allSettled(
      messages.map(async message => {
        if (message.kind !== 'priced') return
        const verdict = await this.#judge(ctx, message.call)
        if ('paid' in verdict) calls.add(verdict)
        else judged.set(message, verdict)
      })
    )
    const failed = judging.find(each => each.status === 'rejected')
    if (failed !== undefined) throw failed.reason
    const own: string[] = []
    const texts: string[] = []
    let challenge: SentChallenge | null = null
    for (const message of messages) {
      const verdict = judged.get(message)
      if (message.kind === 'refused')
        own.push(errorText(message.refusal.id, message.refusal.code, message.refusal.message))
      else if (verdict !== undefined) {
        own.push(verdict.text)
        challenge = verdict.challenge
      } else if (message.kind !== 'dropped') texts.push(message.text)
    }
    if (texts.length === 0 && messages.length > 0) {
      if (own.length === 0) return { status: protocol === 'mcp' ? 202 : 204, headers: [], body: null }
      if (isBatch) return answer(`[${own.join(',')}]`)
      return answer(own[0] ?? '', challenge === null ? [] : this.#lines(ctx, challenge))
    }
    if (responder.gone) return
    ctx.payment = calls.payment
    const between = new RpcResponder(responder, {
      calls,
      own,
      paidHead: headers => {
        if (ctx.payment === null) return
        keepPrivate(headers)
        const { only } = calls
        if (only !== null && only.challengeId !== null && calls.hasSold)
          headers.set(
            'Payment-Receipt',
            encodeReceipt(only.challengeId, only.payment.paymentHash, Math.floor(clock.now() / 1000))
          )
      }
    })
    begun({ calls, responder: between })
    const isWhole = isUntouched && texts.length === messages.length
    return forward(ctx, between, isWhole ? null : Buffer.from(isBatch ? `[${texts.join(',')}]` : (texts[0] ?? '')))
  }

  async #judge(ctx: Context, call: PricedCall): Promise<PaidCall | Answered> {
    const { challenges } = this.#dependencies
    const offer = offerOf(ctx, this.#offers.ofCall(ctx, call.amount, call.label), call)
    try {
      const inMessage = call.credential !== undefined || call.x402 !== undefined
      const takesX402 = challenges.settings.x402Origin !== null
      if (inMessage && readCredential(ctx.headers.pairs, false, takesX402).kind !== 'none')
        return answered(
          errorText(
            call.id,
            INVALID_PARAMS,
            'Invalid params: one payment credential in _meta and another in the headers'
          )
        )
      const verdict =
        call.x402 !== undefined
          ? await challenges.verifyX402(ctx, offer, call.x402)
          : call.credential !== undefined
            ? await challenges.verifyObject(ctx, offer, call.credential)
            : await challenges.verify(ctx, offer)
      if (verdict.kind === 'paid') return { call, offer, paid: verdict }
      if (isMalformed(verdict))
        return answered(errorText(call.id, INVALID_PARAMS, `Invalid params: ${verdict.detail}`, { httpStatus: 402 }))
      const challenge = await challenges.challenge(ctx, offer)
      const byX402 = this.#paysByX402(ctx, call) ? x402Result(call.id, challenge, verdict, call.hasX402Extension) : null
      return { challenge, text: byX402 ?? paymentError(call.id, challenge, verdict) }
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      return answered(faultText(call.id, error))
    }
  }

  /** A message has room for one protocol: the client's own where it is known, else the first of the settings. */
  #paysByX402(ctx: Context, call: PricedCall): boolean {
    if (call.x402 !== undefined || call.hasX402Extension) return true
    const { settings } = this.#dependencies.challenges
    return settings.x402First && call.credential === undefined && !ctx.headers.has('accept-payment')
  }

  /** The HTTP challenge, for clients that pay that way. */
  #lines(ctx: Context, challenge: SentChallenge): string[] {
    const { settings } = this.#dependencies.challenges
    const order = this.#dependencies.route.order ?? null
    return challengeLines(challenge, offeredSchemes(settings, ctx.headers, { order }), settings)
  }
}

export function endRpc(ctx: Context, { calls, responder }: RpcUnderWay, outcome: Outcome): void {
  // Nothing was forwarded yet.
  if (responder === null) void calls.returnAll()
  else calls.over(ctx, outcome, responder.isResumable)
}

/** What a call would buy: the path with the operation as a fragment, which no request path has. */
function offerOf(ctx: Context, base: Offer, { operation, label, digest, tool }: PricedCall): Offer {
  const path = `${ctx.path}#${operation}`
  return {
    ...base,
    path,
    tokenPath: path,
    wildcard: false,
    description: `${base.description} ${label}`,
    callDigest: digest,
    ...(tool === null || tool === undefined ? {} : { tool })
  }
}

function isMalformed(refusal: CredentialRefusal): refusal is Exclude<CredentialRefusal, { kind: 'none' }> {
  return refusal.kind !== 'none' && refusal.reason === 'malformed'
}

function answered(text: string): Answered {
  return { text, challenge: null }
}

function refusal(fault: string): Reply {
  return answer(errorText(null, INVALID_REQUEST, `Invalid Request: ${fault}`))
}

function answer(text: string, lines: readonly string[] = []): Reply {
  return { status: 200, headers: [...JSON_TYPE, ...lines], body: text }
}

/** Why the upstream may decode a body differently; else null. */
function codingFault({ headers }: Context): string | null {
  const coding = bodyCoding(headers)
  if (coding !== null) return `the body is coded (${JSON.stringify(coding)}); send it as it is`
  if (headers.all('content-type').length > 1) return 'there is more than one Content-Type'
  const charset = otherCharset(headers)
  return charset === null ? null : `the body is said to be in ${JSON.stringify(charset)}; JSON is UTF-8`
}

function routingHeaders({ headers }: Context): RoutingHeaders | string {
  const [methods, names] = [headers.all('mcp-method'), headers.all('mcp-name')]
  if (methods.length > 1 || names.length > 1) return 'there is more than one Mcp-Method or Mcp-Name'
  return { method: methods[0], name: names[0] }
}

function notTaken(message: string): LongError {
  return new LongError(METHOD_NOT_ALLOWED, 'Method not allowed', message, {}, ['Allow', 'POST'])
}

function settingsFault(prices: CallPrices): string | null {
  const { protocol, tools, resources, prompts, methods } = prices
  const ofMcp = { tools, resources, prompts }
  const wrong =
    protocol === 'mcp'
      ? methods === undefined
        ? null
        : 'methods'
      : (Object.entries(ofMcp).find(([, list]) => list !== undefined)?.[0] ?? null)
  if (wrong !== null)
    return `found prices of ${wrong} with protocol: ${protocol}; allowed: ${protocol === 'mcp' ? 'tools, resources and prompts' : 'methods'}`
  const all = [tools, resources, prompts, methods].flatMap(list => Object.entries(list ?? {}))
  if (!all.some(([, amount]) => amount !== 0)) return 'found no price above 0; allowed: a chain without mcp'
  const odd = all.find(([name]) => name.slice(0, -1).includes('*'))
  if (odd !== undefined) return `found a price of ${JSON.stringify(odd[0])}; allowed: a star at the end of a name only`
  return null
}
