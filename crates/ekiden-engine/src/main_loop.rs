//! The loop around an [`Engine`].
//!
//! ```text
//!  agents, tasks ──► inputs ─┐
//!  SIGINT, SIGTERM, SIGHUP ──┼─► next_input ──► Engine::take
//!  the steering socket ──────┤
//!  time ─────────────────────┘
//! ```
//!
//! It only receives inputs and passes them on. It ends when the run is over and everything that was started has
//! ended too.

use std::time::Duration;

use ekiden_core::event::Event;
use ekiden_core::limits;
use ekiden_core::outcome::Outcome;
use ekiden_core::time::Timestamp;
use tokio::sync::mpsc;

use crate::clock::{Clock, SystemClock};
use crate::effect_runner::Input;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::process_runner::ProcessRunner;
use crate::signals::Signals;

/// How often to read the clock while nothing else happens.
pub(crate) const TICK: Duration = Duration::from_secs(1);

/// Drives a run to its end, or as far as ekiden itself can.
pub(crate) async fn run_to_end(
    mut engine: Engine<'_, ProcessRunner>,
    inputs: mpsc::Receiver<Input>,
    mut signals: Signals,
) -> Result<Outcome, EngineError> {
    let ended = take_inputs(&mut engine, inputs, &mut signals).await;
    if let Err(error) = &ended {
        engine.notify_of(error);
        tell_last(&mut engine.runner, &mut signals).await;
    }
    ended
}

/// A person may cut this short.
async fn tell_last(runner: &mut ProcessRunner, signals: &mut Signals) {
    let enough = tokio::time::timeout(limits::NOTIFY_AT_END.into(), signals.next());
    runner.tell_last(async { drop(enough.await) }).await;
}

async fn take_inputs(
    engine: &mut Engine<'_, ProcessRunner>,
    mut inputs: mpsc::Receiver<Input>,
    signals: &mut Signals,
) -> Result<Outcome, EngineError> {
    loop {
        let is_over = engine.runner.is_idle() && inputs.is_empty();
        if let Some(outcome) = engine.outcome().filter(|_| is_over).cloned() {
            if !engine.runner.is_telling() {
                return Ok(outcome);
            }
            tell_last(&mut engine.runner, signals).await;
            continue;
        }
        let input = next_input(&mut inputs, signals, engine.wakes_at()).await;
        engine.take(SystemClock.now(), input)?;
        // Whatever asked for the stop, the next Ctrl-C insists.
        signals.interrupted |= engine.journal().run().is_stopping();
    }
}

/// Whatever comes first. Time is compared by the wall clock, since a monotonic timer stops while
/// the machine is suspended.
async fn next_input(
    inputs: &mut mpsc::Receiver<Input>,
    signals: &mut Signals,
    wakes_at: Option<Timestamp>,
) -> Input {
    let until_wake = wakes_at.map(|wakes| Duration::from(wakes.since(SystemClock.now())));
    let pause = until_wake.unwrap_or(TICK).min(TICK);
    tokio::select! {
        Some(input) = inputs.recv() => input,
        request = signals.next() => Input::Event(Event::StopRequested(request)),
        () = tokio::time::sleep(pause) => Input::Tick,
    }
}
