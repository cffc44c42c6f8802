import { lnurl } from '../../../src/providers/lnurl/kind.ts'
import { startFakeLnurl } from '../../fakes/lnurl.ts'
import { ofNode, openKind, secret, TIMEOUT, type SubjectKind } from './subject.ts'

/** The kinds that are somebody's wallet at a service. */
export const wallets: readonly SubjectKind[] = [
  {
    kind: lnurl,
    start: async (t, parts) => {
      const fake = await startFakeLnurl({ clock: parts.clock })
      t.teardown(() => fake.close())
      fake.expirySeconds = 600
      fake.onHang = () => {
        parts.clock.advance(TIMEOUT)
      }
      const text = fake.key()
      const { wire, settle } = ofNode(
        fake,
        { create: /callback/, lookUp: /verify/, pay: /nothing/, find: /nothing/ },
        { receiveOnly: null, paysAmountless: false }
      )
      return {
        provider: openKind(t, lnurl, parts, null),
        clock: parts.clock,
        key: secret(text),
        foreign: secret(text.replace('/shop', '/nobody')),
        secrets: [],
        wire,
        settle,
        pays: null
      }
    }
  }
]
