import type { VNode } from 'preact'
import type { Context } from '../../engine/message/context.ts'
import type { SentForm } from '../kit/form.ts'
import type { PageApi } from './api.ts'

export type Console = 'merchant' | 'operator'

export interface PageRequest {
  readonly console: Console
  readonly page: ConsolePage
  readonly ctx: Context
  readonly api: PageApi
  readonly query: URLSearchParams
  /** Empty for a GET. */
  readonly form: SentForm
  readonly root: string
  /** A part of the path, encoded for another; empty for none. */
  id(name: string): string
  link(to: string): string
  /** Absolute address of a page, for redirects from other sites. */
  address(to: string): string
  /** Value of satoshis in the reader's currency; null where it is not known. */
  worth(satoshis: number): Promise<string | null>
  /** The script only renews `live` parts; a page may omit all others. */
  readonly isRenewal: boolean
  readonly problem: FormProblem | null
  /** Above a merchant's page that an operator sees; null for the reader's own. */
  readonly banner: VNode | null
  viewAs(merchantId: string): Promise<PageRequest | null>
}

/** Why a change was refused. */
export interface FormProblem {
  readonly message: string
  readonly fields: Readonly<Record<string, string>>
}

export interface PageContent {
  readonly title: string
  /** The title is the name that a user gave, which is not translated. */
  readonly isName?: true
  readonly content: VNode
  /** External address to continue to. */
  readonly goOn?: string
  /** Default 200. */
  readonly status?: number
}

/** Redirect after a change; `done` names its success message. */
export interface RedirectTo {
  readonly to: string
  readonly done?: keyof typeof DONE
}

/** Success messages by name, so that links cannot inject their own. */
export const DONE = Object.freeze({
  saved: 'Saved.',
  removed: 'Removed.',
  refunded: 'Refund created.',
  canceled: 'Canceled.',
  sent: 'Sent.',
  revoked: 'Revoked.',
  made: 'Created.',
  retried: 'Queued again.'
})

export interface ConsolePage {
  /** operationId of the page; its forms' has the prefix `submit`. */
  readonly id: string
  /** Path pattern in the console: ``, `payments`, `payments/:invoiceId`. */
  readonly path: string
  readonly summary: string
  /** @throws ApiRefusal */
  show(request: PageRequest): Promise<PageContent>
  /**
   * Absent without forms.
   * @throws ApiRefusal
   */
  act?(request: PageRequest): Promise<RedirectTo | PageContent>
}
