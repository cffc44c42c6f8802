import { tooDeep } from '../../engine/formats/json-reader.ts'
import { ProviderNotificationError } from './errors.ts'
import { jsonMembers, type JsonMembers } from './json-members.ts'

/** The members of a notification that is a JSON object. @throws ProviderNotificationError */
export function readNotificationJson(body: Uint8Array): JsonMembers {
  const value = parseNotification(Buffer.from(body).toString('utf8'))
  // LNbits writes the object as a text of JSON within JSON.
  const members = jsonMembers(typeof value === 'string' ? parseNotification(value) : value)
  if (members === null) throw new ProviderNotificationError('The notification is not a JSON object.')
  return members
}

/** The value of a notification. @throws ProviderNotificationError */
export function parseNotification(text: string): unknown {
  if (tooDeep(text)) throw new ProviderNotificationError('The notification is nested too deeply.')
  try {
    return JSON.parse(text)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new ProviderNotificationError('The notification is not JSON.')
  }
}
