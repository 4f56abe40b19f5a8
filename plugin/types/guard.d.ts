/** What the guard's mod knows about the session at work. */
export type Watch = {
  session: string
  /** Everything else is absent if nothing is watched: in ekiden's own runs, and beside another installation. */
  sign?: string
  log?: string
  logBytes?: number
  /** Between these uses of the context, in tokens, nothing is crossed. Without `from` the range is not known yet. */
  from?: number | null
  to?: number | null
  everyBatch?: boolean
  refuses?: boolean
  /** Something waits until no turn runs. */
  idles?: boolean
  usable?: number
  levels?: readonly number[]
  line?: boolean
}

declare module 'claude-code' {
  interface PluginState {
    ekiden: { watch: Watch; turn: boolean }
  }
}
