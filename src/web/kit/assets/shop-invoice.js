// Follows the payment of an order: the server redirects the page once it is paid.

prepareInvoice(document)
setInterval(async () => {
  try {
    const { type } = await fetch(location.href, { redirect: 'manual' })
    if (type === 'opaqueredirect') location.reload()
  } catch {
    // Offline for a moment: the next look may succeed.
  }
}, 3000)
