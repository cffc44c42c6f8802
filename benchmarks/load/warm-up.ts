import { Agent, get } from 'node:http'

const CONNECTIONS = 32

/**
 * Asks a target for a short answer so many times over 32 kept connections, and closes them: what a process does for the
 * first few thousand requests alone, such as compiling and growing its heap, is done then. Rejects at an answer that is
 * not 200.
 */
export async function warmUp(port: number, path: string, requests: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS })
  const ask = async (): Promise<void> => {
    await new Promise<void>((resolve, reject) => {
      get({ agent, host: '127.0.0.1', port, path }, answer => {
        if (answer.statusCode !== 200) reject(new Error(`answered ${answer.statusCode ?? 'nothing'}`))
        answer.on('end', resolve).on('error', reject).resume()
      }).on('error', reject)
    })
  }
  let left = requests
  try {
    await Promise.all(
      Array.from({ length: CONNECTIONS }, async () => {
        while (left-- > 0) await ask()
      })
    )
  } finally {
    agent.destroy()
  }
}
