import t from 'tap'
import { noFirefox, openFirefox } from '../web/pay/firefox.ts'
import { visitHostilePages } from './hostile-pages.ts'

t.test('untrusted pages: none acts as the operator who visits it, in Firefox', { skip: noFirefox }, t =>
  visitHostilePages(t, openFirefox)
)
