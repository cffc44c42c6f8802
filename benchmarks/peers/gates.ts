import { onPath } from '../rig/machine.ts'
import { absentRow } from './row.ts'
import type { Row } from '../scenarios/scenario.ts'

/**
 * Others that sell requests for Lightning. They need a node or a build of their own, so they are not started by this
 * program; the table says so, whether or not they are here.
 */
export function otherGates(): Row[] {
  const found = (program: string): string =>
    onPath(program) === null
      ? 'not on PATH'
      : 'on PATH, but it needs an lnd node for its challenges, which this program does not start'
  return [
    absentRow('aperture', 'aperture', found('aperture')),
    absentRow(
      'nginx-l402',
      'nginx with an L402 module',
      onPath('nginx') === null ? 'nginx is not on PATH' : 'its nginx has no such module'
    )
  ]
}
