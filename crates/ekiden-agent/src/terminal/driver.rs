//! The driver of one attempt in the client's own interface: its hooks, the engine's commands, its end.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use ekiden_core::effect::StartMode;
use ekiden_core::event::AttemptEnded;
use ekiden_core::limits;
use ekiden_core::relay::Prompt;
use ekiden_core::text::in_full;
use ekiden_wire::trace::Trace;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::conversation::{Conversation, Ending};
use super::launch;
use super::listener::Listener;
use super::unhooked::{Unhooked, last_response};
use crate::attempt::{AgentCommand, AttemptSpec, Engine, Report, unstarted};
use crate::child::{Child, ChildEnd, spawn};

/// How often to check a session without hooks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long the transcript may take to confirm a limit that a hook reported.
const LIMIT_PATIENCE: Duration = Duration::from_secs(3);

/// How long a message waits at an idle client once that has happened before: the person is away.
const UNHEARD_AGAIN: Duration = Duration::from_secs(5);

pub(crate) async fn run(mut spec: AttemptSpec, engine: &mut Engine) -> AttemptEnded {
    let unhooked = Unhooked::new(
        &spec.conversation.to_string(),
        spec.agent.account.as_deref(),
        &spec.events_file,
    );
    let (child, mut listener) = match begin(&mut spec) {
        Ok(begun) => begun,
        Err(why) => return unstarted(why),
    };
    let session = spec.attempt.session.get();
    let mut driver = Driver {
        child,
        conversation: Conversation::new(spec.conversation, session, spec.prompt_file.clone()),
        unhooked,
        patience: limits::UNHEARD_MAX.into(),
        anew: None,
    };
    if let Some(pid) = driver.child.started().await {
        engine.tell(Report::Started { pid }).await;
    }
    let end = loop {
        let end = driver.until_end(&mut listener, engine).await;
        let is_left = Conversation::is_left(&end);
        let Some(text) = driver.anew.take().filter(|_| !is_left) else {
            break end;
        };
        if let Err(why) = driver.start_anew(&mut spec, text) {
            driver.conversation.warn(&why);
            driver.conversation.ending(Ending::Done);
            break end;
        }
    };
    let trace = driver.keep_transcript(&mut spec);
    let ended = driver.conversation.ended(end, engine.elapsed(), trace);
    driver.flush(engine).await;
    ended
}

fn begin(spec: &mut AttemptSpec) -> Result<(Child, Listener), String> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err("its own interface needs a terminal".to_owned());
    }
    let socket = socket(spec);
    let listener = Listener::bind(socket.clone())
        .map_err(|error| format!("cannot listen to hooks at {}: {error}", socket.display()))?;
    let child = start(spec)?;
    Ok((child, listener))
}

/// Starts the client. The lock also stays here, for a client that is restarted.
fn start(spec: &mut AttemptSpec) -> Result<Child, String> {
    let ekiden = crate::keeper::path_of_executable()
        .map_err(|error| format!("cannot find ekiden's executable: {error}"))?;
    let lock = spec.lock.as_ref().map(File::try_clone).transpose();
    let lock = lock.map_err(|error| format!("cannot pass on the attempt's lock: {error}"))?;
    let child = launch::child(spec, &ekiden, &socket(spec));
    spec.lock = lock;
    spawn(child).map_err(|error| in_full(&error))
}

/// Beside the session's prompt, where only this user can reach it.
fn socket(spec: &AttemptSpec) -> PathBuf {
    spec.prompt_file.with_file_name("hooks.sock")
}

/// The time until which to wait, if the state holds now.
fn until(is_so: bool, by: Option<Instant>, patience: Duration) -> Option<Instant> {
    is_so.then(|| by.unwrap_or_else(|| Instant::now() + patience))
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

struct Driver {
    child: Child,
    conversation: Conversation,
    unhooked: Unhooked,
    /// How long a message waits at an idle client: a person may be about to type.
    patience: Duration,
    /// The client is being ended, and will be restarted with this message.
    anew: Option<String>,
}

impl Driver {
    /// Serves the client until it is gone.
    async fn until_end(&mut self, listener: &mut Listener, engine: &mut Engine) -> ChildEnd {
        let (mut limit_by, mut unheard_by) = (None, None);
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.flush(engine).await;
            let is_hooked = self.conversation.transcript.is_some();
            let awaits_limit = self.conversation.awaits_limit();
            limit_by = until(awaits_limit, limit_by, LIMIT_PATIENCE);
            unheard_by = until(self.conversation.is_unheard(), unheard_by, self.patience);
            tokio::select! {
                biased;
                command = engine.next() => self.obey(command),
                question = listener.next() => {
                    self.conversation.ask(question, last_response);
                    if self.conversation.is_other {
                        self.child.terminate();
                    }
                    let transcript = self.conversation.transcript.as_deref();
                    let has_limit = |transcript| self.unhooked.has_limit(transcript);
                    if awaits_limit && transcript.is_some_and(has_limit) {
                        self.conversation.limit_is_known();
                    }
                }
                end = self.child.wait() => return end,
                _ = looks.tick(), if !is_hooked => self.unhooked.look(&mut self.conversation),
                () = at(limit_by) => self.conversation.limit_is_known(),
                () = at(unheard_by) => self.end_to_start_anew(),
            }
        }
    }

    /// A client that waits for its person gets a message only through its command line.
    fn end_to_start_anew(&mut self) {
        self.anew = self.conversation.say_anew();
        self.patience = UNHEARD_AGAIN;
        self.child.terminate();
    }

    /// Continues the conversation in a new process, unless the session was ended meanwhile.
    fn start_anew(&mut self, spec: &mut AttemptSpec, text: String) -> Result<(), String> {
        spec.mode = StartMode::Resume;
        spec.message = Prompt::Resume(text);
        self.child = start(spec)?;
        Ok(())
    }

    async fn flush(&mut self, engine: &mut Engine) {
        while let Some(report) = self.conversation.next_report() {
            engine.tell(report).await;
        }
    }

    fn obey(&mut self, command: AgentCommand) {
        match command {
            // It has its first message from the command line, and begins with a request to its service.
            AgentCommand::Begin => {}
            AgentCommand::Say(text) => self.conversation.say(text),
            AgentCommand::Answer { callback, answer } => {
                self.conversation.answer(&callback, &answer);
            }
            AgentCommand::Close => self.end(Ending::Done),
            // Ending a turn from outside means ending the client.
            AgentCommand::Interrupt | AgentCommand::Terminate => self.end(Ending::Stopped),
        }
    }

    fn end(&mut self, how: Ending) {
        self.anew = None;
        self.conversation.ending(how);
        self.child.terminate();
    }

    /// The transcript takes the place of the headless event stream: it is kept, and read for what it shows.
    /// A failure loses only that.
    fn keep_transcript(&self, spec: &mut AttemptSpec) -> Trace {
        let hooked = self.conversation.transcript.as_ref();
        let transcript = hooked.or(self.unhooked.transcript.as_ref());
        let kept = transcript.map(|path| self.unhooked.keep(path, &mut spec.raw));
        kept.and_then(Result::ok).unwrap_or_default()
    }
}
