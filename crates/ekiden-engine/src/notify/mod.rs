//! Notifies a person who is elsewhere: on the desktop, by a program, by a webhook, by a topic of ntfy.
//!
//! ```text
//!                        ┌─► the desktop       notify-send, osascript
//!  notice ─► [kinds?] ───┼─► notify.command    JSON on its standard input
//!                        ├─► notify.webhook    JSON by POST, tried again, kept until it has arrived
//!                        └─► notify.ntfy       text by POST, tried again
//! ```
//!
//! Each way has its own task and its own time limit, so one that never answers delays neither the run nor the
//! others. The user chooses the ways at each start, and the choice stays out of the log: an address is often a
//! secret, and the next `ekiden resume` can correct a wrong one. This module masks secrets in the text.

mod desktop;
mod of_fleet;
mod post;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ekiden_agent::child::{ChildEnd, ChildSpec};
use ekiden_agent::task;
use ekiden_core::ids::{EffectId, RunId, StageId};
use ekiden_core::limits;
use ekiden_core::notice::NoticeKind;
use ekiden_core::run::Run;
use ekiden_core::secrets::mask;
use ekiden_core::text::{in_full, one_line};
use ekiden_core::time::Timestamp;
use serde::Serialize;

use crate::clock::{Clock, SystemClock};
use crate::error::EngineError;
use crate::runtime::{runtime, system};
use crate::task_mark::task_mark;
use crate::workspace::Workspace;
pub use of_fleet::FleetNotices;
pub use post::{http_agent, is_address};

/// The version of the event that programs and webhooks get: `docs/json.md`.
const EVENT_VERSION: u32 = 1;
/// How much is read of a program's error message, in bytes.
const OUTPUT_BYTES_MAX: usize = 4096;
/// What the user is told at the end if one has not arrived.
pub(crate) const LATE: &str =
    "the run is over and a notification is still on its way: it may not arrive";
/// How much of a line is shown, in characters.
const LINE_CHARS_MAX: usize = 120;

/// A way to reach a person, and which kinds go there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub way: Way,
    pub kinds: Vec<NoticeKind>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    Desktop,
    /// A program with its arguments, which reads the event from its standard input.
    Command(Vec<String>),
    Webhook(String),
    Ntfy(String),
}

impl Notice {
    /// What a run tells by an effect of a stage.
    pub(crate) fn of(
        run: &Run,
        at: Timestamp,
        stage: &StageId,
        about: NoticeKind,
        text: String,
    ) -> Self {
        let in_plan = run.header().is_plan();
        let relay = run.relay(stage);
        Self {
            at,
            about,
            text,
            // The end of a plan comes through any one of its stages, but it is not that stage's end.
            stage: Some(stage.clone()).filter(|_| in_plan && run.outcome().is_none()),
            session: relay.map_or(0, |relay| relay.session().into()),
        }
    }
}

impl Way {
    /// Its name in settings and messages. Never its address, which may be a secret.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Desktop => "notify.desktop",
            Self::Command(_) => "notify.command",
            Self::Webhook(_) => "notify.webhook",
            Self::Ntfy(_) => "notify.ntfy",
        }
    }
}

/// Something to tell, with what is known about where it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub at: Timestamp,
    pub about: NoticeKind,
    pub text: String,
    /// None in a run of a single relay.
    pub stage: Option<StageId>,
    pub session: u32,
}

/// What a program or a webhook gets.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct NoticeEvent {
    v: u32,
    event: &'static str,
    /// Stays the same if the event is sent again.
    id: String,
    time: String,
    kind: &'static str,
    title: String,
    text: String,
    run: String,
    project: String,
    stage: Option<String>,
    session: u32,
}

impl NoticeEvent {
    pub(crate) fn new(dir: &Path, run: &RunId, effect: EffectId, notice: &Notice) -> Self {
        let stage = notice.stage.as_ref().map(StageId::to_string);
        let place = stage.as_ref().map(|stage| format!(", stage {stage}"));
        let title = format!("{}{}", title(dir, run), place.unwrap_or_default());
        Self {
            v: EVENT_VERSION,
            event: "notice",
            id: task_mark(run, effect),
            time: notice.at.rfc3339(),
            kind: notice.about.name(),
            title: mask(&title).into_owned(),
            text: mask(&notice.text).into_owned(),
            run: run.to_string(),
            project: mask(&project(dir)).into_owned(),
            stage,
            session: notice.session,
        }
    }

    fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What the user is told if a way does not work.
pub(crate) fn failure(name: &str, why: &str) -> String {
    format!("cannot notify by `{name}`: {why}; `--no-notify` switches that off")
}

/// What sends a notice in each way that takes its kind, with the name of the way.
pub(crate) fn tellings(
    keeper: &Path,
    workspace: &Workspace,
    endpoints: &[Endpoint],
    (run, effect): (&RunId, EffectId),
    notice: &Notice,
) -> Vec<(
    &'static str,
    impl Future<Output = Result<(), String>> + Send + use<>,
)> {
    let dir = &workspace.dir;
    let event = NoticeEvent::new(dir, run, effect, notice);
    let kept_in = workspace.user_dir.as_ref().map(|dir| dir.join("notices"));
    let telling = |Endpoint { way, .. }: &Endpoint| {
        let (keeper, dir, kept_in) = (keeper.to_owned(), dir.clone(), kept_in.clone());
        let told = tell(keeper, dir, way.clone(), event.clone(), kept_in);
        (way.name(), told)
    };
    let wanted = endpoints.iter();
    let wanted = wanted.filter(|endpoint| endpoint.kinds.contains(&notice.about));
    wanted.map(telling).collect()
}

/// Sends it in one way. An error is a fragment that fits after "cannot notify: ". What a webhook does not
/// accept waits below `kept_in` for the next event.
async fn tell(
    keeper: PathBuf,
    dir: PathBuf,
    way: Way,
    event: NoticeEvent,
    kept_in: Option<PathBuf>,
) -> Result<(), String> {
    match way {
        Way::Desktop => match desktop::command(&event.title, &event.text) {
            Some((program, args)) => start(ChildSpec::new(keeper, program, dir), args, b"").await,
            None => Ok(()),
        },
        Way::Command(words) => {
            let Some((program, args)) = words.split_first() else {
                return Ok(());
            };
            let args = args.iter().map(OsString::from).collect();
            let spec = ChildSpec::new(keeper, program, dir);
            start(spec, args, format!("{}\n", event.json()).as_bytes()).await
        }
        Way::Webhook(url) => {
            let queue = kept_in.map(|dir| post::Queue::of(&dir, &url, SystemClock.now()));
            let (title, body) = (None, event.json());
            post::send(post::Post { url, title, body }, queue).await
        }
        Way::Ntfy(url) => {
            let (title, body) = (Some(event.title), event.text);
            post::send(post::Post { url, title, body }, None).await
        }
    }
}

/// Runs a program to its end, in bounded time. None of its output is kept.
async fn start(spec: ChildSpec, args: Vec<OsString>, input: &[u8]) -> Result<(), String> {
    let program = spec.program.to_string_lossy().into_owned();
    let over = tokio::time::sleep(limits::NOTIFY_TIMEOUT.into());
    let spec = ChildSpec { args, ..spec };
    let done = task::run_output(spec, input, over, OUTPUT_BYTES_MAX).await;
    let output = done.map_err(|error| format!("cannot {}", in_full(&error)))?;
    if output.timed_out {
        return Err(format!(
            "`{program}` was ended after {}",
            limits::NOTIFY_TIMEOUT
        ));
    }
    if output.end == ChildEnd::Exited(0) {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = one_line(&said, LINE_CHARS_MAX);
    match said.is_empty() {
        true => Err(format!("`{program}` failed without a word")),
        false => Err(format!("`{program}` failed: {said}")),
    }
}

/// Sends a notification by each way, whatever kinds go there, and waits for the results: none if a way worked,
/// otherwise why not. It is an error if the system refuses what is needed to send anything.
pub fn try_out(
    dir: &Path,
    endpoints: &[Endpoint],
) -> Result<Vec<(&'static str, Option<String>)>, EngineError> {
    let keeper = ekiden_agent::keeper::executable().map_err(system("find ekiden's executable"))?;
    let notice = Notice {
        at: SystemClock.now(),
        about: NoticeKind::NeedsYou,
        text: "this is a test notification from ekiden".to_owned(),
        stage: None,
        session: 0,
    };
    let (run, effect) = (RunId::from_bits(0), EffectId { seq: 0, index: 0 });
    let event = NoticeEvent::new(dir, &run, effect, &notice);
    runtime()?.block_on(async {
        let mut told = Vec::new();
        for endpoint in endpoints {
            let way = endpoint.way.clone();
            let name = way.name();
            let failed = if way == Way::Desktop && !desktop::is_there() {
                Some("no desktop session was found".to_owned())
            } else {
                let telling = tell(keeper.clone(), dir.to_owned(), way, event.clone(), None);
                telling.await.err()
            };
            told.push((name, failed));
        }
        Ok(told)
    })
}

/// The directory and the run, by the digits that most places show of it.
fn title(dir: &Path, run: &RunId) -> String {
    format!("ekiden: {}, run {:.4}", project(dir), run.as_str())
}

fn project(dir: &Path) -> String {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    one_line(&name, LINE_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: REL-19
    #[test]
    fn a_notification_says_where_in_one_line() {
        let run = RunId::from_bits(0x7f3a_0b1c);
        assert_eq!(
            title(Path::new("/home/me/my\n\u{1b}[31mproject"), &run),
            "ekiden: my project, run 7f3a"
        );
    }

    // shows: UIX-10, MEM-12
    #[test]
    fn an_event_is_whole_and_holds_no_secret() {
        let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        let notice = Notice {
            at: Timestamp(1_792_000_000_000),
            about: NoticeKind::NeedsYou,
            text: format!("blocked: may I push with {secret}?"),
            stage: StageId::try_from("parser".to_owned()).ok(),
            session: 3,
        };
        let run = RunId::from_bits(0x7f3a_0b1c);
        let effect = EffectId { seq: 12, index: 1 };
        let event = NoticeEvent::new(Path::new("/p/app"), &run, effect, &notice);
        expect_test::expect![[r#"{"v":1,"event":"notice","id":"7f3a0b1c/12.1","time":"2026-10-14T17:46:40Z","kind":"needs_you","title":"ekiden: app, run 7f3a, stage parser","text":"blocked: may I push with [masked: github token]?","run":"7f3a0b1c","project":"app","stage":"parser","session":3}"#]].assert_eq(&event.json());
    }
}
