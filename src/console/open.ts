import type { Context } from '../gateway/context.ts'
import type { Wire } from '../gateway/wire.ts'
import { PageAssets } from '../pages/assets.ts'
import { overview } from './merchant/overview.ts'
import { payment, payments } from './merchant/payments.ts'
import { consoleOperations } from './operations.ts'
import type { Console, ConsolePage } from './page.ts'

/** Every page of both consoles. */
const PAGES: readonly ConsolePage[] = [overview, payments, payment]

/** What the consoles are opened with. */
export interface OpenConsoleParts {
  /** Asks the gateway itself. */
  handle(ctx: Context, wire: Wire): void
  /** Whose console it is, in words, and what its form to sign out carries; null for no session. */
  signedIn(ctx: Context, console: Console): { readonly who: string; readonly form: string | null }
}

/** Opens the consoles of merchants and of the operator. They have nothing of their own: all they show is the API's. */
export function openConsole(parts: OpenConsoleParts) {
  const { consoleStyle: style, consoleScript: script } = new PageAssets()
  return {
    operations: consoleOperations({ ...parts, assets: { style, script } }, PAGES),
    jobs: [],
    close: () => {}
  }
}
