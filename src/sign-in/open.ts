import { signInOperations } from './operations.ts'
import { SignIns, type SignInParts } from './service.ts'
import { SqlSignInStore } from './store.ts'

/** Opens signing in by mail. */
export function openSignIn(parts: Omit<SignInParts, 'store'>) {
  const signIns = new SignIns({ ...parts, store: new SqlSignInStore(parts.database) })
  return {
    /** Mails a link to whoever was approved, in the transaction of the approval. */
    invite: signIns.invite.bind(signIns),
    operations: signInOperations({ signIns, publicUrl: parts.publicUrl }),
    jobs: signIns.jobs,
    close: () => {}
  }
}
