import type { ChainEntryConfig } from '../config/schema.ts'
import { nameAndValue, type ValueConfig, type WhenConfig } from '../sections/when.ts'
import type { Context, Slot } from '../message/context.ts'
import { REQUEST_MALFORMED } from '../operations/error-kinds.ts'
import { asGatewayError, LongError } from '../operations/errors.ts'
import { HeaderList } from '../message/headers.ts'
import { routedPath } from '../message/path.ts'
import { hasParameter, headerValue, queryParameter, type ValueRead } from '../message/request-values.ts'
import type { Hooks, HookResult } from './plugin.ts'
import type { Reply } from '../message/reply.ts'
import type { Log } from '../../platform/telemetry/log.ts'

type Condition = (ctx: Context) => boolean

/** Compiles an entry's `when`; null without one. All given conditions must hold. */
export function conditionOf(when: WhenConfig | undefined): Condition | null {
  if (when === undefined) return null
  const tests: Condition[] = []
  const { method, path, authenticated } = when
  if (method !== undefined) {
    // HEAD follows GET (decision 6): otherwise it would bypass a condition on GET.
    const methods = new Set<string>(method.includes('GET') ? [...method, 'HEAD'] : method)
    tests.push(ctx => methods.has(ctx.method))
  }
  if (path !== undefined) {
    const patterns = path.map(routedPath)
    const exact = new Set<string>(patterns.filter(pattern => !pattern.endsWith('/*')))
    const prefixes = patterns.filter(pattern => pattern.endsWith('/*')).map(pattern => pattern.slice(0, -1))
    tests.push(ctx => {
      // Routes match `/%61` like `/a`; a condition that did not would allow a bypass of the plugin.
      const path = routedPath(ctx.path)
      return exact.has(path) || prefixes.some(prefix => path.startsWith(prefix))
    })
  }
  tests.push(...valueTests(when))
  if (authenticated !== undefined) tests.push(ctx => (ctx.principal !== null) === authenticated)
  return ctx => tests.every(test => test(ctx))
}

/** What conditions compare of a request before its chain runs. */
export type RequestValues = Pick<Context, 'headers' | 'query'>

/**
 * Compares headers and query by what every upstream reads there. The tests throw LongError 400 where an upstream could
 * read another value, which may be sold at another price or not at all.
 */
export function valueTests({ header = [], query = [] }: ValueConfig): Array<(request: RequestValues) => boolean> {
  return [
    ...header.map(nameAndValue).map(([name, value]) => ({ headers }: RequestValues) => {
      return (value === null && headers.has(name.toLowerCase())) || isSaid(headerValue(headers, name), value)
    }),
    ...query.map(nameAndValue).map(([name, value]) => (request: RequestValues) => {
      const isThere = value === null && hasParameter(request.query, name)
      return isThere || isSaid(queryParameter(request.query, name), value)
    })
  ]
}

function isSaid(read: ValueRead, value: string | null): boolean {
  if (read.kind === 'fault') throw new LongError(REQUEST_MALFORMED, 'Bad request', `${read.message}.`)
  return read.kind === 'value' && (value === null || read.value === value)
}

/** Hooks that run only when the condition held on the way down; `taken` remembers the result for the way up. */
export function conditional(hooks: Hooks, condition: Condition, taken: Slot<boolean>): Hooks {
  const out: Hooks = {
    request(ctx) {
      if (!condition(ctx)) return
      ctx.set(taken, true)
      return hooks.request?.(ctx)
    }
  }
  if (hooks.observe !== undefined)
    out.observe = ctx => {
      if (!condition(ctx)) return
      ctx.set(taken, true)
      return hooks.observe?.(ctx)
    }
  if (hooks.upstream !== undefined)
    out.upstream = (ctx, request) => {
      if (ctx.get(taken) === true) hooks.upstream?.(ctx, request)
    }
  if (hooks.response !== undefined)
    out.response = (ctx, head) => {
      if (ctx.get(taken) === true) return hooks.response?.(ctx, head)
    }
  if (hooks.chunk !== undefined)
    out.chunk = (ctx, bytes) => {
      if (ctx.get(taken) === true) return hooks.chunk?.(ctx, bytes)
    }
  if (hooks.last !== undefined) out.last = ctx => (ctx.get(taken) === true ? (hooks.last?.(ctx) ?? null) : null)
  if (hooks.done !== undefined)
    out.done = (ctx, outcome) => {
      if (ctx.get(taken) === true) hooks.done?.(ctx, outcome)
    }
  if (hooks.close !== undefined) out.close = () => hooks.close?.()
  return out
}

/**
 * Hooks that decide and log but change nothing. On the way up they see a copy of the head, so that a lease is still
 * spent and a measurement taken.
 */
export function observing(hooks: Hooks, entry: ChainEntryConfig, log: Log): Hooks {
  const note = (ctx: Context, status: number, text: string): void => {
    log.warn(
      { plugin: entry.plugin, route: ctx.route.name, correlationId: ctx.correlationId, status },
      `observe: would have answered ${status}: ${text}`
    )
  }
  const refused = (ctx: Context, error: unknown): void => {
    const known = asGatewayError(error)
    note(ctx, known.status, known.message)
  }
  const later = async (ctx: Context, step: Promise<void | Reply>): Promise<void> => {
    try {
      const reply = await step
      if (reply !== undefined) note(ctx, reply.status, 'reply')
    } catch (error) {
      refused(ctx, error)
    }
  }
  const decide = (hooks.observe ?? hooks.request)?.bind(hooks)
  const out: Hooks = {
    request(ctx): HookResult {
      try {
        const step = decide?.(ctx)
        if (step === undefined) return
        if ('then' in step) return later(ctx, step)
        note(ctx, step.status, 'reply')
      } catch (error) {
        refused(ctx, error)
      }
    }
  }
  if (hooks.response !== undefined) {
    out.response = (ctx, head) => {
      try {
        const pending = hooks.response?.(ctx, {
          status: head.status,
          source: head.source,
          headers: new HeaderList(head.headers.pairs.slice())
        })
        if (pending !== undefined)
          return pending.catch((error: unknown) => {
            refused(ctx, error)
          })
      } catch (error) {
        refused(ctx, error)
      }
    }
  }
  if (hooks.chunk !== undefined) {
    out.chunk = (ctx, bytes) => {
      try {
        const pending = hooks.chunk?.(ctx, bytes)
        // Observing hooks never delay the request.
        if (pending !== undefined)
          pending.catch((error: unknown) => {
            refused(ctx, error)
          })
      } catch (error) {
        refused(ctx, error)
      }
    }
  }
  if (hooks.done !== undefined) out.done = hooks.done.bind(hooks)
  if (hooks.close !== undefined) out.close = hooks.close.bind(hooks)
  return out
}
