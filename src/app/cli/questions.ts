import { createInterface } from 'node:readline/promises'
import { UsageError } from './output.ts'

/** Asks in a terminal; an empty answer is `usual`. Null `usual`: an answer is needed. */
export type Ask = (question: string, usual: string | null) => Promise<string>

/** Prompts on standard input. Ctrl-C and the end of the input stop the command with nothing written. */
export function openTerminal(): { readonly ask: Ask; close(): void } {
  const terminal = createInterface({ input: process.stdin, output: process.stdout })
  const stopped = new AbortController()
  terminal.on('close', () => {
    stopped.abort()
  })
  terminal.on('SIGINT', () => {
    terminal.close()
  })
  return {
    async ask(question, usual) {
      for (;;) {
        if (stopped.signal.aborted) throw stoppedError()
        const shown = usual === null || usual === '' ? '' : ` [${usual}]`
        const text = await terminal
          .question(`${question}${shown}: `, { signal: stopped.signal })
          .catch((error: unknown) => {
            if (stopped.signal.aborted) throw stoppedError()
            throw error
          })
        if (text.trim() !== '') return text.trim()
        if (usual !== null) return usual
      }
    },
    close() {
      terminal.close()
    }
  }
}

function stoppedError(): UsageError {
  process.stdout.write('\n')
  return new UsageError('Stopped; nothing was written.')
}
