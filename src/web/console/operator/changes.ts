import { changesPage } from '../changes.ts'
import type { ConsolePage } from '../page.ts'

export const operatorChanges: ConsolePage = {
  id: 'getOperatorChanges',
  console: 'operator',
  path: 'changes',
  summary: 'Who changed what, in all accounts or one',
  show: asked => changesPage(asked, '/api/admin/audit', true)
}
