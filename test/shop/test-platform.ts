import { createHmac, randomUUID } from 'node:crypto'
import {
  StorePlatformError,
  type Calculation,
  type CartQuestion,
  type Catalog,
  type Fulfilment,
  type HoldRequest,
  type NewPlatformOrder,
  type ShopInfo,
  type StoreAccess,
  type PlatformOrder,
  type StorePlatform,
  type StorePlatformFault
} from '../../src/shop/platform.ts'

type Method =
  | 'shopInfo'
  | 'catalog'
  | 'available'
  | 'calculate'
  | 'hold'
  | 'release'
  | 'createOrder'
  | 'findOrder'
  | 'fulfilments'
  | 'subscribe'

export const MUG = 11
export const SOCKS = 21
export const SOLD_OUT = 22

/** A shop whose every answer is a test's. Nothing keeps it from making an order twice: what does must be the caller. */
export class TestPlatform implements StorePlatform {
  readonly kind = 'sandbox'
  readonly calls: Method[] = []
  /** Methods that fail from now on. */
  readonly faults = new Map<Method, StorePlatformFault | Error>()
  /** Methods that wait before they answer, after they have done what they do. */
  readonly gates = new Map<Method, Promise<void>>()
  /** Every order that was made, in their order. */
  readonly made: NewPlatformOrder[] = []
  readonly taxQuestions: CartQuestion[] = []
  /** The next order is made and its answer lost. */
  losesAnswer = false
  /** Whether the search finds what was made. */
  searchable = true
  taxCents = 123
  readonly gone = new Set<number>()
  /** What is held, by id, and what was released. */
  readonly holds = new Map<string, HoldRequest>()
  readonly released: string[] = []
  /** Prices that the catalog does not know yet, in cents by variant. */
  readonly prices = new Map<number, number>()
  /** Variants without shipping. */
  readonly digital = new Set<number>()
  readonly progress = new Map<string, Partial<Fulfilment>>()
  /** Orders that were asked after, each time they were. */
  readonly askedAfter: string[] = []
  readonly #name = randomUUID()
  goods: Catalog = {
    storeName: 'Corner shop',
    products: [
      {
        productId: 1,
        title: 'Mug',
        description: 'Holds coffee.',
        imageUrl: 'https://cdn.example/mug.png',
        variants: [{ variantId: MUG, title: 'Blue', priceCents: 1999, available: true }]
      },
      {
        productId: 2,
        title: 'Socks',
        description: '',
        imageUrl: null,
        variants: [
          { variantId: SOCKS, title: 'M', priceCents: 5, available: true },
          { variantId: SOLD_OUT, title: 'L', priceCents: 5, available: false }
        ]
      }
    ]
  }

  shopInfo(): Promise<ShopInfo> {
    return this.#answer('shopInfo', () => ({
      name: 'Corner shop',
      domain: 'corner.example',
      handle: 'corner',
      country: 'US',
      currency: 'USD'
    }))
  }

  catalog(): Promise<Catalog> {
    return this.#answer('catalog', () => this.goods)
  }

  available(_store: StoreAccess, items: CartQuestion['items']): Promise<ReadonlySet<number>> {
    return this.#answer('available', () => new Set(items.map(item => item.variantId).filter(id => !this.gone.has(id))))
  }

  calculate(_store: StoreAccess, question: CartQuestion): Promise<Calculation> {
    this.taxQuestions.push(question)
    const variants = this.goods.products.flatMap(product => product.variants)
    return this.#answer('calculate', () => ({
      lines: new Map(
        question.items.map(({ variantId }) => [
          variantId,
          {
            priceCents:
              this.prices.get(variantId) ?? variants.find(variant => variant.variantId === variantId)?.priceCents ?? 0,
            requiresShipping: !this.digital.has(variantId)
          }
        ])
      ),
      taxCents: this.taxCents,
      tax: { lines: [{ title: 'State tax', rate: '0.0725', cents: this.taxCents }], isIncluded: false }
    }))
  }

  hold(_store: StoreAccess, request: HoldRequest): Promise<string | null> {
    return this.#answer('hold', () => {
      const id = `hold-${this.holds.size}`
      this.holds.set(id, request)
      return id
    })
  }

  release(_store: StoreAccess, holdId: string): Promise<void> {
    return this.#answer('release', () => {
      this.released.push(holdId)
    })
  }

  createOrder(_store: StoreAccess, order: NewPlatformOrder): Promise<PlatformOrder> {
    return this.#answer('createOrder', () => {
      const made = this.#make(order)
      if (!this.losesAnswer) return made
      this.losesAnswer = false
      throw new StorePlatformError('away', 'the answer was lost')
    })
  }

  findOrder(_store: StoreAccess, sourceIdentifier: string): Promise<PlatformOrder | null> {
    return this.#answer('findOrder', () => {
      const at = this.made.findIndex(order => order.sourceIdentifier === sourceIdentifier)
      return at < 0 || !this.searchable ? null : this.#orderAt(at)
    })
  }

  fulfilments(_store: StoreAccess, platformOrderIds: readonly string[]): Promise<Fulfilment[]> {
    this.askedAfter.push(...platformOrderIds)
    return this.#answer('fulfilments', () =>
      platformOrderIds.flatMap(id => {
        const seen = this.progress.get(id)
        return seen === undefined ? [] : [fulfilment(id, seen)]
      })
    )
  }

  subscribe(): Promise<void> {
    return this.#answer('subscribe', () => {})
  }

  readNotification(_store: StoreAccess, headers: ReadonlyMap<string, string>, body: Uint8Array): Fulfilment | null {
    if (headers.get('x-test-signature') !== signature(body))
      throw new StorePlatformError('credentials', 'wrong signature')
    let read: unknown
    try {
      read = JSON.parse(Buffer.from(body).toString('utf8'))
    } catch (cause) {
      throw new StorePlatformError('refused', 'no JSON', { cause })
    }
    if (read === null) return null
    // What `notification` wrote.
    const { id, ...seen } = read as { id: string } & Partial<Fulfilment>
    return fulfilment(id, seen)
  }

  async #answer<T>(method: Method, answer: () => T): Promise<T> {
    this.calls.push(method)
    const fault = this.faults.get(method)
    if (fault instanceof Error) throw fault
    if (fault !== undefined) throw new StorePlatformError(fault, `the shop says ${fault}`, { retryAfter: 7 })
    const given = answer()
    await this.gates.get(method)
    return given
  }

  #make(order: NewPlatformOrder): PlatformOrder {
    this.made.push(order)
    return this.#orderAt(this.made.length - 1)
  }

  #orderAt(index: number): PlatformOrder {
    return { platformOrderId: `${this.#name}-${index}`, orderNumber: `#${1001 + index}` }
  }
}

function fulfilment(platformOrderId: string, seen: Partial<Fulfilment>) {
  return {
    isFulfilled: false,
    isShipped: false,
    isCanceled: false,
    tracking: { number: null, carrier: null, url: null },
    shippedAt: null,
    ...seen,
    platformOrderId
  }
}

function signature(body: Uint8Array) {
  return createHmac('sha256', "the shop's secret").update(body).digest('hex')
}

/** A signed notification of the shop's. */
export function notification(body: object | string | null): {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
} {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return { headers: { 'x-test-signature': signature(Buffer.from(text)) }, body: text }
}
