import type { Random } from '../../platform/system/ids.ts'

/** `<slug of name>-<8 hex>` (decision 10). */
export function newProxyId(name: string, random: Random): string {
  const slug = name
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '')
    .slice(0, 40)
    .replace(/-$/, '')
  return `${slug === '' ? 'proxy' : slug}-${Buffer.from(random(4)).toString('hex')}`
}
