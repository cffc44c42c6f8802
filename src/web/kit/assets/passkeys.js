// Passkeys (WebAuthn): adding one in the console, and signing in with one. Without this program the mailed link signs in.

/** What a reader can do about what a browser says. */
const WORDS = {
  NotAllowedError: t('Canceled or timed out. Try again.'),
  InvalidStateError: t('This device already has a passkey for you.'),
  SecurityError: t('Passkeys only work at the public address of this service.'),
  NotSupportedError: t('This device does not support passkeys for this service.')
}

const ask = async (path, body) => {
  const response = await fetch(path, {
    method: 'POST',
    headers: { Accept: 'application/json', 'Content-Type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  const sent = await response.json()
  if (!response.ok) throw new Error(t(sent.message ?? sent.error ?? sent.title))
  return sent
}

const steps = {
  async 'sign-in'(root) {
    const api = `${root}api/auth/passkeys/sign-in`
    const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(await ask(`${api}/options`))
    const credential = await navigator.credentials.get({ publicKey })
    const { page } = await ask(api, credential)
    location.assign(`${root}${page}`)
  },
  async add(root, part) {
    const api = `${root}api/auth/passkeys`
    const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(await ask(`${api}/options`))
    const credential = await navigator.credentials.create({ publicKey })
    const name = part.querySelector('input')?.value.trim() || t('Passkey')
    await ask(api, { name, credential })
    location.assign('?done=made')
  }
}

for (const part of document.querySelectorAll('[data-passkey]')) {
  if (globalThis.PublicKeyCredential?.parseRequestOptionsFromJSON === undefined) continue
  part.hidden = false
  const button = part.querySelector('button')
  const problem = part.querySelector('[role="alert"]')
  button.addEventListener('click', async () => {
    button.disabled = true
    problem.hidden = true
    try {
      await steps[part.dataset.passkey](part.dataset.root, part)
    } catch (error) {
      problem.textContent = WORDS[error.name] ?? error.message
      problem.hidden = false
    }
    button.disabled = false
  })
}
