import type { ResponseEntry } from '../entry.ts'

/** Keys, sign-in and limits. */
export const accessErrors = {
  BG_KEY_REQUIRED: {
    status: 401,
    error: 'API key required',
    cause: 'The request has no API key.',
    cure: 'Send it in `X-API-Key`.'
  },
  BG_KEY_INVALID: {
    status: 401,
    error: 'Invalid API key',
    cause: 'The key is wrong, was replaced, belongs to another role, or its account is deactivated.',
    cure: 'Take the present key; do not try others.'
  },
  BG_UNAUTHORIZED: {
    status: 401,
    error: 'Unauthorized',
    cause: 'A credential or signature does not verify.',
    cure: '`message` says what is wrong with it.'
  },
  BG_NOT_SIGNED_IN: {
    status: 401,
    error: 'Not signed in',
    cause: 'There is no session, or it has ended.',
    cure: 'Ask for a new link.'
  },
  BG_SESSION_REQUIRED: {
    status: 401,
    error: 'Authentication required',
    cause: 'A page asked, and nobody is signed in, or the session has ended.',
    cure: 'Sign in again; a program sends its API key in `X-API-Key`.'
  },
  BG_MEMBER_EXISTS: {
    status: 409,
    error: 'This address is a member already',
    cause: 'Somebody with the address has joined the account.',
    cure: 'Change the role with `PUT /api/merchant/members/{memberId}`.'
  },
  BG_MEMBERS_FULL: {
    status: 409,
    error: 'An account has at most 100 members',
    cause: 'The account has as many members and invitations as there may be.',
    cure: 'Remove those who need it no more.'
  },
  BG_LAST_OWNER: {
    status: 409,
    error: 'An account needs an owner: make somebody else one first',
    cause: 'The last owner would be removed or get another role; an invitation that nobody has taken does not count.',
    cure: 'Make another member an owner first.'
  },
  BG_MEMBER_UNKNOWN: {
    status: 404,
    error: 'Member not found',
    cause: 'The account has no such member.',
    cure: 'List them with `GET /api/merchant/members`.'
  },
  BG_SESSION_UNKNOWN: {
    status: 404,
    error: 'No such session',
    cause: 'Whoever is signed in has no such session.',
    cure: 'List them with `GET /api/auth/sessions`.'
  },
  BG_PASSKEY_REFUSED: {
    status: 400,
    error: 'Passkey refused',
    cause:
      'What the browser sent is no new passkey for this gateway: its five minutes were over, it was begun elsewhere, or made for another address.',
    cure: 'Begin again on the page of passkeys, at the address of `publicUrl`.'
  },
  BG_PASSKEY_KNOWN: {
    status: 409,
    error: 'This passkey was added already',
    cause: 'Somebody has added the same credential.',
    cure: 'Sign in with it, or add another.'
  },
  BG_PASSKEYS_LIMIT: {
    status: 409,
    error: 'A person has at most 20 passkeys',
    cause: 'There are as many as there may be.',
    cure: 'Remove one that is no longer used.'
  },
  BG_PASSKEY_UNKNOWN: {
    status: 404,
    error: 'No such passkey',
    cause: 'Whoever is signed in has no such passkey.',
    cure: 'List them with `GET /api/auth/passkeys`.'
  },
  BG_PASSKEYS_IMPOSSIBLE: {
    status: 409,
    error: 'No passkeys here',
    cause: 'Browsers make passkeys only for a host name over https, or for localhost.',
    cure: 'Set `server.publicUrl` to the address that people use, with https.'
  },
  BG_ACCOUNT_UNKNOWN: {
    status: 404,
    error: 'Account not found',
    cause: 'Whoever is signed in is no member of that account.',
    cure: '`GET /api/auth/session` lists the accounts.'
  },
  BG_FIRST_KEY_TAKEN: {
    status: 409,
    error: 'The first key was fetched already',
    cause:
      'The account has no first key that waits: it was fetched or replaced, or the account was not made for a subscription.',
    cure: 'Replace the key with `POST /api/merchant/regenerate-key`.'
  },
  BG_ROLE_REQUIRED: {
    status: 403,
    error: 'Role required',
    cause: 'Whoever is signed in, or a key that only reads, may not do this in the account.',
    cure: 'An owner of the account changes the role; `required_role` says which one it takes.'
  },
  BG_API_KEY_NOT_FOUND: {
    status: 404,
    error: 'API key not found',
    cause: 'The account has no API key with this id, or it has ended.',
    cure: 'See `GET /api/merchant/keys`.'
  },
  BG_API_KEY_FIRST: {
    status: 409,
    error: 'The first key cannot be removed; replace it',
    cause: 'Every account has one API key at least.',
    cure: 'Replace it: `POST /api/merchant/regenerate-key`, or `POST /api/merchant/keys/{keyId}/rotate`.'
  },
  BG_API_KEYS_FULL: {
    status: 409,
    cause: 'The account has as many further API keys as there may be; one that goes on after its rotation counts.',
    cure: 'Remove one that nobody uses any more: `DELETE /api/merchant/keys/{keyId}`.'
  },
  BG_FORBIDDEN: {
    status: 403,
    error: 'Forbidden',
    cause: 'The caller may not do this from where it is.',
    cure: "Call from the gateway's own machine, or with the admin key, as `message` says."
  },
  BG_AUTH_THROTTLED: {
    status: 429,
    error: 'Too many failed authentication attempts',
    cause: 'More than 20 requests with a missing or wrong key came from one address within a minute.',
    cure: 'Correct the key, then wait as long as `Retry-After` says.'
  },
  BG_RATE_LIMITED: {
    status: 429,
    error: 'Too many requests',
    cause: "A policy's limit is used up.",
    cure: "Wait as long as `Retry-After` says; policies are the operator's."
  },
  BG_IDEMPOTENCY_KEY_REUSED: {
    status: 400,
    error: 'Idempotency key was already used with a different request.',
    cause: 'The key stands for another body.',
    cure: 'Take a new key for each new request.'
  },
  BG_IDEMPOTENCY_KEY_TOO_LONG: {
    status: 400,
    cause: 'An idempotency key is longer than 256 characters.',
    cure: 'Shorten it; a UUID is enough.'
  },
  BG_IDEMPOTENCY_KEY_INVALID: {
    status: 400,
    error: 'Invalid idempotency key',
    cause: 'The idempotency key of a challenge is blank or longer than 200 characters.',
    cure: 'Send a shorter one, or none.'
  },
  BG_REQUEST_IN_PROGRESS: {
    status: 503,
    error: 'Request in progress',
    cause: 'The first request with this idempotency key still runs.',
    cure: 'Send the same again after `Retry-After`.'
  }
} as const satisfies Record<string, ResponseEntry>
