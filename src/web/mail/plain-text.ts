/** Removes line ends, which could forge lines, and bidirectional controls. */
export function oneLine(text: string): string {
  return text
    .replaceAll(/[\u202a-\u202e\u2066-\u2069]/g, '')
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim()
}

const LONGEST_SUBJECT = 200

export function shortSubject(subject: string): string {
  const characters = [...subject]
  return characters.length > LONGEST_SUBJECT ? `${characters.slice(0, LONGEST_SUBJECT).join('')}…` : subject
}
