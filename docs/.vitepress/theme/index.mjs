import DefaultTheme from 'vitepress/theme'
import { h, onMounted, ref } from 'vue'

/** Draws in the browser, with a package of its own that only pages with a diagram load. */
const Diagram = {
  props: { code: { type: String, required: true } },
  setup({ code }) {
    const svg = ref('')
    onMounted(async () => {
      const { default: mermaid } = await import('mermaid')
      const isDark = document.documentElement.classList.contains('dark')
      mermaid.initialize({ startOnLoad: false, theme: isDark ? 'dark' : 'default' })
      svg.value = (await mermaid.render(`diagram-${crypto.randomUUID()}`, decodeURIComponent(code))).svg
    })
    return () => h('div', { innerHTML: svg.value })
  }
}

export default {
  extends: DefaultTheme,
  enhanceApp({ app }) {
    app.component('Diagram', Diagram)
  }
}
