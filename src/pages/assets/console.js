// What the consoles' pages do beyond links and forms: the reader's own time, and copying.

const when = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })

const showTimes = root => {
  for (const time of root.querySelectorAll('time[datetime]')) {
    if (time.title !== '') continue
    time.title = time.textContent
    time.textContent = when.format(new Date(time.dateTime))
  }
}

showTimes(document)

for (const button of document.querySelectorAll('[data-copy]')) {
  button.hidden = navigator.clipboard === undefined
  button.addEventListener('click', async () => {
    const text = document.getElementById(button.dataset.copy)?.textContent ?? ''
    await navigator.clipboard.writeText(text)
    const before = button.textContent
    button.textContent = 'Copied'
    setTimeout(() => {
      button.textContent = before
    }, 2000)
  })
}

// A second click on a form that is on its way would send it again.
for (const form of document.querySelectorAll('form[method="post"]'))
  form.addEventListener('submit', () => {
    for (const button of form.querySelectorAll('button[type="submit"]')) button.setAttribute('aria-disabled', 'true')
    form.addEventListener('submit', event => event.preventDefault())
  })
