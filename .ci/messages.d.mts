/** Every message with the files that have it. */
export function messages(): ReadonlyMap<string, readonly string[]>
export function catalog(language: string): Readonly<Record<string, string>>
