import type { ErrorEntry } from './entry.ts'

/** What keeps the gateway or a command from doing its work: printed on standard error. */
export const startErrors = {
  BG_USAGE: {
    cause: 'A command was called in a way that it does not know. Exit code 2.',
    cure: '`boltgate COMMAND --help` says how.'
  },
  BG_LISTEN_IN_USE: {
    cause: 'Another program listens at the address of `server.listen`.',
    cure: 'Stop that one, or choose another port.'
  },
  BG_LISTEN_DENIED: {
    cause: "The gateway's user may not listen at this address; ports below 1024 are the system's.",
    cure: 'Choose a port from 1024 up and put a proxy before it, or give the process `CAP_NET_BIND_SERVICE`.'
  },
  BG_LISTEN_ADDRESS: {
    cause: 'The address of `server.listen` is none of this machine.',
    cure: 'Use 0.0.0.0 for all addresses, 127.0.0.1 for this machine alone.'
  },
  BG_DATABASE_URL: {
    cause: '`database.url` names no database that is known here.',
    cure: 'Use `postgres://user:password@host:5432/name`, or `pglite:database` for the embedded one.'
  },
  BG_DATABASE_SESSION: {
    cause:
      'A pooler stands before PostgreSQL, and its sessions lack what the gateway needs of them: time limits, prepared statements, or notifications.',
    cure: 'Do what the message says; docs/scaling.md has a whole `pgbouncer.ini`.'
  },
  BG_DATABASE_IN_USE: {
    cause: 'Another gateway has the folder of the embedded database.',
    cure: 'Stop that one, or give this one another `data` folder; several gateways on one database need PostgreSQL.'
  },
  BG_DATABASE_OPEN: {
    cause:
      'The embedded database cannot be opened: another thing stands at its place, its files are damaged, or disk, memory or rights are missing.',
    cure: 'Do what the message says: move away what is there, restore the folder from a copy, or name another `data` folder.'
  },
  BG_DATABASE_REFUSED: {
    cause: 'PostgreSQL refuses the user, the password, the name of the database, or what a gateway must do in it.',
    cure: 'Correct `database.url`, or make what is missing: `create role`, `create database … owner …`.'
  },
  BG_DATABASE_MIGRATION: {
    cause:
      'The tables cannot be brought to the form that this version needs: a newer version has used them, or a step failed. Nothing was changed.',
    cure: 'Run the version that the message speaks of, or mend what the database says and start again.'
  },
  BG_KEY_FILE: {
    cause: 'A file of keys in the data folder can be read by others, or is not what was written there.',
    cure: 'Do what the message says: `chmod 600`, or restore the file from a copy.'
  },
  BG_MASTER_SECRET: {
    cause: 'A master secret is too short, or stands in the list twice.',
    cure: 'Make one with `openssl rand -base64 48`; `boltgate keys rotate` changes it without losing what was sold.'
  },
  BG_MASTER_SECRET_MISMATCH: {
    cause:
      'The database was used with another master secret. With this one, sold tokens and saved provider keys would fail.',
    cure: 'Set `secrets.master` (`BOLTGATE_SECRET`) or restore `master.key` as before. To rotate, keep the old secret under `secrets.previous`. If it is lost for good: `boltgate keys adopt`.'
  },
  BG_UNSEAL: {
    cause: 'What is stored encrypted cannot be opened: its key is gone, or the row was changed.',
    cure: 'Put the old secret back, as `secrets.previous` or in master.key; what is lost must be saved anew by its merchant.'
  },
  BG_PROVIDER_KIND: {
    cause: 'A slot of `lightning` names a kind of provider that cannot stand there.',
    cure: 'Take one of those in the message; the sandbox is for development.'
  },
  BG_NODE_KEY: {
    cause: "The file of the sandbox's node key holds something else.",
    cure: 'Remove it to have a new one made; invoices of the old node can then not be paid.'
  },
  BG_NODE_FOLDER: {
    cause: "`boltgate key` found no certificate or macaroon in the node's folder, or one that is not enough.",
    cure: 'Do what the message says: name the folder, the file or the network, or bake a macaroon with the command in it.'
  },
  BG_FILE_ACCESS: {
    cause: 'A file or folder cannot be made, read or written; mostly it is in the `data` folder.',
    cure: "Give it to the gateway's user, or name another folder with `data`; look whether the disk is full."
  },
  BG_NOT_REACHED: {
    cause: 'A command could not reach what it calls: a gateway, or the database.',
    cure: 'Start the one it names, or correct the address.'
  },
  BG_OTHER_RESPONSE: {
    cause:
      'What a command asked answered something else than the command needs: no 402, no challenge of the scheme, a wait that is too long, or a refusal.',
    cure: 'The message has what was answered; a code in it stands on this page as well. Is it the address of a gateway, and of something with a price?'
  },
  BG_NOT_PAID: {
    cause: 'The invoice of a 402 was not paid: what stands at `/sandbox/pay` refused it, or is no sandbox.',
    cure: 'Name the sandbox that made the invoice with `--wallet`; an invoice of a real provider is paid with a wallet.'
  },
  BG_UNEXPECTED: {
    cause: 'A command failed in a way that nobody foresaw.',
    cure: 'Run it again with `BOLTGATE_DEBUG=1` for the stack, and report it.'
  }
} as const satisfies Record<string, ErrorEntry>
