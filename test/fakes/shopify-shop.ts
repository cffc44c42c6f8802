import type { Clock } from '../../src/platform/system/clock.ts'

/** A variant and what is left of it. Amounts in cents. */
export interface FakeVariant {
  readonly id: number
  title: string
  priceCents: number
  stock: number
  policy: 'DENY' | 'CONTINUE'
  tracked: boolean
  requiresShipping: boolean
}

/** A product as the shop's owner has set it up. */
export interface FakeProduct {
  readonly id: number
  title: string
  description: string
  status: 'ACTIVE' | 'DRAFT' | 'ARCHIVED'
  publishedAt: string | null
  isGiftCard: boolean
  requiresSellingPlan: boolean
  imageUrl: string | null
  variants: FakeVariant[]
}

/** A parcel. */
export interface FakeFulfilment {
  readonly id: number
  status: string
  displayStatus: string | null
  readonly createdAt: string
  inTransitAt: string | null
  company: string | null
  number: string | null
  url: string | null
}

/** An order as it was made, with what was asked for. */
export interface FakeOrder {
  readonly id: number
  readonly name: string
  readonly input: OrderInput
  readonly options: Readonly<Record<string, unknown>>
  readonly createdAt: string
  fulfillmentStatus: 'UNFULFILLED' | 'PARTIALLY_FULFILLED' | 'FULFILLED'
  cancelledAt: string | null
  readonly fulfilments: FakeFulfilment[]
  /** The search knows it; the list without a search always does. */
  isIndexed: boolean
}

interface MoneySet {
  readonly shopMoney: { readonly amount: string; readonly currencyCode: string }
}

/** What the fake reads of `OrderCreateOrderInput`, after the schema has checked its forms. */
export interface OrderInput {
  readonly currency?: string
  readonly email?: string
  readonly sourceIdentifier?: string
  readonly tags?: readonly string[]
  readonly note?: string
  readonly customAttributes?: ReadonlyArray<{ readonly key: string; readonly value: string }>
  readonly lineItems?: ReadonlyArray<{
    readonly variantId?: string
    readonly quantity: number
    readonly priceSet?: MoneySet
    readonly requiresShipping?: boolean
  }>
  readonly shippingAddress?: Readonly<Record<string, string | null>>
  readonly shippingLines?: ReadonlyArray<{ readonly title: string; readonly priceSet: MoneySet }>
  readonly taxesIncluded?: boolean
  readonly taxLines?: ReadonlyArray<{ readonly title: string; readonly rate: string; readonly priceSet?: MoneySet }>
  readonly financialStatus?: string
  readonly transactions?: ReadonlyArray<{
    readonly kind?: string
    readonly status?: string
    readonly gateway?: string
    readonly amountSet: MoneySet
  }>
}

/** A draft order that was kept, with what it reserves. */
export interface FakeDraft {
  readonly id: number
  readonly until: number
  readonly lines: FakeCalculation['lines']
  isReserving: boolean
  readonly tags: readonly string[]
}

/** What the fake reads of `DraftOrderInput`. */
export interface DraftInput {
  readonly lineItems?: ReadonlyArray<{ readonly variantId?: string; readonly quantity: number }>
  readonly reserveInventoryUntil?: string
  readonly tags?: readonly string[]
  readonly shippingAddress?: { readonly countryCode?: string; readonly provinceCode?: string; readonly zip?: string }
  readonly shippingLine?: {
    readonly title?: string
    readonly priceWithCurrency?: { readonly amount: string; readonly currencyCode: string }
  }
}

/** A domain error, which Shopify answers with status 200. */
export class UserError extends Error {
  readonly code: string
  readonly field: readonly string[]

  constructor(code: string, field: readonly string[], message: string) {
    super(message)
    this.code = code
    this.field = field
  }
}

/** What a draft comes to, in cents. */
export interface FakeCalculation {
  readonly lines: ReadonlyArray<{ readonly variant: FakeVariant; readonly quantity: number }>
  readonly taxLines: ReadonlyArray<{ readonly title: string; readonly rate: number; readonly cents: number }>
  readonly subtotal: number
  readonly shipping: number
  readonly tax: number
  readonly total: number
}

/** The state's share of a rate, in hundred-thousandths; what is above it is the city's. */
const STATE_SHARE = 4000

/**
 * The state's tax on two lines, as the real one lists each for every line of goods and for shipping, and the city's on
 * one.
 */
function taxLinesOf(title: string, rate: number, tax: number): FakeCalculation['taxLines'] {
  if (tax === 0) return []
  if (rate <= STATE_SHARE) return [{ title, rate: rate / 100_000, cents: tax }]
  const state = Math.floor((tax * STATE_SHARE) / rate)
  const part = Math.floor(state / 3)
  return [
    { title, rate: STATE_SHARE / 100_000, cents: part },
    { title: 'City Tax', rate: (rate - STATE_SHARE) / 100_000, cents: tax - state },
    { title, rate: STATE_SHARE / 100_000, cents: state - part }
  ]
}

const AMOUNT = /^(\d{1,9})\.(\d{2})$/
/** Characters of a tag of an order. */
const LONGEST_TAG = 40

/** The shop itself: its goods, its taxes and its orders. What a test needs otherwise it sets on the fields. */
export class FakeShop {
  name = 'Example Goods'
  domain = 'example.myshopify.com'
  currency = 'USD'
  country: string | null = 'US'
  taxesIncluded = false
  taxShipping = false
  /** By country, or country and state: hundred-thousandths, so that 8.875 % fits. */
  readonly taxRates = new Map([
    ['US-CA', 7250],
    ['US-NY', 8875],
    ['US-TX', 6250],
    ['CA-ON', 13_000],
    ['DE', 19_000]
  ])
  /** Warnings that a calculation carries. */
  taxWarnings: Array<{ readonly field: string; readonly message: string; readonly errorCode: string }> = []
  readonly products: FakeProduct[] = []
  readonly orders: FakeOrder[] = []
  drafts: FakeDraft[] = []
  /** New orders are not found by the search until `index` is called. */
  isSearchBehind = false
  readonly #clock: Clock
  #ids = 5_000_000_000_000

  constructor(clock: Clock) {
    this.#clock = clock
    this.addProduct(
      'Linen Tote',
      [
        ['Natural', 1850, 40],
        ['Black', 1850, 0]
      ],
      'A bag for the market.'
    )
    this.addProduct('Enamel Mug', [['Default Title', 1299, 25]], 'Holds 350 ml of something hot.')
    this.addProduct(
      'Notebook',
      [
        ['Plain', 899, 100],
        ['Ruled', 949, 3]
      ],
      'A5, 120 pages.'
    )
    this.addProduct('Not yet', [['Default Title', 100, 5]], 'Comes later.').status = 'DRAFT'
    this.addProduct('Over the counter', [['Default Title', 100, 5]], 'Not sold online.').publishedAt = null
  }

  addProduct(
    title: string,
    variants: ReadonlyArray<readonly [title: string, priceCents: number, stock: number]>,
    description = ''
  ): FakeProduct {
    const product: FakeProduct = {
      id: this.id(),
      title,
      description,
      status: 'ACTIVE',
      publishedAt: this.now(),
      isGiftCard: false,
      requiresSellingPlan: false,
      imageUrl: `https://cdn.example.com/${title.toLowerCase().replaceAll(/[^a-z]+/g, '-')}.png`,
      variants: variants.map(([name, priceCents, stock]) => ({
        id: this.id(),
        title: name,
        priceCents,
        stock,
        policy: 'DENY',
        tracked: true,
        requiresShipping: true
      }))
    }
    this.products.push(product)
    return product
  }

  variant(id: number): FakeVariant | undefined {
    return this.products.flatMap(({ variants }) => variants).find(variant => variant.id === id)
  }

  /** By its title and its product's, such as `Notebook`, `Ruled`. */
  variantOf(product: string, title = 'Default Title'): FakeVariant {
    const found = this.products.find(held => held.title === product)?.variants.find(variant => variant.title === title)
    if (found === undefined) throw new Error(`there is no ${title} of ${product}`)
    return found
  }

  productOf(variantId: number): FakeProduct | undefined {
    return this.products.find(({ variants }) => variants.some(({ id }) => id === variantId))
  }

  order(sourceIdentifier: string): FakeOrder | undefined {
    return this.orders.find(({ input }) => input.sourceIdentifier === sourceIdentifier)
  }

  /** Makes an order, and takes its goods from the stock as the options say. @throws UserError */
  createOrder(input: OrderInput, options: Readonly<Record<string, unknown>>): FakeOrder {
    const lines = (input.lineItems ?? []).map((line, index) => {
      const variant = this.variant(idOf(line.variantId ?? ''))
      if (variant === undefined)
        throw new UserError(
          'INVALID',
          ['order', 'lineItems', String(index), 'variantId'],
          'The variant does not exist.'
        )
      return { variant, quantity: line.quantity }
    })
    if (lines.length === 0)
      throw new UserError('INVALID', ['order', 'lineItems'], 'Line items must have at least one line item')
    if (input.email !== undefined && !/^[^@\s]+@[^@\s]+\.[^@\s]+$/.test(input.email))
      throw new UserError('INVALID', ['order', 'email'], 'Email is invalid')
    if ((input.tags ?? []).some(tag => tag.length > LONGEST_TAG))
      throw new UserError('INVALID', ['order', 'tags'], `A tag is at most ${LONGEST_TAG} characters`)
    for (const { amountSet } of input.transactions ?? []) requireAmount(amountSet, this.currency)
    const isObeying = options.inventoryBehaviour === 'DECREMENT_OBEYING_POLICY'
    for (const { variant, quantity } of lines) {
      if (isObeying && variant.tracked && variant.policy === 'DENY' && variant.stock < quantity)
        throw new UserError('INVENTORY_CLAIM_FAILED', ['order', 'lineItems'], 'Unable to reserve inventory')
    }
    if (isObeying || options.inventoryBehaviour === 'DECREMENT_IGNORING_POLICY')
      for (const { variant, quantity } of lines) variant.stock -= quantity
    const order: FakeOrder = {
      id: this.id(),
      name: `#${1001 + this.orders.length}`,
      input: structuredClone(input),
      options: structuredClone(options),
      createdAt: this.now(),
      fulfillmentStatus: 'UNFULFILLED',
      cancelledAt: null,
      fulfilments: [],
      isIndexed: !this.isSearchBehind
    }
    this.orders.push(order)
    return order
  }

  /** The search has caught up. */
  index(): void {
    for (const order of this.orders) order.isIndexed = true
  }

  /** Keeps a draft, and takes what it reserves from the stock. @throws UserError */
  createDraft(input: DraftInput): FakeDraft {
    const { lines } = this.calculate(input)
    const isReserving = input.reserveInventoryUntil !== undefined
    if (isReserving) {
      for (const { variant, quantity } of lines) {
        if (variant.tracked && variant.policy === 'DENY' && variant.stock < quantity)
          throw new UserError('INVALID', ['input', 'lineItems'], 'Unable to reserve inventory')
      }
      for (const { variant, quantity } of lines) variant.stock -= quantity
    }
    const draft = {
      id: this.id(),
      until: Date.parse(input.reserveInventoryUntil ?? '1970-01-01'),
      lines,
      isReserving,
      tags: input.tags ?? []
    }
    this.drafts.push(draft)
    return draft
  }

  /** Deletes a draft; what it reserved is back in the stock. @throws UserError */
  deleteDraft(id: number): void {
    this.lapse()
    const draft = this.drafts.find(held => held.id === id)
    if (draft === undefined) throw new UserError('INVALID', ['input', 'id'], 'Draft order not found')
    if (draft.isReserving) for (const { variant, quantity } of draft.lines) variant.stock += quantity
    this.drafts = this.drafts.filter(held => held !== draft)
  }

  /** Reservations whose time is over end. */
  lapse(): void {
    for (const draft of this.drafts) {
      if (!draft.isReserving || draft.until > this.#clock.now()) continue
      for (const { variant, quantity } of draft.lines) variant.stock += quantity
      draft.isReserving = false
    }
  }

  /** Works out a draft. Amounts in cents. @throws UserError */
  calculate(input: DraftInput): FakeCalculation {
    const variants: Array<{ readonly variant: FakeVariant; readonly quantity: number }> = []
    const lines = (input.lineItems ?? []).map(({ variantId = '', quantity }) => {
      const variant = this.variant(idOf(variantId))
      if (variant === undefined)
        throw new UserError('INVALID', ['input', 'lineItems'], 'Product with ID does not exist.')
      variants.push({ variant, quantity })
      return variant.priceCents * quantity
    })
    if (lines.length === 0) throw new UserError('INVALID', ['input', 'lineItems'], 'Add at least 1 product')
    const subtotal = lines.reduce((sum, cents) => sum + cents, 0)
    const shipping = centsOf(input.shippingLine?.priceWithCurrency?.amount ?? '0.00')
    const { countryCode = '', provinceCode = '' } = input.shippingAddress ?? {}
    if (countryCode === 'US' && provinceCode !== '' && !/^[A-Z]{2}$/.test(provinceCode))
      throw new UserError('INVALID', ['input', 'shippingAddress', 'provinceCode'], 'Province is invalid')
    const rate = this.taxRates.get(`${countryCode}-${provinceCode}`) ?? this.taxRates.get(countryCode) ?? 0
    const taxed = subtotal + (this.taxShipping ? shipping : 0)
    const tax = this.taxesIncluded
      ? Math.round((taxed * rate) / (100_000 + rate))
      : Math.round((taxed * rate) / 100_000)
    return {
      lines: variants,
      taxLines: taxLinesOf(`${provinceCode} State Tax`, rate, tax),
      subtotal,
      shipping,
      tax,
      total: subtotal + shipping + (this.taxesIncluded ? 0 : tax)
    }
  }

  id(): number {
    this.#ids += 137
    return this.#ids
  }

  now(): string {
    return new Date(this.#clock.now()).toISOString()
  }
}

/** The number at the end of a global id. */
export function idOf(gid: string): number {
  return Number(gid.slice(gid.lastIndexOf('/') + 1))
}

/** Cents as text of dollars. */
export function dollars(cents: number): string {
  return (cents / 100).toFixed(2)
}

export function centsOf(amount: string): number {
  const match = AMOUNT.exec(amount)
  if (match === null) throw new UserError('INVALID', ['amount'], `${amount} is no amount with two decimal places`)
  return Number(`${match[1]}${match[2]}`)
}

function requireAmount({ shopMoney }: MoneySet, currency: string): void {
  if (shopMoney.currencyCode !== currency)
    throw new UserError('INVALID', ['order', 'transactions'], "Currency is not the shop's")
  centsOf(shopMoney.amount)
}
