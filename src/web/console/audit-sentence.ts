/** Past tenses that the rules do not make. */
const IRREGULAR: Readonly<Record<string, string>> = {
  set: 'set',
  take: 'took',
  send: 'sent',
  resend: 'resent',
  sync: 'synced',
  cancel: 'canceled',
  create: 'created',
  regenerate: 'replaced',
  rotate: 'rotated'
}

/** Objects whose name in an operation is not the reader's. */
const OBJECTS: ReadonlyArray<readonly [RegExp, string]> = [
  [/\bstorefront (order|cache|shop info)\b/, 'store $1'],
  [/\bstorefront\b/, 'store'],
  [/\bproxy\b/, 'API'],
  [/\b(primary|alternate) key\b/, '$1 provider key'],
  [/\bapi key\b/, 'API key'],
  [/\bcolour\b/, 'color'],
  [/\bnotices\b/, 'email notifications'],
  [/^(?:regenerate) key\b/, 'replace API key']
]

/** Actions that the name of the operation does not say in words. */
const SENTENCES: Readonly<Record<string, string>> = {
  signInWithKey: 'Signed in with an API key',
  signInWithPasskey: 'Signed in with a passkey',
  signInToJobs: 'Signed in to the jobs page',
  useSignInLink: 'Signed in by mail',
  signOut: 'Signed out',
  endSession: 'Signed out another browser',
  goToAccount: 'Switched accounts',
  submitAccountPage: 'Switched accounts',
  takeFirstKey: 'Fetched the first API key',
  createBillingCheckout: 'Started a subscription by card',
  createBitcoinSubscription: 'Started a subscription by Lightning',
  createCustomerPortal: 'Opened the billing portal',
  adminUpdateMerchant: 'Changed the account',
  adminRefundSession: 'Retried the refund of the session',
  viewAsMerchant: 'Viewed the console as this merchant'
}

/** `createProxy` as `Created API`: an operation as a sentence without its internal name. */
export function auditSentence(operation: string): string {
  // Older entries have forms of pages beside what the forms did.
  if (operation.startsWith('submitGet')) return 'Sent a form of the console'
  const known = SENTENCES[operation]
  if (known !== undefined) return known
  const words = operation.replace(/^admin(?=[A-Z])/, '').replaceAll(/(?!^)[A-Z]/g, letter => ` ${letter.toLowerCase()}`)
  const named = OBJECTS.reduce((text, [from, to]) => text.replace(from, to), words.toLowerCase())
  const [verb = '', ...object] = named.split(' ')
  return [pastOf(verb), ...object].join(' ').replace(/^./, letter => letter.toUpperCase())
}

function pastOf(verb: string): string {
  const known = IRREGULAR[verb]
  if (known !== undefined) return known
  if (verb.endsWith('e')) return `${verb}d`
  return verb.endsWith('y') ? `${verb.slice(0, -1)}ied` : `${verb}ed`
}
