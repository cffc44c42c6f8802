import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { SMTPServer } from 'smtp-server'

/** What a mail server took. */
export interface TakenMail {
  readonly from: string
  readonly to: readonly string[]
  readonly secure: boolean
  readonly user: string | null
  readonly text: string
}

/** How the mail server of a test behaves. */
export interface SmtpFakeOptions {
  /** Speaks TLS: from the beginning, or by STARTTLS; not at all unless said. */
  readonly tls?: 'implicit' | 'starttls'
  readonly key?: string
  readonly cert?: string
  /** The only user that is let in; everybody unless said. */
  readonly user?: { readonly name: string; readonly password: string }
  /** How a command is refused. */
  readonly refuse?: {
    readonly at: 'greeting' | 'sender' | 'reader' | 'data'
    readonly status: number
    readonly words: string
  }
  /** Where it stops speaking. */
  readonly hang?: 'greeting' | 'data'
}

/** A mail server on loopback, by an implementation of its own. */
export interface SmtpFake {
  readonly port: number
  readonly taken: readonly TakenMail[]
  /** Changed while it runs, for the commands that follow. */
  refuse: SmtpFakeOptions['refuse'] | null
  close(): Promise<void>
}

export async function startSmtp(options: SmtpFakeOptions = {}): Promise<SmtpFake> {
  const taken: TakenMail[] = []
  const fake: { refuse: SmtpFakeOptions['refuse'] | null } = { refuse: options.refuse ?? null }
  const refusal = (at: string) =>
    fake.refuse?.at === at ? Object.assign(new Error(fake.refuse.words), { responseCode: fake.refuse.status }) : null
  const server = new SMTPServer({
    secure: options.tls === 'implicit',
    disabledCommands: [
      ...(options.tls === undefined ? ['STARTTLS'] : []),
      ...(options.user === undefined ? ['AUTH'] : [])
    ],
    authOptional: options.user === undefined,
    allowInsecureAuth: options.tls === undefined,
    ...(options.key === undefined || options.cert === undefined ? {} : { key: options.key, cert: options.cert }),
    disableReverseLookup: true,
    closeTimeout: 100,
    logger: false,
    onConnect(_session, callback) {
      if (options.hang !== 'greeting') callback(refusal('greeting'))
    },
    onAuth({ username, password }, _session, callback) {
      if (username === options.user?.name && password === options.user?.password) callback(null, { user: username })
      else callback(new Error('wrong user or password'))
    },
    onMailFrom(_address, _session, callback) {
      callback(refusal('sender'))
    },
    onRcptTo(_address, _session, callback) {
      callback(refusal('reader'))
    },
    onData(stream, session, callback) {
      const pieces: Buffer[] = []
      stream.on('data', (piece: Buffer) => {
        pieces.push(piece)
      })
      stream.on('end', () => {
        if (options.hang === 'data') return
        const refused = refusal('data')
        if (refused === null) {
          const { mailFrom, rcptTo } = session.envelope
          taken.push({
            from: mailFrom === false ? '' : mailFrom.address,
            to: rcptTo.map(({ address }) => address),
            secure: session.secure,
            user: typeof session.user === 'string' ? session.user : null,
            text: Buffer.concat(pieces).toString('utf8')
          })
        }
        callback(refused)
      })
    }
  })
  // A client that leaves in the middle is no fault of the server.
  server.on('error', () => {})
  const listening = server.listen(0, '127.0.0.1')
  if (!listening.listening) await once(listening, 'listening')
  // A server that listens on TCP has an address object.
  const { port } = listening.address() as AddressInfo
  return Object.assign(fake, {
    port,
    taken,
    close: () =>
      new Promise<void>(resolve => {
        server.close(() => {
          resolve()
        })
      })
  })
}
