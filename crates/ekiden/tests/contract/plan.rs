//! Plans with the real client: several of it at work at once, each in a worktree of its own.
//!
//! The model tells the stages apart by their tasks, which stand first in each prompt, and finds the
//! worktree in what the client says of its surroundings.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ekiden_testkit::client::{CleanEnvironment, real_client_for};
use ekiden_testkit::messages_api::{Message, MessagesApi, Reply, Request, Status, Usage};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::acting::{ordered, resumed};
use crate::project::Project;
use crate::relay::{hand_off, session_of, with_client};
use crate::stage::{Running, Turn};

const STAGES: [&str; 4] = ["A", "B", "C", "D"];

/// A project with a plan, and a model that works on it.
struct Fixture {
    project: Project,
    environment: CleanEnvironment,
    client: PathBuf,
    api: MessagesApi,
    _turn: Turn,
}

impl Fixture {
    fn set(
        what: &str,
        plan: &str,
        model: impl FnMut(&Request) -> Reply + Send + 'static,
    ) -> Option<Self> {
        let client = real_client_for(what)?;
        let turn = Turn::wait();
        let project = Project::new();
        project.write("plan.toml", plan);
        project.write("shared.txt", "nobody\n");
        for args in [
            &["config", "user.name", "Test"][..],
            &["config", "user.email", "test@example.invalid"],
            &["add", "--all"],
            &["commit", "--quiet", "--message=plan"],
        ] {
            git(&project, args);
        }
        let api = MessagesApi::start(model);
        let environment = CleanEnvironment::new(&api)
            .unwrap()
            .with("CLAUDE_CODE_MAX_RETRIES", "0");
        Some(Self {
            project,
            environment,
            client,
            api,
            _turn: turn,
        })
    }

    fn ekiden(&self) -> Command {
        with_client(&self.project, &self.environment, &self.client)
    }

    fn start(&self, args: &[&str]) -> Running {
        Running::of(self.ekiden().args(args).arg("--json"))
    }

    fn execute(&self) -> Running {
        self.start(&[
            "execute",
            "plan.toml",
            "--yes",
            "--permission-mode",
            "acceptEdits",
        ])
    }

    /// Every stage is merged once, and nothing is left but the user's branch.
    #[track_caller]
    fn expect_whole(&self, stages: &[&str]) {
        let merges = git(&self.project, &["log", "--merges", "--format=%s"]);
        let mut merges: Vec<&str> = merges
            .lines()
            .filter(|subject| !subject.contains("changes of other stages"))
            .collect();
        merges.sort_unstable();
        let wanted: Vec<String> = stages
            .iter()
            .map(|stage| format!("ekiden: {stage} {stage}"))
            .collect();
        assert_eq!(merges, wanted);
        assert_eq!(
            git(&self.project, &["branch", "--format=%(refname:short)"]),
            "main\n"
        );
        assert_eq!(git(&self.project, &["worktree", "list"]).lines().count(), 1);
        assert_eq!(git(&self.project, &["status", "--porcelain"]), "");
    }
}

pub(crate) fn git(project: &Project, args: &[&str]) -> String {
    let done = Command::new("git")
        .args(args)
        .current_dir(project.path())
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    String::from_utf8(done.stdout).unwrap()
}

/// Stages as `id: needs`; each is done when its file is there.
fn plan(stages: &[(&str, &str, &str)]) -> String {
    let mut text = "format = 1\nproject = \"four\"\njobs = 2\n".to_owned();
    for (stage, needs, check) in stages {
        text.push_str(&format!(
            "[[stage]]\nid = \"{stage}\"\nname = \"{stage}\"\nneeds = [{needs}]\nprompt = \"Make part {stage}.\"\n\
             validation = {{ kind = \"command\", command = '{check}' }}\n"
        ));
    }
    text
}

/// Whose request it is: the task stands first, and those of others may be quoted behind it.
fn stage_of(request: &Request) -> &'static str {
    let text = request.text();
    let at = |stage: &&str| text.find(&format!("Make part {stage}."));
    let first = STAGES
        .iter()
        .filter_map(|stage| Some((at(stage)?, *stage)))
        .min();
    first.map_or("", |(_, stage)| stage)
}

/// The worktree in which the client works.
pub(crate) fn tree_of(request: &Request, stage: &str) -> PathBuf {
    let said = request.system() + &request.text();
    let end = format!("-{stage}");
    let word = said
        .split(|c: char| c.is_whitespace() || "\"'`<>()".contains(c))
        .find(|word| word.starts_with('/') && word.contains("/worktrees/") && word.contains(&end));
    let word = word.unwrap_or_else(|| panic!("no worktree in {said}"));
    let cut = word.rfind(&end).unwrap() + end.len();
    PathBuf::from(&word[..cut])
}

pub(crate) fn write(dir: &Path, name: &str, content: &str) -> Message {
    let path = dir.join(name);
    Message::call(
        "Write",
        json!({"file_path": path.to_str().unwrap(), "content": content}),
    )
}

fn read(dir: &Path, name: &str) -> Message {
    Message::call(
        "Read",
        json!({"file_path": dir.join(name).to_str().unwrap()}),
    )
}

/// Does these one after the other, then claims that all is done.
fn in_turn(dir: &Path, answers: usize, deeds: Vec<Message>) -> Reply {
    let count = deeds.len();
    match deeds.into_iter().nth(answers) {
        Some(deed) => deed.into(),
        None if answers == count => hand_off(dir, 3).into(),
        None => Message::text("Done.").into(),
    }
}

/// A needs two sessions; B and C write the same line, and whoever comes later puts both there.
fn diamond(request: &Request) -> Reply {
    let stage = stage_of(request);
    if stage.is_empty() {
        return Message::text("Well.").into();
    }
    let (dir, answers) = (tree_of(request, stage), request.answers());
    match (stage, session_of(&request.text())) {
        ("A", 1) => match answers {
            0 => write(&dir, "half.txt", "half\n")
                .using(Usage::context(20_000))
                .into(),
            1 => Message::call("Bash", json!({"command": "ls"}))
                .using(Usage::context(130_000))
                .into(),
            2 if ordered(request) => hand_off(&dir, 1).using(Usage::context(131_000)).into(),
            _ => Message::text("Done.").using(Usage::context(132_000)).into(),
        },
        ("A", _) => in_turn(&dir, answers, vec![write(&dir, "a.txt", "a\n")]),
        ("B", 1) => in_turn(
            &dir,
            answers,
            vec![read(&dir, "shared.txt"), write(&dir, "shared.txt", "b\n")],
        ),
        ("C", 1) => in_turn(
            &dir,
            answers,
            vec![read(&dir, "shared.txt"), write(&dir, "shared.txt", "c\n")],
        ),
        ("B" | "C", _) => in_turn(
            &dir,
            answers,
            vec![
                read(&dir, "shared.txt"),
                write(&dir, "shared.txt", "b\nc\n"),
            ],
        ),
        (_, _) => in_turn(&dir, answers, vec![write(&dir, "d.txt", "d\n")]),
    }
}

// shows: AGT-12, PLN-08, PLN-09
#[test]
fn the_real_client_works_on_a_diamond_with_a_conflict() {
    let stages = [
        ("A", "", "test -f a.txt"),
        ("B", "\"A\"", "grep -q b shared.txt"),
        ("C", "\"A\"", "grep -qx c shared.txt"),
        ("D", "\"B\", \"C\"", "test -f d.txt"),
    ];
    let Some(fixture) = Fixture::set("a plan with a conflict", &plan(&stages), diamond) else {
        return;
    };
    let told = fixture.execute().expect_exit(0);
    assert_eq!(fixture.project.read("shared.txt"), "b\nc\n");
    assert_eq!(
        fixture.project.read("half.txt") + &fixture.project.read("a.txt"),
        "half\na\n"
    );
    fixture.expect_whole(&STAGES);
    let started: Vec<&Value> = told
        .iter()
        .filter(|line| line["event"] == "session_started")
        .collect();
    assert_eq!(
        started.len(),
        6,
        "two of A and of the stage with the conflict: {started:#?}"
    );
    let mended = fixture
        .api
        .main_requests()
        .iter()
        .any(|request| request.text().contains("shared.txt"));
    assert!(mended, "the files in conflict are named");
}

/// Stage A meets a limit; C, which needs nothing, waits for its end too.
// shows: AGT-12, REL-11, PLN-08
#[test]
fn a_limit_that_one_stage_meets_holds_the_others() {
    let stages = [
        ("A", "", "test -f a.txt"),
        ("B", "", "test -f b.txt"),
        ("C", "", "test -f c.txt"),
    ];
    let model = move |request: &Request| -> Reply {
        let stage = stage_of(request);
        if stage.is_empty() {
            return Message::text("Well.").into();
        }
        let (dir, answers) = (tree_of(request, stage), request.answers());
        let file = format!("{}.txt", stage.to_lowercase());
        match (stage, answers) {
            ("A", 1) if !resumed(request) => Status::error(429, "rate_limit_error", "limit")
                .header("anthropic-ratelimit-unified-status", "rejected")
                .header("anthropic-ratelimit-unified-reset", "1700000000")
                .header(
                    "anthropic-ratelimit-unified-representative-claim",
                    "five_hour",
                )
                .into(),
            ("A", _) if resumed(request) && !dir.join(&file).exists() => {
                write(&dir, &file, "a\n").into()
            }
            ("A", 0) => Message::call("Bash", json!({"command": "ls"})).into(),
            ("A", _) if !dir.join(".ekiden/handoff/NEXT_PROMPT.md").exists() => {
                hand_off(&dir, 3).into()
            }
            ("A", _) => Message::text("Done.").into(),
            ("B", 0) => Message::call("Bash", json!({"command": "sleep 2"})).into(),
            ("B", _) => in_turn(&dir, answers - 1, vec![write(&dir, &file, "b\n")]),
            (_, _) => in_turn(&dir, answers, vec![write(&dir, &file, "c\n")]),
        }
    };
    let Some(mut fixture) = Fixture::set("a limit that holds all", &plan(&stages), model) else {
        return;
    };
    fixture.environment = fixture
        .environment
        .with("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-fake")
        .without("ANTHROPIC_API_KEY");
    fixture.execute().expect_exit(0);
    fixture.expect_whole(&["A", "B", "C"]);
    let log = fixture.project.log();
    let time = |record: &Value| record["time"].as_u64().unwrap();
    let limited = log
        .iter()
        .find(|record| record["event"]["event"]["event"]["cause"]["rate_limited"].is_object());
    let limited = time(limited.expect("a limit"));
    let starts = log.iter().filter(|record| {
        let effects = record["effects"].as_array().unwrap();
        effects
            .iter()
            .any(|effect| effect["effect"]["kind"] == "start_attempt")
    });
    let after: Vec<u64> = starts.map(time).filter(|start| *start > limited).collect();
    assert_eq!(after.len(), 2, "A again, and C: {after:?}");
    assert!(
        after.iter().all(|start| start - limited >= 29_000),
        "{limited}: {after:?}"
    );
}

// shows: AGT-12, PLN-08, DUR-03
#[test]
fn a_plan_of_clients_that_is_killed_goes_on() {
    let stages = [
        ("A", "", "test -f a.txt"),
        ("B", "", "test -f b.txt"),
        ("D", "\"A\", \"B\"", "test -f d.txt"),
    ];
    let killed = Arc::new(AtomicBool::new(false));
    let is_killed = Arc::clone(&killed);
    let model = move |request: &Request| -> Reply {
        let stage = stage_of(request);
        if stage.is_empty() {
            return Message::text("Well.").into();
        }
        let dir = tree_of(request, stage);
        let file = format!("{}.txt", stage.to_lowercase());
        let handed = dir.join(".ekiden/handoff/NEXT_PROMPT.md").exists();
        match (dir.join(&file).exists(), handed) {
            (false, _) => write(&dir, &file, "made\n").into(),
            // Until the kill, nobody comes further.
            (true, _) if !is_killed.load(Ordering::SeqCst) => {
                Message::call("Bash", json!({"command": "sleep 20"})).into()
            }
            (true, false) => hand_off(&dir, 3).into(),
            (true, true) => Message::text("Done.").into(),
        }
    };
    let Some(fixture) = Fixture::set("a plan that is killed", &plan(&stages), model) else {
        return;
    };
    let mut run = fixture.execute();
    run.until("session_started");
    run.until("session_started");
    let sleeps = |stage: &'static str| {
        move |request: &Request| stage_of(request) == stage && request.tool_results().len() == 1
    };
    for stage in ["A", "B"] {
        fixture
            .api
            .wait_for(crate::stage::PATIENCE, sleeps(stage))
            .unwrap();
    }
    run.signal(Signal::KILL);
    run.wait();
    killed.store(true, Ordering::SeqCst);
    fixture.start(&["resume"]).expect_exit(0);
    fixture.expect_whole(&["A", "B", "D"]);
    for file in ["a.txt", "b.txt", "d.txt"] {
        assert_eq!(fixture.project.read(file), "made\n");
    }
}
