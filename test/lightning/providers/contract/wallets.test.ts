import t from 'tap'
import { keepContract } from './contract.ts'
import { wallets } from './wallets.ts'

await keepContract(t, wallets)
