// Updates a payment page: countdown, copy buttons, and a reload from the server when the status changes. Without
// JavaScript the page refreshes periodically.

const POLL_EVERY = 3000
const TRY_AGAIN_AFTER = 1000

let page = document.getElementById('payment')

follow()
prepare()

/** Puts life into the part of the page that the server has just given. */
function prepare() {
  prepareInvoice(page)
  // At its end the page shows the result, or that it is still being checked; the status may not change.
  const left = page.querySelector('time[data-left]')
  if (left !== null) setTimeout(() => renew(true), Math.min(Number(left.dataset.left) + 200, 2 ** 31 - 1))
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
    // The network is down; the next poll comes soon.
    return null
  }
}

/** Reloads the page. False when that failed, or when the status is the same and `always` is not set. */
async function renew(always = false) {
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
  if (nextPage === null || (!always && nextPage.dataset.status === page.dataset.status)) return false
  const hadFocus = page.contains(document.activeElement)
  page.replaceWith(nextPage)
  page = nextPage
  document.title = next.title
  announcement.textContent = page.dataset.announce
  prepare()
  if (hadFocus) document.getElementById('state').focus()
  return true
}

/** Goes on to the merchant after a moment. */
function goOn(link) {
  // The server gives no other scheme; an automatic redirect checks it again.
  if (link === null || !/^https?:$/.test(link.protocol)) return
  // In place of this page, or the way back would lead here and on again.
  setTimeout(() => location.replace(link.href), Number(link.dataset.after))
}
