import type { OperationText } from '../gateway/operation.ts'

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
  getSession: {
    description: 'For our own pages: the cookie reads the account and changes nothing. Programs use the API key.',
    example: {
      responses: {
        200: {
          merchantId: 7,
          name: 'Example Shop',
          email: 'owner@example.com',
          planTier: 'individual',
          subscriptionStatus: 'active',
          keyHint: 'k3v9q2m8xa',
          expiresAt: '2026-11-22T22:15:00.000Z'
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
  getAccountPage: { description: 'What GET /api/auth/session says, as a page, with a button to sign out.' },
  signOut: {
    description: 'Ends the session here and takes the cookie away. Other sessions of the account stay.',
    example: { body: { form: 'c2lnbmVkLWJ5LXRoZS1wYWdl' } }
  }
}
