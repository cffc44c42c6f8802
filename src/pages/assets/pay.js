// Follows one payment on its page: counts down, copies, and takes the page anew from the server when its status changes, so
// that the server alone writes it. Without this program the page refreshes itself now and then.

const POLL_EVERY = 3000
const TRY_AGAIN_AFTER = 1000

const announcement = document.getElementById('announcement')
let page = document.getElementById('payment')

follow()
prepare()

/** Puts life into the part of the page that the server has just given. */
function prepare() {
  for (const button of page.querySelectorAll('button.copy')) {
    button.hidden = false
    button.addEventListener('click', () => copy(button))
  }
  countDown(page.querySelector('time[data-left]'), page.querySelector('progress'))
  goOn(document.getElementById('continue'))
}

/** Listens to the server for changes; asks every few seconds while it cannot be listened to. */
function follow() {
  if (isFinal()) return
  const events = new EventSource(page.dataset.events)
  let poll = null
  let wanted = page.dataset.status
  let renewing = false

  const stopPolling = () => {
    clearInterval(poll)
    poll = null
  }
  const startPolling = () => {
    if (poll !== null || isFinal()) return
    poll = setInterval(look, POLL_EVERY)
    look()
  }
  const stop = () => {
    events.close()
    stopPolling()
    document.removeEventListener('visibilitychange', lookWhenSeen)
  }
  const look = async () => {
    const status = await currentStatus(page.dataset.statusAddress)
    if (status !== null) changedTo(status)
  }
  const changedTo = async status => {
    wanted = status
    if (renewing) return
    renewing = true
    while (wanted !== page.dataset.status && !isFinal()) {
      if (!(await renew())) await wait(TRY_AGAIN_AFTER)
    }
    renewing = false
    if (isFinal()) stop()
  }
  // A phone stops the page while its wallet is in front; what happened meanwhile must not wait for a connection.
  const lookWhenSeen = () => {
    if (document.visibilityState === 'visible') look()
  }

  events.addEventListener('status', event => changedTo(JSON.parse(event.data).status))
  events.addEventListener('open', stopPolling)
  events.addEventListener('error', startPolling)
  document.addEventListener('visibilitychange', lookWhenSeen)
}

function isFinal() {
  return 'final' in page.dataset
}

/** The status as the public operation says it; null when it cannot be asked. */
async function currentStatus(address) {
  try {
    const answer = await fetch(address, { cache: 'no-store' })
    return answer.ok ? (await answer.json()).status : null
  } catch {
    // The network is away; the next look comes soon.
    return null
  }
}

/** Takes the page anew. False when it could not be had, or says the same as before. */
async function renew() {
  let text
  try {
    const answer = await fetch(location.href, { cache: 'no-store' })
    if (!answer.ok) return false
    text = await answer.text()
  } catch {
    return false
  }
  const next = new DOMParser().parseFromString(text, 'text/html')
  const nextPage = next.getElementById('payment')
  if (nextPage === null || nextPage.dataset.status === page.dataset.status) return false
  const hadFocus = page.contains(document.activeElement)
  page.replaceWith(nextPage)
  page = nextPage
  document.title = next.title
  announcement.textContent = page.dataset.announce
  prepare()
  if (hadFocus) document.getElementById('state').focus()
  return true
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
  if (hours >= 48) return `${Math.floor(hours / 24)} days`
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`
}

async function copy(button) {
  const field = button.parentElement.querySelector('.field-text')
  const copied = await toClipboard(field)
  button.textContent = copied ? 'Copied' : 'Select it'
  announcement.textContent = copied ? 'Copied.' : 'The text is selected: copy it with your keyboard.'
  await wait(2000)
  button.textContent = 'Copy'
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

/** Goes on to the merchant after a moment. */
function goOn(link) {
  // The server gives no other scheme; a page that moves by itself checks it twice.
  if (link === null || !/^https?:$/.test(link.protocol)) return
  // In place of this page, or the way back would lead here and on again.
  setTimeout(() => location.replace(link.href), Number(link.dataset.after))
}

function wait(milliseconds) {
  return new Promise(resolve => {
    setTimeout(resolve, milliseconds)
  })
}
