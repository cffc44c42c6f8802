import type { VNode } from 'preact'
import type { Context } from '../../engine/message/context.ts'
import type { PageApi } from './api.ts'

/** Whose console a page belongs to. */
export type Console = 'merchant' | 'operator'

/** A request for a page, or of one of its forms. */
export interface Asked {
  readonly ctx: Context
  readonly api: PageApi
  /** Of the page's address. */
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  /** What the form holds; empty for a page that is only read. */
  readonly form: URLSearchParams
  /** The way up to the gateway's own address: `./`, `../`. */
  readonly root: string
  /** The address of another page of the console, below the console's own: ``, `payments/1`. */
  link(to: string): string
  /** The same with the gateway's own address in front, for those who lead back here. */
  address(to: string): string
  /** The page's program asks for its `live` parts alone; a page may leave out all else. */
  readonly isRenewal: boolean
  /** What went wrong with the form, to be shown above it. */
  readonly problem: FormProblem | null
}

/** What a form's change was refused with. */
export interface FormProblem {
  readonly message: string
  readonly fields: Readonly<Record<string, string>>
}

/** A page to be shown. */
export interface PageContent {
  readonly title: string
  readonly content: VNode
  /** An address elsewhere, to which the browser goes on by itself. */
  readonly goOn?: string
  /** 200 unless said. */
  readonly status?: number
}

/** The change is made, and the browser goes on to a page; `done` names the words that it shows there. */
export interface GoTo {
  /** Within the console: `payments`, `payments/pay_1`. */
  readonly to: string
  readonly done?: keyof typeof DONE
}

/** What a page says of the change that led to it; words are chosen by name, so that no link can put its own there. */
export const DONE = Object.freeze({
  saved: 'Saved.',
  removed: 'Removed.',
  refunded: 'The refund is on its way.',
  canceled: 'Canceled.',
  sent: 'Sent.',
  revoked: 'Revoked. Nobody can use it any more.',
  made: 'Made.',
  retried: 'It is run again.'
})

/** One page of a console and what its forms do. */
export interface ConsolePage {
  /** operationId of the page; that of its forms has `submit` in front. */
  readonly id: string
  readonly console: Console
  /** Below the console's own address, as an operation writes it: ``, `payments`, `payments/:invoiceId`. */
  readonly path: string
  readonly summary: string
  /** @throws ApiRefusal */
  show(asked: Asked): Promise<PageContent>
  /** Left out for a page without forms. @throws ApiRefusal */
  act?(asked: Asked): Promise<GoTo | PageContent>
}
