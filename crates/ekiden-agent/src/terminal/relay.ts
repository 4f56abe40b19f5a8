// Carries a message of ekiden to a client in which no turn runs: no hook is called there that could. It asks for one at
// the engine's socket and submits it as a prompt. What the user is typing stays.
import type { EngineInterface, Register } from 'claude-code'

const LOOK_MS = 1_000
const PATIENCE_MS = 5_000
const RUNS = { plugin: 'ekiden-terminal', key: 'runs' } as const

async function ask($: EngineInterface, more: object): Promise<{ submit?: string }> {
  const told = await $.env.get('EKIDEN_TERMINAL')
  if (!told) return {}
  const { program, socket } = JSON.parse(told)
  const init = { stdin: JSON.stringify({ session_id: await $.session.id(), ...more }), timeoutMs: PATIENCE_MS }
  const { stdout } = await $.process.run([program, '__hook', socket, 'mod'], init)
  return stdout.trim() === '' ? {} : JSON.parse(stdout)
}

async function carry($: EngineInterface): Promise<void> {
  if ((await $.state.get(RUNS)).value !== false) return
  const { submit } = await ask($, {})
  if (submit === undefined) return
  // After Esc the client takes no prompt but a person's.
  const submitted = await $.prompt.submit({ text: submit, asUser: true }).catch(() => ({ drop: 'failed' }))
  if (submitted.drop !== undefined) await ask($, { dropped: submit })
}

export const register: Register = on => {
  on('session.start', async ($, e, next) => {
    const started = await next(e)
    $.clock.every(LOOK_MS, () => { void carry($).catch(() => undefined) })
    return started
  }).catch(($, e, next) => next(e))

  on('turn.start', async ($, e, next) => {
    if (e.agentId === undefined) await $.state.set(RUNS, true)
    return next(e)
  }).catch(($, e, next) => next(e))

  on('turn.complete', async ($, e, next) => {
    const result = await next(e)
    if (e.agentId === undefined) await $.state.set(RUNS, false)
    return result
  }).catch(($, e, next) => next(e))
}
