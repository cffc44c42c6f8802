import t from 'tap'
import { keepContract } from './contract.ts'
import { wallets } from './subjects.ts'

await keepContract(t, wallets)
