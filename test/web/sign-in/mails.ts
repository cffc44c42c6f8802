import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { eventually } from '../../support/gateway-process.ts'

/** The links in mails to one address that a gateway has written into its data folder, oldest first. */
export function linksTo(data: string, email: string): string[] {
  const folder = join(data, 'mail')
  let names: string[]
  try {
    names = readdirSync(folder)
      .filter(name => name.endsWith('.eml'))
      .toSorted()
  } catch {
    // No mail was written yet.
    return []
  }
  return names
    .map(name => readFileSync(join(folder, name), 'utf8'))
    .filter(text => text.includes(`To: ${email}\r\n`))
    .flatMap(text => {
      // Long lines are folded (RFC 2045, 6.7).
      const plain = text
        .replaceAll(/=\r?\n/g, '')
        .replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)))
      return plain.match(/https?:\/\/[^\s"]+\/sign-in\/[A-Za-z0-9_-]{43}/g) ?? []
    })
}

/** Waits until that many links were mailed to an address, and answers them. */
export async function mailedLinks(data: string, email: string, count: number): Promise<readonly string[]> {
  return await eventually(`${count} links to ${email}`, async () => {
    const links = linksTo(data, email)
    return links.length >= count ? links : null
  })
}
