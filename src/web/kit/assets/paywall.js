// Follows the payment of its page, pays it with a wallet of the browser, and opens what was bought. All that it
// asks for is this very address, where the cookie with the page's pass goes. Without it, the reader says by a link that it is paid.

const AGAIN_AFTER = 2000
const OPEN_AFTER = 1100
const FETCHED_AFTER = 4000

const page = document.getElementById('paywall')
let following = new AbortController()
let isPaid = false

prepareInvoice(page)
offer('browser-wallet', 'webln' in window, payInBrowser)
offer('sandbox-wallet', true, () => ask('pay'))
follow()

// A phone stops the page while its wallet is in front; what happened meanwhile must not wait for a connection.
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible') following.abort()
})
// Wallets that are extensions come some moments after the page.
addEventListener('load', () => setTimeout(() => offer('browser-wallet', 'webln' in window, payInBrowser), 500))

/** This address, for what the header says; the answer is never kept. */
function ask(wish, more = {}) {
  return fetch(location.href, {
    ...more,
    headers: { 'X-Boltgate-Page': wish, Accept: 'text/event-stream' },
    cache: 'no-store'
  })
}

function offer(id, isThere, act) {
  const button = document.getElementById(id)
  if (button === null || !isThere || !button.hidden) return
  button.hidden = false
  button.addEventListener('click', async () => {
    button.disabled = true
    try {
      await act(button)
    } catch (error) {
      announcement.textContent = t('The wallet did not pay: {0}').replace('{0}', () => error.message)
    }
    button.disabled = false
  })
}

async function payInBrowser(button) {
  await window.webln.enable()
  await window.webln.sendPayment(button.dataset.invoice)
  following.abort()
}

/** Listens until it is paid; comes back when the connection is gone. */
async function follow() {
  while (!isPaid) {
    following = new AbortController()
    try {
      const answer = await ask('follow', { signal: following.signal })
      if (answer.status === 402) return lose()
      if (answer.ok) {
        const state = await lastState(answer.body.pipeThrough(new TextDecoderStream()))
        if (state === 'paid') return open()
        if (state === 'over') return location.reload()
      }
    } catch {
      // The network is down, or the reader has just come back.
    }
    await wait(following.signal.aborted ? 0 : AGAIN_AFTER)
  }
}

/** Reads events until one says that there is nothing to wait for. Null when the stream ends before. */
async function lastState(stream) {
  let text = ''
  for await (const piece of stream) {
    text += piece
    const [, state] = /^data: (paid|over)$/m.exec(text) ?? []
    if (state !== undefined) return state
    text = text.slice(text.lastIndexOf('\n') + 1)
  }
  return null
}

/** Shows that it is paid, then what was bought: instead of this page, or as a download. */
async function open() {
  isPaid = true
  show('paid')
  document.title = `${t('Paid')} · ${document.title}`
  announcement.textContent = t('Paid. Opening your purchase…')
  await wait(OPEN_AFTER)
  location.reload()
  await wait(FETCHED_AFTER)
  const words = document.getElementById('what-now')
  words.textContent = t('Files are in your downloads. Anything else opens here in a moment.')
  announcement.textContent = words.textContent
}

function lose() {
  const panel = page.querySelector('.panel')
  panel.prepend(document.getElementById('lost').content.cloneNode(true))
}

function show(id) {
  const panel = page.querySelector('.panel')
  const hadFocus = panel.contains(document.activeElement)
  panel.replaceWith(document.getElementById(id).content.cloneNode(true))
  if (hadFocus) document.getElementById('state').focus()
}
