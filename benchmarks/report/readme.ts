export function writeReadme (_file: string, _folder: string, _ids: readonly string[]): void {}
