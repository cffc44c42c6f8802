import type { GatewayConfig } from '../../engine/config/schema.ts'
import type { OnApproved } from '../admin/schema.ts'
import type { Trail } from '../../engine/operations/trail.ts'
import type { AdminKey } from '../../accounts/merchants/admin-key.ts'
import type { AuthThrottle } from '../../accounts/merchants/auth-throttle.ts'
import { FirstKeys, firstKeyOperations } from './landing.ts'
import { Members, memberOperations } from './members.ts'
import type { Notices } from '../mail/notices.ts'
import { signInOperations } from './operations.ts'
import { SignInRecord } from './record.ts'
import { SignIns, type SignInDependencies } from './service.ts'
import { passkeyOperations } from './passkeys/operations.ts'
import { Passkeys } from './passkeys/service.ts'
import { SqlPasskeyStore } from './passkeys/store.ts'
import { sessionOperations } from './session-operations.ts'
import { Sessions } from './sessions.ts'
import { SqlSessionStore, SqlSignInStore } from './store.ts'

export function openSignIn(
  dependencies: Omit<SignInDependencies, 'store' | 'sessions' | 'operators'> & {
    readonly adminKey: AdminKey
    readonly authThrottle: AuthThrottle
    readonly trail: Trail
    readonly notices: Notices
    config(): Pick<GatewayConfig, 'data' | 'mode' | 'operators' | 'pages'>
  }
) {
  const { authThrottle, config, database, publicUrl, trail } = dependencies
  const operators = (): readonly string[] => config().operators.map(email => email.toLowerCase())
  const sessions = new Sessions({ ...dependencies, operators, store: new SqlSessionStore(database) })
  const store = new SqlSignInStore(database)
  const signIns = new SignIns({ ...dependencies, operators, sessions, store })
  const record = new SignInRecord(dependencies)
  const firstKeys = new FirstKeys(database, dependencies.merchants)
  const members = new Members({ ...dependencies, signIns, people: store })
  const passkeys = new Passkeys({
    ...dependencies,
    operators,
    sessions,
    people: store,
    store: new SqlPasskeyStore(database)
  })
  return {
    /** Mails the link of an approval in its transaction; a new account waits for its key. */
    invite: (async (sql, approval) => {
      if (!approval.linked) await firstKeys.wait(sql, approval.merchant)
      await signIns.invite(sql, approval)
    }) satisfies OnApproved,
    record,
    sessions,
    operations: [
      ...signInOperations({ ...dependencies, signIns, sessions, passkeys, record, firstKeys }),
      ...sessionOperations({ sessions, record, publicUrl }),
      ...passkeyOperations({ passkeys, sessions, authThrottle, trail, record, publicUrl }),
      ...memberOperations(members),
      ...firstKeyOperations(firstKeys)
    ],
    jobs: signIns.jobs
  }
}
