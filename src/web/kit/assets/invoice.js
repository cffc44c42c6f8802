// What the pages of an invoice have in common: they count down, and copy.

const announcement = document.getElementById('announcement')

/** Puts life into an invoice within `part` of the page. */
// oxlint-disable-next-line no-unused-vars -- the programs that follow this text in one file call it
function prepareInvoice(part) {
  for (const button of part.querySelectorAll('button.copy')) {
    button.hidden = false
    button.addEventListener('click', () => copy(button))
  }
  countDown(part.querySelector('time[data-left]'), part.querySelector('progress'))
}

/** Shows the time that is left. It is counted from when the page came, so that a wrong clock does no harm. */
function countDown(shown, bar) {
  if (shown === null) return
  const end = Date.now() + Number(shown.dataset.left)
  const show = () => {
    const left = Math.max(0, end - Date.now())
    shown.textContent = clockText(Math.ceil(left / 1000))
    shown.classList.toggle('soon', left < 60_000)
    bar.value = left
    if (left === 0 || !shown.isConnected) clearInterval(ticking)
  }
  const ticking = setInterval(show, 1000)
  show()
}

function clockText(seconds) {
  const two = number => String(number).padStart(2, '0')
  const hours = Math.floor(seconds / 3600)
  const minutes = Math.floor(seconds / 60) % 60
  if (hours >= 48) return t('{0} days').replace('{0}', Math.floor(hours / 24))
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`
}

async function copy(button) {
  const field = button.parentElement.querySelector('.field-text')
  const copied = await toClipboard(field)
  button.textContent = copied ? t('Copied') : t('Selected')
  announcement.textContent = copied ? t('Copied') : t('Text selected. Copy it with your keyboard.')
  await wait(2000)
  button.textContent = t('Copy')
}

async function toClipboard(field) {
  try {
    await navigator.clipboard.writeText(field.textContent)
    return true
  } catch {
    // Only pages of https and this machine have a clipboard, and the reader may refuse it: select the text instead.
    getSelection().selectAllChildren(field)
    return document.execCommand('copy')
  }
}

function wait(milliseconds) {
  return new Promise(resolve => {
    setTimeout(resolve, milliseconds)
  })
}
