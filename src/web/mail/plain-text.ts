/**
 * Without line ends, which would forge lines of a mail, and without characters that turn the direction of what follows.
 */
export function oneLine(text: string): string {
  return text
    .replaceAll(/[\u202a-\u202e\u2066-\u2069]/g, '')
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim()
}

const LONGEST_SUBJECT = 200

/** At most as long as a subject is worth reading. */
export function shortSubject(subject: string): string {
  const characters = [...subject]
  return characters.length > LONGEST_SUBJECT ? `${characters.slice(0, LONGEST_SUBJECT).join('')}…` : subject
}
