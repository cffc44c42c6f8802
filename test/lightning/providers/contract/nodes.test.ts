import t from 'tap'
import { keepContract } from './contract.ts'
import { nodes } from './nodes.ts'

await keepContract(t, nodes)
