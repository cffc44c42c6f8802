import { setImmediate } from 'node:timers/promises'
import { ANALYZE_GROWN } from '../growth.ts'

export interface ProtocolExecutor {
  execProtocolRaw(message: Uint8Array): Promise<Uint8Array>
  execProtocolRawStream(message: Uint8Array, options: { onRawData(bytes: Uint8Array): void }): Promise<void>
}

const STARTUP = 0

/**
 * Not by `execProtocolRaw`: PGlite 0.5 parses every answer of it and leaks half a kilobyte per statement. Only the
 * answer to a start-up message needs it.
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

/** Messages between turns for V8, checkpoints and vacuums: 20,000 messages write some 3 MB of WAL. */
const TURN = 1_000
const CHECKPOINT = 20_000
const VACUUM = 200_000
/** Grown tables are analyzed after a third more messages, within these bounds. */
const LOOK_FROM = 200
const LOOK_AT_LEAST_EACH = 2_000
/**
 * Also after so many bytes of messages: one for many requests adds hundreds of rows to a table. A check without growth
 * takes 2.6 ms.
 */
const LOOK_EACH_BYTES = 1024 * 1024
/** 300 rows, 5 ms of blocking per table: they estimate a table's size as well as 3,000, which take 40 to 85 ms. */
const LOOK = `set local default_statistics_target = 1; ${ANALYZE_GROWN}`

/**
 * Work of a server's other processes. PostgreSQL with a single process has no checkpointer, so the WAL would grow and
 * be replayed after a kill, and no autovacuum. And a process that only waits for messages never reaches its event loop,
 * in which V8 frees memory.
 */
export class Upkeep {
  #messages = 0
  #turned = 0
  #looked = 0
  #bytesSinceLook = 0
  #cut = 0
  #vacuumed = 0

  due(bytes: number): boolean {
    this.#messages++
    this.#bytesSinceLook += bytes
    return this.#messages - this.#turned >= TURN || this.#isLookDue()
  }

  #isLookDue(): boolean {
    const each = Math.min(Math.max(LOOK_FROM, this.#messages / 4), LOOK_AT_LEAST_EACH)
    return this.#messages - this.#looked >= each || this.#bytesSinceLook >= LOOK_EACH_BYTES
  }

  /** The session must be idle. Its statements are not counted as messages. */
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
