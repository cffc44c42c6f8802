import t from 'tap'
import { Chain } from '../../../src/engine/pipeline/chain.ts'
import { HeaderList } from '../../../src/engine/message/headers.ts'
import type { Context } from '../../../src/engine/message/context.ts'
import type { Hooks } from '../../../src/engine/pipeline/plugin.ts'
import type { Head, Outcome, Reply } from '../../../src/engine/message/reply.ts'

// The chain hands the context through and looks at nothing of it.
const ctx = {} as Context
const outcome = {} as Outcome
const reply: Reply = { status: 200, headers: [], body: null }
const begin = () => ({ next: 0, stopped: false })
const head = (): Head => ({ status: 200, headers: new HeaderList(), source: 'reply' })

/** Three plugins and a terminal one that write down what is called. */
function recorded(change: Partial<Record<'a' | 'b' | 'c', Hooks>> = {}): { chain: Chain; calls: string[] } {
  const calls: string[] = []
  const hooks = (['a', 'b', 'c'] as const).map((name): Hooks => ({
    request() {
      calls.push(`${name} request`)
    },
    response() {
      calls.push(`${name} response`)
    },
    upstream() {
      calls.push(`${name} upstream`)
    },
    chunk() {
      calls.push(`${name} chunk`)
    },
    done() {
      calls.push(`${name} done`)
    },
    close() {
      calls.push(`${name} close`)
    },
    ...change[name]
  }))
  return {
    calls,
    chain: new Chain(
      [
        ...hooks,
        {
          handle: () => {
            calls.push('handle')
          }
        }
      ],
      0
    )
  }
}

t.test('a chain without a terminal plugin is refused', async t => {
  t.throws(() => new Chain([{}], 0), /terminal/)
  t.throws(() => new Chain([], 0), /terminal/)
})

t.test('requests go down, answers go up, without a promise', async t => {
  const { chain, calls } = recorded()
  const progress = begin()
  t.equal(chain.enter(ctx, progress), undefined)
  t.equal(chain.handle(ctx, {} as never), undefined)
  t.equal(chain.leave(ctx, head(), progress), undefined)
  chain.chunk(ctx, new Uint8Array(1), progress)
  chain.settle(ctx, outcome, progress, () => {})
  t.same(calls, [
    'a request',
    'b request',
    'c request',
    'handle',
    'c response',
    'b response',
    'a response',
    'c chunk',
    'b chunk',
    'a chunk',
    'c done',
    'b done',
    'a done'
  ])
})

t.test('a reply stops the way down, and only plugins that were entered see the rest', async t => {
  const { chain, calls } = recorded({ b: { request: () => reply } })
  const progress = begin()
  t.equal(chain.enter(ctx, progress), reply)
  void chain.leave(ctx, head(), progress)
  chain.settle(ctx, outcome, progress, () => {})
  t.same(calls, ['a request', 'b response', 'a response', 'b done', 'a done'])
})

t.test('a plugin whose request throws was entered', async t => {
  const { chain, calls } = recorded({
    b: {
      request() {
        throw new Error('no')
      }
    }
  })
  const progress = begin()
  t.throws(() => chain.enter(ctx, progress), /no/)
  chain.settle(ctx, outcome, progress, () => {})
  t.same(calls, ['a request', 'b done', 'a done'])
})

t.test('a promise is waited for, also a second one, and its reply counts', async t => {
  const { chain, calls } = recorded({ a: { request: async () => {} }, b: { request: () => Promise.resolve() } })
  await chain.enter(ctx, begin())
  t.same(calls, ['c request'])
  t.equal(await recorded({ b: { request: () => Promise.resolve(reply) } }).chain.enter(ctx, begin()), reply)
  t.equal(
    await recorded({ a: { request: async () => {} }, b: { request: () => reply } }).chain.enter(ctx, begin()),
    reply
  )
  await t.rejects(
    Promise.resolve(recorded({ b: { request: () => Promise.reject(new Error('later')) } }).chain.enter(ctx, begin())),
    /later/
  )
})

t.test('answers keep their order when a hook on the way up takes its time', async t => {
  const { chain, calls } = recorded({
    c: { response: async () => {} },
    b: {
      response: async () => {
        await Promise.resolve()
        calls.push('b late')
      }
    }
  })
  const progress = begin()
  void chain.enter(ctx, progress)
  calls.length = 0
  await chain.leave(ctx, head(), progress)
  t.same(calls, ['b late', 'a response'])
})

t.test('upstream hooks run in the order of the file', async t => {
  const { chain, calls } = recorded()
  chain.forwarding(ctx, { method: 'GET', path: '/', headers: new HeaderList() })
  t.same(calls, ['a upstream', 'b upstream', 'c upstream'])
})

t.test('every plugin is closed even if one throws, and the error is reported', async t => {
  const { chain, calls } = recorded({
    a: {
      close() {
        throw new Error('stuck')
      }
    },
    b: { close: () => Promise.reject(new Error('later')) }
  })
  await t.rejects(chain.close(), /stuck/)
  t.same(calls, ['c close'])
})

t.test('hooks that use this keep it', async t => {
  class Counter implements Hooks {
    count = 0
    request(): void {
      this.count++
    }
    handle(): void {
      this.count++
    }
  }
  const counter = new Counter()
  const chain = new Chain([counter], 0)
  void chain.enter(ctx, begin())
  void chain.handle(ctx, {} as never)
  t.equal(counter.count, 2)
})
