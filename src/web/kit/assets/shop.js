// Store pages: labels address fields for the chosen country, submits forms once, and reloads an order while it may change.
// Without JavaScript the server does all of it and the page refreshes periodically.

const LOOK_EVERY = 15_000

const announcement = document.getElementById('announcement')
let page = document.querySelector('main')

nameParts(document.getElementById('country'))
sendOnce(document.querySelector('form'))
document.getElementById('problems')?.focus()
follow()

/** Labels of state and ZIP as the country has them. */
function nameParts(country) {
  if (country === null) return
  const show = () => {
    const { state, stateNeeded, zip, zipNeeded } = country.selectedOptions[0].dataset
    name('province', state ?? country.dataset.state, stateNeeded !== undefined)
    name('zip', zip ?? country.dataset.zip, zipNeeded !== undefined)
  }
  country.addEventListener('change', show)
  // A browser may have put back what was chosen before a reload.
  show()
}

function name(id, label, needed) {
  const input = document.getElementById(id)
  input.required = needed
  input.labels[0].querySelector('.label-text').textContent = label
  input.labels[0].querySelector('.optional').hidden = needed
}

/** A second press during the first does nothing. */
function sendOnce(form) {
  if (form === null) return
  let sending = false
  form.addEventListener('submit', event => {
    if (sending) {
      event.preventDefault()
      return
    }
    sending = true
    const { submitter } = event
    if (submitter === null || submitter.dataset.busy === undefined) return
    submitter.setAttribute('aria-disabled', 'true')
    submitter.dataset.ready = submitter.textContent
    submitter.textContent = submitter.dataset.busy
    announcement.textContent = submitter.dataset.busy
  })
  // Back on the page by the browser's own button: it is shown as it was left.
  addEventListener('pageshow', event => {
    if (!event.persisted) return
    sending = false
    for (const button of form.querySelectorAll('[data-ready]')) {
      button.textContent = button.dataset.ready
      button.removeAttribute('aria-disabled')
    }
  })
}

/** Polls the order every few seconds, and when the reader returns to the page. */
function follow() {
  if (!('follow' in page.dataset)) return
  let looking = false
  const look = async () => {
    if (looking || document.visibilityState !== 'visible') return
    looking = true
    await renew()
    looking = false
    if ('follow' in page.dataset) return
    clearInterval(ticking)
    document.removeEventListener('visibilitychange', look)
  }
  const ticking = setInterval(look, LOOK_EVERY)
  document.addEventListener('visibilitychange', look)
}

/** Reloads the page and shows it if it changed. */
async function renew() {
  let text
  try {
    const answer = await fetch(location.href, { cache: 'no-store' })
    if (!answer.ok) return
    text = await answer.text()
  } catch {
    // The network is down; the next poll comes soon.
    return
  }
  const next = new DOMParser().parseFromString(text, 'text/html')
  const nextPage = next.querySelector('main')
  if (nextPage === null || nextPage.dataset.state === page.dataset.state) return
  const hadFocus = page.contains(document.activeElement)
  page.replaceWith(nextPage)
  page = nextPage
  document.title = next.title
  announcement.textContent = page.dataset.announce ?? ''
  if (hadFocus) document.getElementById('state')?.focus()
}
