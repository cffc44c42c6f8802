import { setImmediate } from 'node:timers/promises'
import { LOOK_AT_GROWN } from '../look-at-grown.ts'

/** What is asked of PGlite: PostgreSQL's wire protocol. */
export interface ProtocolExecutor {
  execProtocolRaw(message: Uint8Array): Promise<Uint8Array>
  execProtocolRawStream(message: Uint8Array, options: { onRawData(bytes: Uint8Array): void }): Promise<void>
}

/** First byte of a start-up message, which alone begins with its length. */
const STARTUP = 0

/**
 * What the database answers to messages. Not by `execProtocolRaw`: PGlite 0.5 parses every answer of that and keeps
 * what it read for ever, half a kilobyte for each statement; only what it answers to a start-up message comes no other
 * way.
 */
export async function answerTo(database: ProtocolExecutor, message: Uint8Array): Promise<Uint8Array> {
  if (message[0] === STARTUP) return await database.execProtocolRaw(message)
  const parts: Buffer[] = []
  // The bytes are PGlite's own memory, which the next ones overwrite.
  await database.execProtocolRawStream(message, {
    onRawData: bytes => {
      parts.push(Buffer.from(bytes))
    }
  })
  const [first] = parts
  return parts.length === 1 && first !== undefined ? first : Buffer.concat(parts)
}

/**
 * Messages after which V8 gets a turn, the log is cut, and tables are cleaned: 20,000 messages write some 3 MB of log.
 */
const TURN = 1_000
const CHECKPOINT = 20_000
const VACUUM = 200_000
/** After a third more messages tables that grew are looked at: after so many at least, and so many at most. */
const LOOK_FROM = 200
const LOOK_AT_LEAST_EACH = 2_000
/**
 * And after so many bytes of messages: one that writes for many requests at once brings a table hundreds of rows. A plan
 * that was made for an empty one may read all rows of a merchant for each of them. A look at nothing takes 2.6 ms.
 */
const LOOK_EACH_BYTES = 1024 * 1024
/**
 * From 300 rows, 5 ms for each table, in which nobody is served: what it is for, the size of a table, they tell as well
 * as 3,000, which take 40 to 85 ms. The cleaning takes more.
 */
const LOOK = `set local default_statistics_target = 1; ${LOOK_AT_GROWN}`

/**
 * What a server's other processes would do. The embedded database is PostgreSQL with a single process: nobody else cuts
 * its log, which would grow for as long as it runs and be read again after a kill, and nobody clears away what updates
 * leave, or sees that tables have grown. And a process that only waits for messages never comes back to its event loop,
 * in which V8 gives memory back.
 */
export class Upkeep {
  #messages = 0
  #turned = 0
  #looked = 0
  #bytesSinceLook = 0
  #cut = 0
  #vacuumed = 0

  /** Counts one message of so many bytes; true when something is to be done as soon as no transaction is open. */
  due(bytes: number): boolean {
    this.#messages++
    this.#bytesSinceLook += bytes
    return this.#messages - this.#turned >= TURN || this.#isLookDue()
  }

  #isLookDue(): boolean {
    const each = Math.min(Math.max(LOOK_FROM, this.#messages / 4), LOOK_AT_LEAST_EACH)
    return this.#messages - this.#looked >= each || this.#bytesSinceLook >= LOOK_EACH_BYTES
  }

  /** Does it; the session must be idle. What it asks of the database is no part of what was asked from outside. */
  async run(database: ProtocolExecutor): Promise<void> {
    if (this.#isLookDue()) {
      this.#looked = this.#messages
      this.#bytesSinceLook = 0
      await answerTo(database, query(LOOK))
    }
    if (this.#messages - this.#turned < TURN) return
    this.#turned = this.#messages
    await setImmediate()
    if (this.#messages - this.#cut < CHECKPOINT) return
    this.#cut = this.#messages
    if (this.#messages - this.#vacuumed >= VACUUM) {
      this.#vacuumed = this.#messages
      await answerTo(database, query('vacuum analyze'))
    }
    await answerTo(database, query('checkpoint'))
  }
}

/** Whether an answer ends with "ready for query", outside any transaction (PostgreSQL's protocol, `ReadyForQuery`). */
export function isIdle(answer: Uint8Array): boolean {
  const at = answer.length - 6
  return at >= 0 && answer[at] === 0x5a && answer[at + 5] === 0x49
}

function query(text: string): Buffer {
  const message = Buffer.alloc(text.length + 6)
  message.write('Q')
  message.writeInt32BE(text.length + 5, 1)
  message.write(text, 5)
  return message
}
