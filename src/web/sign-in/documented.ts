import type { OperationText } from '../../engine/operations/operation.ts'

const byToken = { token: 'uJ0mZ5q3W8nX1rT6vY2bC4dE7fG9hK0lM3nP5qR8sTw' }

/** What OpenAPI says of signing in. */
export const signInTexts: Readonly<Record<string, OperationText>> = {
  requestMagicLink: {
    description:
      'The link works once, for 15 minutes. The answer is the same for every address, so that nobody learns who has an account.',
    example: {
      body: { email: 'owner@example.com' },
      responses: {
        202: {
          message:
            'If an account has this email address, a link to sign in is on its way. It works once, for 15 minutes.'
        }
      }
    }
  },
  getSignInPage: { description: 'The same for everybody. Its form asks for the address of an account.' },
  submitSignInPage: {
    description: 'Does what POST /api/auth/magic-link does, for a page without a program.',
    example: { body: { email: 'owner@example.com' } }
  },
  getSignInLink: {
    description: 'A program that opens links in mails does not use it up: that takes the button.',
    example: { params: byToken }
  },
  useSignInLink: {
    description: 'The link is good once. Other sites cannot send the form: its origin must be this gateway.',
    example: { params: byToken }
  },
  signInWithKey: {
    description:
      'For those who have the API key of an account, or the admin key. Wrong keys count like those of other requests. The session ends when the key is replaced.',
    example: { body: { key: 'bg_k3v9q2m8xa_…' } }
  },
  getAccountPage: {
    description:
      'What GET /api/auth/session says, as a page, with a button to sign out and one for each other account of the person.'
  },
  submitAccountPage: {
    description: 'As PUT /api/auth/account does it for programs. The session of before ends.',
    example: { body: { form: 'c2lnbmVkLWJ5LXRoZS1wYWdl', merchantId: '7' } }
  },
  signOut: {
    description: 'Ends the session here and takes the cookie away. Other sessions of the account stay.',
    example: { body: { form: 'c2lnbmVkLWJ5LXRoZS1wYWdl' } }
  }
}

/** What OpenAPI says of sessions. */
export const sessionTexts: Readonly<Record<string, OperationText>> = {
  getSession: {
    description: 'For our own pages. Programs use the API key.',
    example: {
      responses: {
        200: {
          merchantId: 7,
          name: 'Example Shop',
          email: 'owner@example.com',
          planTier: 'individual',
          subscriptionStatus: 'active',
          keyHint: 'k3v9q2m8xa',
          role: 'owner',
          signedInAs: 'owner@example.com',
          isOperator: false,
          accounts: [{ merchantId: 7, name: 'Example Shop', role: 'owner' }],
          expiresAt: '2026-11-22T22:15:00.000Z'
        }
      }
    }
  },
  listSessions: {
    description: 'Those of the same person; for who signed in with a key, those of the same key.',
    example: {
      responses: {
        200: [
          {
            sessionId: '01a1ff70-dd2e-711d-b419-983214ef9bd0',
            browser: 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
            createdAt: '2026-11-22T10:15:00.000Z',
            seenAt: '2026-11-22T11:40:00.000Z',
            expiresAt: '2026-11-22T22:15:00.000Z',
            isCurrent: true
          }
        ]
      }
    }
  },
  endSession: {
    description: 'The session is over at once, in whatever browser it is.',
    example: { params: { sessionId: '01a1ff70-dd2e-711d-b419-983214ef9bd0' } }
  },
  goToAccount: {
    description: 'The session that asks ends, and a new one takes its place.',
    example: { body: { merchantId: 7 } }
  }
}

const member = {
  memberId: 12,
  email: 'editor@example.com',
  role: 'editor',
  createdAt: '2026-11-22T10:15:00.000Z',
  joinedAt: null
}
const byMember = { memberId: '12' }

/** What OpenAPI says of the members of an account. */
export const memberTexts: Readonly<Record<string, OperationText>> = {
  listMembers: {
    description: "The account's own address is an owner from the beginning, also while nobody has signed in with it.",
    example: { responses: { 200: [member] } }
  },
  inviteMember: {
    description:
      'The link in the mail works once, for three days; after that its reader asks for one at /sign-in. Who is invited and has not joined can be invited again, also with another role.',
    example: { body: { email: 'editor@example.com', role: 'editor' }, responses: { 201: member } }
  },
  changeMember: {
    description: "It counts from the member's next request on. The last owner stays one.",
    example: { params: byMember, body: { role: 'viewer' }, responses: { 200: { ...member, role: 'viewer' } } }
  },
  removeMember: {
    description: 'Sessions of the member in this account end at once. The last owner cannot be removed.',
    example: { params: byMember }
  }
}

/** What OpenAPI says of the first key. */
export const firstKeyTexts: Readonly<Record<string, OperationText>> = {
  takeFirstKey: {
    description:
      'For an account that was made for a subscription: the key takes the place of the one that the operator was shown at the approval, which is invalid at once. A key that is lost later is replaced with POST /api/merchant/regenerate-key.',
    example: {
      responses: {
        200: { merchantId: 7, apiKey: 'bg_k3v9q2m8xa_…', regeneratedAt: '2026-11-22T10:15:00.000Z' }
      }
    }
  }
}
