import { tooDeep } from '../gateway/json-depth.ts'
import { ProviderNotificationError } from './errors.ts'
import { jsonMembers, type JsonMembers } from './json-members.ts'

/** The members of a notification that is a JSON object. @throws ProviderNotificationError */
export function readNotificationJson(body: Uint8Array): JsonMembers {
  if (tooDeep(body)) throw new ProviderNotificationError('The notification is nested too deeply.')
  const read = jsonMembers(parse(Buffer.from(body).toString('utf8')))
  // LNbits writes the object as a text of JSON within JSON.
  const members = read ?? jsonMembers(parseAgain(body))
  if (members === null) throw new ProviderNotificationError('The notification is not a JSON object.')
  return members
}

function parseAgain(body: Uint8Array): unknown {
  const text = parse(Buffer.from(body).toString('utf8'))
  if (typeof text !== 'string' || tooDeep(Buffer.from(text))) return null
  return parse(text)
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new ProviderNotificationError('The notification is not JSON.')
  }
}
