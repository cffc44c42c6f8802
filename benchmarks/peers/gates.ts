import { onPath } from '../rig/machine.ts'
import { absentRow } from './row.ts'
import type { Row } from '../scenarios/scenario.ts'

/** nginx with a module that sells requests: Debian has none, so the table says that it is not measured. */
export function nginxModuleRow(): Row {
  return absentRow(
    'nginx-l402',
    'nginx with an L402 module',
    onPath('nginx') === null ? 'nginx is not on PATH' : 'its nginx has no such module'
  )
}
