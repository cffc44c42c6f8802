import { LndConnectError, readLndConnect } from './lnd/lndconnect.ts'

/**
 * What is wrong with the form of a provider key, as far as it can be seen without asking anybody; undefined where nothing is. The
 * text repeats nothing of the key.
 */
export function keyFault (kind: string, key: string): string | undefined {
  if (kind === 'lnd') {
    try {
      readLndConnect(key.trim())
    } catch (error) {
      if (error instanceof LndConnectError) return error.message
      throw error
    }
  }
  // Strike and OpenNode say of their keys only that they are text, which travels in a header.
  else if (kind !== 'sandbox' && !/^[\x21-\x7e]+$/.test(key.trim())) return 'found a key with spaces or characters outside ASCII in it; allowed: the key as the provider shows it'
}
