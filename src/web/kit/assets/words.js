// Begins every script: its texts in the language of the page, which the document carries.

const words = JSON.parse(document.documentElement.dataset.words ?? '{}')
// oxlint-disable-next-line no-unused-vars -- the scripts that follow this text in one file call it
const t = text => words[text] ?? text
