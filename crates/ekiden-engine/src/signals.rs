//! The signals with which people and systems stop a run.

use ekiden_core::agent::Interface;
use ekiden_core::settings::RunStarted;
use ekiden_core::steering::StopRequest;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::EngineError;
use crate::runtime::system;

/// What a run does when its terminal goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnHangup {
    Continue,
    Stop,
}

impl OnHangup {
    /// The agent's own interface ends with its terminal.
    pub(crate) fn of(self, header: &RunStarted) -> Self {
        match header.settings.agent.interface {
            Interface::Headless => self,
            Interface::Terminal => Self::Stop,
        }
    }
}

/// The signals with which people and systems stop a program.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None if the process that started us ignored it, as `nohup` does: it stays ignored.
    hangup: Option<Signal>,
    on_hangup: OnHangup,
    pub(crate) interrupted: bool,
}

impl Signals {
    pub(crate) fn listen(on_hangup: OnHangup) -> Result<Self, EngineError> {
        let listen = |kind| signal(kind).map_err(system("listen to signals"));
        let hangup = (!ekiden_agent::hangup_is_ignored()).then(SignalKind::hangup);
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: hangup.map(listen).transpose()?,
            on_hangup,
            interrupted: false,
        })
    }

    /// The first Ctrl-C asks, every other signal insists. Cancel safe.
    pub(crate) async fn next(&mut self) -> StopRequest {
        tokio::select! {
            _ = self.interrupt.recv() => {
                let again = std::mem::replace(&mut self.interrupted, true);
                if again { now(SignalKind::interrupt()) } else { StopRequest::Gently }
            }
            _ = self.terminate.recv() => now(SignalKind::terminate()),
            () = lost(self.hangup.as_mut(), self.on_hangup) => now(SignalKind::hangup()),
        }
    }
}

/// Waits for a hangup that ends the run.
async fn lost(hangup: Option<&mut Signal>, on_hangup: OnHangup) {
    match hangup {
        Some(hangup) => while hangup.recv().await.is_none() || on_hangup == OnHangup::Continue {},
        None => std::future::pending().await,
    }
}

fn now(kind: SignalKind) -> StopRequest {
    StopRequest::Now {
        signal: kind.as_raw_value(),
    }
}
