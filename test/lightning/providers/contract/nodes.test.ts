import t from 'tap'
import { keepContract } from './contract.ts'
import { nodes } from './subjects.ts'

await keepContract(t, nodes)
