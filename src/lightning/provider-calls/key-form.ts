/**
 * For a kind that says of its keys only that they are text, which travels in a header: what is wrong with one;
 * undefined where nothing is.
 */
export function headerKeyFault(key: string): string | undefined {
  return /^[\x21-\x7e]+$/.test(key.trim())
    ? undefined
    : 'found a key with spaces or characters outside ASCII in it; allowed: the key as the provider shows it'
}
