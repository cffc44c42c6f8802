import { Type } from 'typebox'
import { described, SecretText } from '../config/fields.ts'

export const MailSchema = Type.Object(
  {
    from: Type.String({
      default: '',
      'x-format': 'sender',
      description: 'Sender of mail, such as `Example <no-reply@example.com>`. Needed with `smtp`.'
    }),
    smtp: SecretText({
      default: '',
      'x-format': 'smtp-url',
      description:
        'Mail server, such as `smtps://user:password@mail.example.com`. With `smtp:` production insists on STARTTLS. When empty, mail is written to files in the folder `mail` of the data folder.'
    })
  },
  described('How receipts, links to claim an order and links to sign in are sent.')
)
