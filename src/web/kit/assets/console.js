// What the consoles' pages do beyond links and forms: the reader's own times and days, copying, and lists that stay
// as they are while they are looked at.

// The reader's own region, in the language of the page.
const { lang } = document.documentElement
const when = new Intl.DateTimeFormat(navigator.languages.find(each => each.startsWith(lang)) ?? lang, {
  dateStyle: 'medium',
  timeStyle: 'short'
})

const showTimes = root => {
  for (const time of root.querySelectorAll('time[datetime]')) {
    if (time.title !== '') continue
    time.title = time.textContent
    time.textContent = when.format(new Date(time.dateTime))
  }
}

const shown = new Map([...document.querySelectorAll('[data-live]')].map(part => [part.id, part.innerHTML]))
showTimes(document)

// Days are the reader's own, as times are: what is sent is the moment at which one begins there.
for (const field of document.querySelectorAll('input[data-moment]')) {
  field.labels[0]?.querySelector('[data-utc]')?.remove()
  const { moment } = field.dataset
  const at = new Date(moment)
  // A day without a time is one that was typed without this program.
  if (moment.includes('T') && !Number.isNaN(at.getTime()))
    field.value = new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 10)
  field.form?.addEventListener('formdata', ({ formData }) => {
    if (field.value !== '') formData.set(field.name, new Date(`${field.value}T00:00`).toISOString())
  })
}

for (const button of document.querySelectorAll('[data-copy]')) {
  button.hidden = navigator.clipboard === undefined
  button.addEventListener('click', async () => {
    const text = document.getElementById(button.dataset.copy)?.textContent ?? ''
    await navigator.clipboard.writeText(text)
    const before = button.textContent
    button.textContent = t('Copied')
    setTimeout(() => {
      button.textContent = before
    }, 2000)
  })
}

for (const pad of document.querySelectorAll('[data-pad]')) {
  const field = document.getElementById(pad.dataset.pad)
  pad.hidden = false
  // Focus stays on the pad: a phone would show its keyboard over it.
  pad.addEventListener('click', ({ target: { dataset } }) => {
    if (dataset.key === undefined) return
    field.value = dataset.key === '⌫' ? field.value.slice(0, -1) : field.value + dataset.key
  })
}

// A second click on a form that is on its way would send it again.
const sent = new Set()
document.addEventListener('submit', event => {
  const form = event.target
  if (form.method !== 'post') return
  if (sent.has(form)) return event.preventDefault()
  sent.add(form)
  for (const button of form.querySelectorAll('button[type="submit"]')) button.setAttribute('aria-disabled', 'true')
})
// Back on the page by the browser's own button: it is shown as it was left, and its forms can be sent again.
addEventListener('pageshow', event => {
  if (!event.persisted) return
  for (const form of sent)
    for (const button of form.querySelectorAll('button[type="submit"]')) button.removeAttribute('aria-disabled')
  sent.clear()
})

// Visible lists refresh, except while the reader works in them.
const EVERY = 5_000
let etag = null
const busy = part => part.contains(document.activeElement) || part.querySelector('details[open]') !== null
const renew = async () => {
  if (document.hidden || [...shown.keys()].every(id => busy(document.getElementById(id)))) return true
  const response = await fetch(location.href, {
    headers: { Accept: 'text/html', 'X-Live-Parts': '1', ...(etag === null ? {} : { 'If-None-Match': etag }) }
  })
  if (response.status === 304 || response.status === 429 || response.status >= 500) return true
  // Signed out, or gone.
  if (!response.ok || response.redirected) return false
  let isCurrent = true
  const fresh = new DOMParser().parseFromString(await response.text(), 'text/html')
  for (const id of shown.keys()) {
    const [part, now] = [document.getElementById(id), fresh.getElementById(id)]
    if (now === null || shown.get(id) === now.innerHTML) continue
    if (busy(part)) {
      isCurrent = false
      continue
    }
    shown.set(id, now.innerHTML)
    part.replaceChildren(...now.childNodes)
    showTimes(part)
  }
  etag = isCurrent ? response.headers.get('etag') : null
  return true
}

const later = () =>
  setTimeout(async () => {
    // Without the network it goes on asking.
    if (await renew().catch(() => true)) later()
  }, EVERY)
if (shown.size > 0) later()
