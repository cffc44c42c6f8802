import { changesPage } from '../changes.ts'
import type { ConsolePage } from '../page.ts'

export const merchantChanges: ConsolePage = {
  id: 'getConsoleChanges',
  console: 'merchant',
  path: 'changes',
  summary: 'Who changed what in the account',
  show: asked => changesPage(asked, '/api/merchant/audit', false)
}
