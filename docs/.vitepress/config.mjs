import { existsSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'

const docs = resolve(import.meta.dirname, '..')
const root = resolve(docs, '..')
const { repository } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
/** Where files outside the site are shown; without a repository they stay plain text. */
const source = repository?.url?.replace(/^git\+/, '').replace(/\.git$/, '')

/** The index page lists every page once: headings become sections, bold words groups, links entries. */
function sidebar() {
  const sections = []
  for (const part of readFileSync(join(docs, 'index.md'), 'utf8').split(/^## /m).slice(1)) {
    const [text, ...lines] = part.split('\n')
    const groups = lines.join('\n').split(/^\*\*(.+)\*\*:/m)
    const items = linksOf(groups[0])
    for (let at = 1; at < groups.length; at += 2) {
      items.push({ text: groups[at], collapsed: true, items: linksOf(groups[at + 1]) })
    }
    sections.push({ text, items })
  }
  return sections
}

function linksOf(text) {
  return [...text.matchAll(/\[([^\]]+)\]\(([^)#]+)\.md\)/g)].map(([, label, path]) => ({
    text: label.charAt(0).toUpperCase() + label.slice(1),
    link: `/${path.replace(/README$/, '')}`
  }))
}

/** Links that leave the site lead to the repository. */
function outwards(md) {

  md.core.ruler.push('outwards', state => {
    for (const token of state.tokens.flatMap(({ children }) => children ?? [])) {
      const href = token.type === 'link_open' ? token.attrGet('href') : null
      if (href === null || /^(?:[a-z]+:|#|\/)/.test(href)) continue
      const [path, heading] = href.split('#')
      const file = resolve(docs, dirname(state.env.relativePath ?? ''), path)
      const isPage = file.startsWith(docs) && (path.endsWith('.md') || path.endsWith('/'))
      if (isPage || !existsSync(file)) continue
      const kind = statSync(file).isDirectory() ? 'tree' : 'blob'
      token.attrSet('href', source === undefined ? '#' : `${source}/${kind}/main/${relative(root, file)}${heading === undefined ? '' : `#${heading}`}`)
    }
  })

}

function diagrams(md) {
  const fence = md.renderer.rules.fence
  md.renderer.rules.fence = (tokens, at, ...rest) =>
    tokens[at].info.trim() === 'mermaid'
      ? `<Diagram code="${encodeURIComponent(tokens[at].content)}" />`
      : fence(tokens, at, ...rest)
}

const packaged = name => fileURLToPath(import.meta.resolve(name))

export default defineConfig({
  title: 'boltgate',
  description: 'A streaming HTTP gateway that puts a Lightning price on APIs',
  lang: 'en-US',
  cleanUrls: true,
  rewrites: { ':folder(.*)/README.md': ':folder/index.md' },
  // The packages lie beside this file: a package.json in docs/ would hide the one that its examples import.
  vite: {
    resolve: {
      alias: [
        { find: /^vue$/, replacement: packaged('vue/dist/vue.runtime.esm-bundler.js') },
        { find: /^vue\/server-renderer$/, replacement: packaged('vue/server-renderer') }
      ]
    }
  },
  ignoreDeadLinks: 'localhostLinks',
  markdown: {
    config: md => {
      outwards(md)
      diagrams(md)
    }
  },
  transformPageData(page) {
    if (page.relativePath !== 'index.md') return
    Object.assign(page.frontmatter, {
      layout: 'home',
      hero: {
        name: 'boltgate',
        text: 'A Lightning price on any API',
        tagline: 'Unpaid requests get a 402 with an invoice. Paid requests reach your server.',
        actions: [
          { text: 'Sell your first request', link: '/tutorials/first-request' },
          { text: 'New to Lightning?', link: '/explanation/lightning', theme: 'alt' }
        ]
      }
    })
  },
  themeConfig: {
    search: { provider: 'local' },
    sidebar: sidebar(),
    outline: [2, 3],
    nav: [
      { text: 'Tutorials', link: '/tutorials/first-request' },
      { text: 'How-to', link: '/how-to/pricing' },
      { text: 'Reference', link: '/reference/configuration' },
      { text: 'Explanation', link: '/explanation/lightning' }
    ],
    ...(source === undefined ? {} : { socialLinks: [{ icon: 'github', link: source }] })
  }
})
