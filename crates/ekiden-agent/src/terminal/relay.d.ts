/** Whether a turn of the main thread runs. */
export type Runs = boolean

declare module 'claude-code' {
  interface PluginState {
    'ekiden-terminal': { runs: Runs }
  }
}
