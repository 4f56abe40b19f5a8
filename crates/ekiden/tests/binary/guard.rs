//! The guard as the client calls it: hooks and the status line, fed what a client would say.

use std::path::PathBuf;

use ekiden_core::observation::Origin;
use ekiden_core::observation::watched::prompt;
use ekiden_core::time::Timestamp;
use ekiden_store::memory::MemoryFiles;
use ekiden_testkit::trackers::{FakeLinear, TrackerServer};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::environment::Environment;
use crate::receiver::Receiver;
use crate::running::wait_until;
use crate::telemetry::{attribute, spans};

pub(crate) const SESSION: &str = "5afeba7c-2d1b-4052-8781-47e7f3b03bf3";
/// A model with a window of 200,000, of which 167,000 can be used.
const MODEL: &str = "claude-haiku-4-5-20251001";

/// A watched session in a repository.
pub(crate) struct Watched {
    pub(crate) environment: Environment,
}

impl Watched {
    pub(crate) fn new() -> Self {
        let environment = Environment::with_git();
        environment.git(&["switch", "--quiet", "--create", "feature/ANV-123-api"]);
        environment.write("src/api.rs", "one\n");
        environment.commit_all();
        environment.write("src/api.rs", "two\n");
        Self { environment }
    }

    pub(crate) fn transcript(&self) -> PathBuf {
        self.environment.path("transcript.jsonl")
    }

    /// The last response used this share of the usable window. It is later than any status line.
    pub(crate) fn uses(&self, percent: u64) -> &Self {
        let line = json!({"type": "assistant", "isSidechain": false, "timestamp": "2099-11-21T14:00:00.000Z",
            "message": {"id": format!("m{percent}"), "model": MODEL, "role": "assistant",
                "content": [{"type": "text", "text": "on it"}], "stop_reason": "end_turn",
                "usage": {"input_tokens": 167_000 * percent / 100 + 1, "output_tokens": 5}}});
        std::fs::write(self.transcript(), format!("{line}\n")).unwrap();
        self
    }

    fn input(&self, event: &str, more: &Value) -> String {
        let mut input = json!({"session_id": SESSION, "transcript_path": self.transcript(),
            "cwd": self.environment.dir(), "hook_event_name": event});
        for (key, value) in more.as_object().unwrap() {
            input[key] = value.clone();
        }
        input.to_string()
    }

    /// What a hook answers; nothing is an empty object.
    pub(crate) fn hook(&self, event: &str, more: &Value) -> Value {
        let said = self
            .environment
            .fed(&["hook", event], &self.input(event, more))
            .expect(0);
        if said.stdout.is_empty() {
            json!({})
        } else {
            serde_json::from_str(&said.stdout).unwrap()
        }
    }

    pub(crate) fn batch(&self, command: &str) -> Value {
        let call =
            json!({"tool_name": "Bash", "tool_input": {"command": command}, "tool_response": "ok"});
        self.hook("PostToolBatch", &json!({"tool_calls": [call]}))
    }

    fn tool(&self, name: &str, input: &Value) -> Value {
        self.hook(
            "PreToolUse",
            &json!({"tool_name": name, "tool_input": input, "tool_use_id": "t"}),
        )
    }

    fn line(&self, used: u64) -> String {
        self.line_of(200_000, used)
    }

    fn line_of(&self, window: u64, used: u64) -> String {
        let input = json!({"session_id": SESSION, "transcript_path": self.transcript(),
            "cwd": self.environment.dir(), "model": {"id": MODEL},
            "workspace": {"project_dir": self.environment.dir()},
            "context_window": {"context_window_size": window, "total_input_tokens": used}});
        self.environment
            .fed(&["statusline"], &input.to_string())
            .expect(0)
            .stdout
    }

    /// Waits for the detached checkpoint: its lock is free once it is written.
    pub(crate) fn checkpointed(&self) {
        self.checkpointed_of(SESSION);
    }

    pub(crate) fn checkpointed_of(&self, session: &str) {
        let lock = self.guard(&format!("{session}.writing"));
        let log = self.guard(&format!("{session}.jsonl"));
        for _ in 0..3_000 {
            if std::fs::read_to_string(&log)
                .unwrap_or_default()
                .contains("\"taken\"")
            {
                let file = std::fs::File::open(&lock).unwrap();
                file.lock_shared().unwrap();
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!(
            "no checkpoint: {}",
            std::fs::read_to_string(&log).unwrap_or_default()
        );
    }

    fn guard(&self, name: &str) -> PathBuf {
        self.environment
            .dir()
            .join(".git/ekiden/root/guard")
            .join(name)
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.guard(&format!("{SESSION}.jsonl"))).unwrap_or_default()
    }

    fn state(&self) -> Value {
        serde_json::from_str(&self.environment.read(".ekiden/checkpoint-state.json")).unwrap()
    }
}

fn person(answer: &Value) -> &str {
    answer["systemMessage"].as_str().unwrap_or_default()
}

fn agent(answer: &Value) -> &str {
    answer["hookSpecificOutput"]["additionalContext"]
        .as_str()
        .unwrap_or_default()
}

/// Git from 2.45 on keeps refs in tables if it is asked to; an older one has no such repositories.
// shows: HND-07
#[test]
fn the_branch_of_a_repository_with_reftables_is_shown() {
    let environment = Environment::new().with("EKIDEN_GUARD_LINE", "branch");
    let version = environment.git(&["version"]);
    let numbers: Vec<u32> = version
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect();
    if numbers.as_slice() < [2, 45].as_slice() {
        return;
    }
    for hash in ["sha1", "sha256"] {
        let _ = std::fs::remove_dir_all(environment.dir().join(".git"));
        let form = format!("--object-format={hash}");
        let made = [
            "init",
            "--quiet",
            "--ref-format=reftable",
            &form,
            "--initial-branch=topic/x",
        ];
        environment.git(&made);
        let input = json!({"session_id": SESSION, "cwd": environment.dir()}).to_string();
        let shows = |branch: &str| {
            let said = environment.fed(&["statusline"], &input);
            assert_eq!(said.expect(0).stdout.trim_end(), format!("[{branch}]"));
        };
        shows("topic/x");
        environment.commit_all();
        environment.git(&["switch", "--quiet", "--create", "another"]);
        environment.git(&["pack-refs", "--all"]);
        shows("another");
    }
}

/// The client asks an idle session's status line every five seconds.
// shows: CHK-13, UIX-06
#[test]
fn an_idle_session_leaves_the_state_of_the_one_that_was_active_last() {
    let session = Watched::new();
    let of = |name: &str, used: u64| {
        let input = json!({"session_id": name, "model": {"id": MODEL}, "cwd": session.environment.dir(),
            "context_window": {"context_window_size": 200_000, "total_input_tokens": used}});
        let said = session.environment.fed(&["statusline"], &input.to_string());
        said.expect(0);
        session.state()["sessionId"].clone()
    };
    session.uses(72).batch("ls");
    assert_eq!(of("a", 10_000), "a");
    assert_eq!(of("b", 20_000), "b");
    assert_eq!(of("a", 10_000), "b");
    assert_eq!(of("a", 11_000), "a");
}

// shows: MON-001, MON-004, CHK-001, CHK-002
#[test]
fn l1_is_told_once_and_nothing_is_done() {
    let session = Watched::new();
    assert_eq!(session.uses(68).batch("ls"), json!({}));
    let answer = session.uses(71).batch("ls");
    assert!(
        person(&answer).starts_with("⚠️ Context at 71% - Consider completing"),
        "{answer}"
    );
    assert!(
        agent(&answer).contains("finish the item at hand"),
        "{answer}"
    );
    assert_eq!(session.uses(72).batch("ls"), json!({}));
    assert!(!session.environment.exists(".ekiden/handoffs"));
    assert_eq!(
        session.line(120_000),
        "[CTX: ███████░░░ 72% ⚠️ L1] [ISSUE: ANV-123] [CKPT: Ready]\n"
    );
}

/// A file that nobody approved yet, as every clone with a verification of its own has it.
// shows: CHK-004, SEC-06, SEC-11
#[test]
fn what_a_project_sets_takes_nothing_from_what_the_user_set() {
    let session = Watched::new();
    let environment = &session.environment;
    environment.write(
        "../home/.config/ekiden/config.toml",
        "[guard]\nwip = \"off\"\n",
    );
    let project = "verify = \"make test\"\nguard.wip = \"branch\"\nmemory.record = false\n";
    environment.write(".ekiden/config.toml", project);
    session.hook("SessionStart", &json!({"source": "startup"}));
    session.hook("UserPromptSubmit", &json!({"prompt": "Mend the parser"}));
    session.uses(86).batch("git commit -m done");
    session.checkpointed();
    assert_eq!(environment.git(&["for-each-ref", "refs/ekiden"]), "");
    assert!(!session.guard("errors.log").exists());
    let recent = environment.run(&["memory", "recent", "--json"]).expect(0);
    let recent: Value = serde_json::from_str(&recent.stdout).unwrap();
    assert_eq!(recent["observations"], json!([]), "the project's word");
}

/// No hook fails by them, so a line is how a person finds out.
// shows: SEC-05
#[test]
fn settings_that_cannot_be_read_are_told_once_in_the_log() {
    let session = Watched::new();
    let environment = &session.environment;
    session.uses(71).batch("ls");
    let errors = || std::fs::read_to_string(session.guard("errors.log")).unwrap();
    environment.write(".ekiden/config.toml", "guard.l3 = 7\n");
    session.batch("ls");
    session.batch("ls");
    assert_eq!(errors().lines().count(), 1, "{}", errors());
    assert!(
        errors().contains("config.toml:1: `guard.l3`"),
        "{}",
        errors()
    );
    environment.write("../home/.config/ekiden/config.toml", "\nl3 = 7\n");
    session.batch("ls");
    session.batch("ls");
    assert_eq!(errors().lines().count(), 2, "{}", errors());
    assert!(
        errors().contains("config.toml:2: there is no"),
        "{}",
        errors()
    );
    // Two faults may take turns.
    environment.write("../home/.config/ekiden/config.toml", "");
    session.batch("ls");
    assert_eq!(errors().lines().count(), 2, "{}", errors());
}

/// Its settings are committed, so that the directory is there.
// shows: OPS-04
#[test]
fn in_a_clone_with_settings_the_guard_leaves_nothing_for_git() {
    let session = Watched::new();
    let environment = &session.environment;
    environment.write(".ekiden/config.toml", "max_sessions = 5\n");
    environment.git(&["add", "-f", ".ekiden/config.toml"]);
    environment.git(&[
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "commit",
        "-qm",
        "settings",
    ]);
    let before = environment.git(&["status", "--porcelain"]);
    session.line(120_000);
    session.uses(71).batch("ls");
    assert!(environment.exists(".ekiden/checkpoint-state.json"));
    assert_eq!(environment.git(&["status", "--porcelain"]), before);
}

/// Its head says whose it is; an agent may write all of it anew. A file that came with the project is nobody's.
// shows: HND-07, CHK-11
#[test]
fn a_document_that_the_agent_wrote_anew_is_still_its_sessions() {
    let session = Watched::new();
    let environment = &session.environment;
    session.hook("SessionStart", &json!({"source": "startup"}));
    session.uses(86).batch("git commit -m done");
    session.checkpointed();
    let documents = environment.dir().join(".ekiden/handoffs");
    let document = std::fs::read_dir(&documents)
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let anew = "# Handoff\n\n## Done\n\nthe lexer\n\n## Decisions\n\nnone\n\n## Blockers\n\nnone\n";
    std::fs::write(document.path(), anew).unwrap();
    std::fs::write(
        documents.join("2999-01-01-0000.md"),
        anew.replace("lexer", "stranger"),
    )
    .unwrap();
    let other = json!({"source": "clear", "session_id": "another"});
    let loaded = session.hook("SessionStart", &other);
    assert!(agent(&loaded).contains("the lexer"), "{loaded}");
    assert!(!agent(&loaded).contains("stranger"), "{loaded}");
    environment.run(&["handoff", "--new"]).expect(0);
    let texts = std::fs::read_dir(&documents).unwrap().flatten();
    let texts = texts.map(|file| std::fs::read_to_string(file.path()).unwrap());
    assert_eq!(texts.filter(|text| text.contains("stranger")).count(), 1);
}

/// As if an agent asked `claude -p` something: a person did not start that session.
// shows: HND-07
#[test]
fn a_client_that_an_agent_starts_does_not_use_up_the_handoff() {
    let mut session = Watched::new();
    session.uses(86).batch("git commit -m done");
    session.checkpointed();
    let other = json!({"source": "startup", "session_id": "another"});
    for (of_agent, loads) in [("CLAUDECODE", false), ("OTHER", true)] {
        let mut client = std::process::Command::new("sleep");
        let mut client = client
            .arg("60")
            .env_clear()
            .env(of_agent, "1")
            .spawn()
            .unwrap();
        let environment = session
            .environment
            .with("CLAUDE_CODE_ENTRYPOINT", "sdk-cli");
        session.environment = environment.with("CLAUDE_PID", &client.id().to_string());
        let loaded = session.hook("SessionStart", &other);
        assert_eq!(agent(&loaded).contains("It reads:"), loads, "{loaded}");
        session.hook("PostToolBatch", &json!({"session_id": "another"}));
        client.kill().unwrap();
        client.wait().unwrap();
    }
}

/// The last status line was of a model with a larger window. A client without an interface calls none.
// shows: MON-06
#[test]
fn a_session_that_goes_on_with_a_smaller_model_without_an_interface_has_its_window() {
    let mut session = Watched::new();
    session.uses(60);
    let told = std::fs::read_to_string(session.transcript()).unwrap();
    let large = told
        .replace(MODEL, "claude-opus-5-5")
        .replace("2099", "2026");
    std::fs::write(session.transcript(), large).unwrap();
    session.line_of(1_000_000, 100_000);
    assert_eq!(
        session.uses(86).batch("ls"),
        json!({}),
        "as its interface says"
    );
    session.environment = session
        .environment
        .with("CLAUDE_CODE_ENTRYPOINT", "sdk-cli");
    let answer = session.batch("ls");
    assert!(person(&answer).contains("Context at 86%"), "{answer}");
}

// shows: CHK-003, CHK-004, CHK-13, HND-001, HND-07
#[test]
fn l2_takes_a_checkpoint_from_which_the_next_session_goes_on() {
    let session = Watched::new();
    session.hook("SessionStart", &json!({"source": "startup"}));
    let answer = session.uses(86).batch("git commit -m done");
    assert!(
        person(&answer).contains("🔶 Context at 86% - Initiating checkpoint sequence."),
        "{answer}"
    );
    session.checkpointed();
    let told = session.batch("ls");
    assert!(agent(&told).contains(".ekiden/handoffs/"), "{told}");
    assert!(session.line(143_621).contains("[CKPT: Done]"));
    let state = session.state();
    assert_eq!(state["currentLevel"], "L2");
    assert_eq!(state["lastCheckpoint"]["reason"], "L2");
    assert_eq!(state["modifiedFiles"], json!(["src/api.rs"]));
    let message = session.environment.git(&[
        "log",
        "-1",
        "--format=%s",
        &format!("refs/ekiden/wip/{SESSION}"),
    ]);
    assert_eq!(message, "[WIP] ANV-123 - checkpoint\n");
    for same in ["resume", "fork"] {
        let same = json!({"source": same, "session_id": "another"});
        assert_eq!(session.hook("SessionStart", &same), json!({}), "{same}");
    }
    let other = json!({"source": "clear", "session_id": "another"});
    let loaded = session.hook("SessionStart", &other);
    assert!(agent(&loaded).contains("It reads:"), "{loaded}");
    assert!(agent(&loaded).encode_utf16().count() <= 9_000);
    let again = session.hook("SessionStart", &other);
    let unused = "a session that did nothing does not use it up";
    assert!(agent(&again).contains("It reads:"), "{unused}: {again}");
    session.hook(
        "PostToolBatch",
        &json!({"session_id": "another", "tool_calls": []}),
    );
    let after = session.hook("SessionStart", &other);
    assert!(!agent(&after).contains("It reads:"), "one worked from it");
    assert!(agent(&after).contains("Context Checkpoint L2 at 86% - ANV-123"));
}

// shows: HND-07
#[test]
fn an_old_document_or_one_of_another_branch_is_only_named() {
    let session = Watched::new();
    session
        .uses(60)
        .hook("UserPromptSubmit", &json!({"prompt": "go on"}));
    session
        .environment
        .run(&["checkpoint", "--session", SESSION])
        .expect(0);
    let start_of = |id| {
        session.hook(
            "SessionStart",
            &json!({"source": "startup", "session_id": id}),
        )
    };
    let start = || start_of("b");
    assert!(agent(&start()).contains("It reads:"));
    session.environment.git(&["stash", "--quiet"]);
    session.environment.git(&["switch", "--quiet", "-"]);
    let named = start_of("elsewhere");
    let text = agent(&named);
    assert!(
        text.contains("made on the branch `feature/ANV-123-api`"),
        "{named}"
    );
    assert!(
        text.contains("/orient reads it") && !text.contains("It reads:"),
        "{named}"
    );
    let worked = json!({"session_id": "elsewhere", "tool_calls": []});
    session.hook("PostToolBatch", &worked);
    session.environment.git(&["switch", "--quiet", "-"]);
    assert!(agent(&start()).contains("It reads:"));
    let document = std::fs::read_dir(session.environment.dir().join(".ekiden/handoffs"));
    let document = document.unwrap().next().unwrap().unwrap().path();
    let weeks_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(52 * 86_400);
    let file = std::fs::File::open(document).unwrap();
    file.set_modified(weeks_ago).unwrap();
    assert!(agent(&start()).contains("52 days old"), "{}", start());
}

// shows: CHK-11
#[test]
fn the_reminder_can_be_switched_off() {
    let session = Watched::new();
    let answer = session.uses(60).hook("Stop", &json!({}));
    assert!(person(&answer).contains("60%"), "{answer}");
    let mut off = Watched::new();
    off.environment = off.environment.with("EKIDEN_GUARD_REMINDER", "false");
    assert_eq!(off.uses(60).hook("Stop", &json!({})), json!({}));
}

// shows: CHK-003, MON-001
#[test]
fn the_end_of_a_turn_is_judged_by_its_last_response() {
    let session = Watched::new();
    session.uses(60);
    let early = std::fs::read_to_string(session.transcript()).unwrap();
    session.uses(87);
    let late = std::fs::read_to_string(session.transcript()).unwrap();
    let asked = json!({"type": "user", "message": {"content": "and now?"}});
    std::fs::write(session.transcript(), format!("{early}{asked}\n")).unwrap();
    session.hook("UserPromptSubmit", &json!({"prompt": "and now?"}));
    let answer = session.hook("Stop", &json!({}));
    assert_eq!(person(&answer), "", "60% is not the turn's");
    assert!(!session.log().contains("\"writing\""));
    std::thread::sleep(std::time::Duration::from_millis(300));
    // Another hook decides meanwhile, on a busy machine.
    let busy = std::fs::File::create(session.guard(&format!("{SESSION}.lock"))).unwrap();
    busy.lock().unwrap();
    std::fs::write(session.transcript(), format!("{early}{asked}\n{late}")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(400));
    drop(busy);
    session.checkpointed();
    assert!(
        session.log().contains("\"percent\":87"),
        "{}",
        session.log()
    );
    let told = session.hook("UserPromptSubmit", &json!({"prompt": "go on"}));
    assert!(person(&told).contains("Handoff written:"), "{told}");
}

// shows: MON-004, CHK-10, HND-07
#[test]
fn after_a_compaction_work_continues() {
    let session = Watched::new();
    session.uses(96).batch("ls");
    session.checkpointed();
    session.hook("PreCompact", &json!({"trigger": "auto"}));
    let boundary = json!({"type": "system", "subtype": "compact_boundary", "isSidechain": false,
        "timestamp": "2099-11-21T15:00:00.000Z", "compactMetadata": {"postTokens": 16_000}});
    let before = std::fs::read_to_string(session.transcript()).unwrap();
    std::fs::write(session.transcript(), format!("{before}{boundary}\n")).unwrap();
    session.hook("SessionStart", &json!({"source": "compact"}));
    let prompted = session.hook("UserPromptSubmit", &json!({"prompt": "go on"}));
    assert!(!person(&prompted).contains("Context at"), "{prompted}");
    let shell = session.tool("Bash", &json!({"command": "make"}));
    assert_eq!(shell, json!({}), "nothing is refused by usage of before");
    let mut fresh = Watched::new();
    fresh.uses(60);
    fresh.hook("PreCompact", &json!({"trigger": "auto"}));
    let before = std::fs::read_to_string(fresh.transcript()).unwrap();
    std::fs::write(fresh.transcript(), format!("{before}{boundary}\n")).unwrap();
    let loaded = fresh.hook("SessionStart", &json!({"source": "compact"}));
    assert!(
        agent(&loaded).contains("/.ekiden/handoffs/") && agent(&loaded).contains("It reads:"),
        "{loaded}"
    );
    assert!(
        !agent(&loaded).contains("this project's memory"),
        "{loaded}"
    );
    let told = fresh.batch("ls");
    assert!(
        person(&told).starts_with("Before the conversation got shorter, ekiden wrote"),
        "{told}"
    );
    assert!(agent(&told).contains("the work continues"), "{told}");
    assert!(
        fresh.line(16_000).starts_with("[CTX: ░░░░░░░░░░ 9%]"),
        "{}",
        fresh.line(16_000)
    );
    fresh.environment = fresh
        .environment
        .with("EKIDEN_GUARD_LINE", "branch model context");
    assert!(
        fresh
            .line(16_000)
            .starts_with("[feature/ANV-123-api] [CTX:")
    );
}

// shows: CHK-12, CHK-003
#[test]
fn a_handoff_of_the_session_is_the_guards_checkpoint() {
    let mut session = Watched::new();
    session.environment = session.environment.with("CLAUDE_CODE_SESSION_ID", SESSION);
    let projects = session.environment.path("home/.claude/projects/-p");
    std::fs::create_dir_all(&projects).unwrap();
    session.uses(84);
    std::fs::copy(
        session.transcript(),
        projects.join(format!("{SESSION}.jsonl")),
    )
    .unwrap();
    let document = session.environment.run(&["handoff"]).expect(0).stdout;
    assert!(
        document.contains("context_at_checkpoint: 84%"),
        "{document}"
    );
    let answer = session.uses(86).batch("git commit -m done");
    assert!(
        person(&answer).contains("The handoff document is written."),
        "{answer}"
    );
    assert_eq!(session.state()["lastCheckpoint"]["reason"], "manual");
    let documents = || {
        let dir = session.environment.dir().join(".ekiden/handoffs");
        dir.read_dir().unwrap().map(|entry| entry.unwrap().path())
    };
    assert_eq!(documents().count(), 1);
    let asked = || {
        let said = session.environment.run(&["handoff", "--json"]).expect(0);
        serde_json::from_str::<Value>(&said.stdout).unwrap()
    };
    assert_eq!(asked()["new"], false, "it waits to be filled in");
    let written = json!({"tool_name": "Edit", "tool_response": "ok",
        "tool_input": {"file_path": documents().next().unwrap()}});
    session.hook("PostToolBatch", &json!({"tool_calls": [written]}));
    session.environment.write("src/api.rs", "three\n");
    let second = asked();
    assert_eq!(second["new"], true);
    assert_eq!(documents().count(), 2);
    assert!(
        session
            .environment
            .git(&["show", &format!("refs/ekiden/wip/{SESSION}:src/api.rs")])
            .contains("three")
    );
}

/// Such as after the client crashed.
// shows: CHK-07, HND-07
#[test]
fn a_handoff_that_is_asked_for_in_a_shell_is_of_the_session_that_was_last_here() {
    let session = Watched::new();
    let projects = session.environment.path("home/.claude/projects/-p");
    std::fs::create_dir_all(&projects).unwrap();
    session.uses(84).batch("make");
    let known = projects.join(format!("{SESSION}.jsonl"));
    std::fs::copy(session.transcript(), known).unwrap();
    let document = session.environment.run(&["handoff"]).expect(0).stdout;
    let used = "context_at_checkpoint: 84%";
    assert!(document.contains(used), "{document}");
}

// shows: CHK-07, CHK-12
#[test]
fn what_a_session_asks_for_is_about_its_project_wherever_its_agent_stands() {
    let session = Watched::new();
    session
        .uses(86)
        .hook("UserPromptSubmit", &json!({"prompt": "go"}));
    let session = Watched {
        environment: session.environment.with("CLAUDE_CODE_SESSION_ID", SESSION),
    };
    let below = |args: &[&str]| session.environment.run_in("project/src", args).expect(0);
    below(&["checkpoint", "--defer"]);
    assert!(session.log().contains("\"deferred\""), "{}", session.log());
    below(&["handoff"]);
    assert!(session.log().contains("\"taken\""), "{}", session.log());
    assert!(session.environment.exists(".ekiden/handoffs"));
    assert!(!session.environment.exists("src/.ekiden"));
    let oriented = below(&["orient"]).stdout;
    assert!(oriented.contains("handoff     "), "{oriented}");
}

// shows: CHK-005
#[test]
fn at_l3_one_call_is_refused_but_none_of_the_handoff() {
    let session = Watched::new();
    let answer = session.uses(96).batch("ls");
    assert!(
        person(&answer).contains("🔴 Context at 96% - Emergency checkpoint!"),
        "{answer}"
    );
    session.checkpointed();
    let shell = |command: &str| session.tool("Bash", &json!({ "command": command }));
    assert_eq!(shell("ekiden handoff"), json!({}), "our own command");
    assert_eq!(
        session.tool("Skill", &json!({"skill": "handoff"})),
        json!({})
    );
    let documents = session.environment.dir().join(".ekiden/handoffs");
    let document = documents.join("2026-11-21-1400.md");
    let written = session.tool("Edit", &json!({"file_path": document}));
    assert_eq!(written["hookSpecificOutput"]["permissionDecision"], "allow");
    let refused = shell("make");
    assert_eq!(refused["hookSpecificOutput"]["permissionDecision"], "deny");
    assert!(
        person(&refused).contains("To continue here, send any prompt"),
        "{refused}"
    );
    assert_eq!(shell("make"), json!({}), "one is enough");
    let out = documents.join("none/../../../.bashrc");
    let written = session.tool("Write", &json!({"file_path": out}));
    assert_eq!(written, json!({}), "it leads out of the directory");
    let mut advised = Watched::new();
    advised.environment = advised.environment.with("EKIDEN_GUARD_L3", "advise");
    advised.uses(96).batch("ls");
    advised.checkpointed();
    assert_eq!(advised.tool("Bash", &json!({"command": "make"})), json!({}));
}

// shows: CHK-10
#[test]
fn a_compaction_waits_for_its_checkpoint_and_takes_one_only() {
    let session = Watched::new();
    session.uses(60);
    let compact = || session.hook("PreCompact", &json!({"trigger": "auto"}));
    assert_eq!(
        compact(),
        json!({}),
        "nothing is said: it would go into the summary"
    );
    compact();
    let documents = std::fs::read_dir(session.environment.dir().join(".ekiden/handoffs"))
        .unwrap()
        .count();
    assert_eq!(documents, 1);
    assert!(session.log().contains("\"reason\":\"compaction\""));
    let loaded = session.hook("SessionStart", &json!({"source": "compact"}));
    assert!(agent(&loaded).contains("It reads:"), "its own: {loaded}");
    session.batch("ls");
    let other = json!({"source": "startup", "session_id": "another"});
    let told = session.hook("SessionStart", &other);
    assert!(!agent(&told).contains("It reads:"), "it was worked from");
}

// shows: MEM-001
#[test]
fn a_commit_of_work_in_progress_is_remembered_once() {
    let session = Watched::new();
    session
        .uses(60)
        .hook("PreCompact", &json!({"trigger": "auto"}));
    let again = ["checkpoint", "--session", SESSION];
    session.environment.run(&again).expect(0);
    let commits = ["memory", "recent", "--type", "commit", "--json"];
    let said = session.environment.run(&commits).expect(0).stdout;
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["observations"].as_array().unwrap().len(), 1, "{said}");
}

// shows: HND-07, CHK-10
#[test]
fn after_clear_the_checkpoint_that_was_due_is_there() {
    let session = Watched::new();
    session.uses(86).batch("ls");
    session.hook("SessionEnd", &json!({"reason": "clear"}));
    let fresh = json!({"source": "clear", "session_id": "another"});
    let told = session.hook("SessionStart", &fresh);
    assert!(agent(&told).contains("It reads:"), "{told}");
}

// shows: HND-07
#[test]
fn of_two_windows_each_continues_from_its_own_document_after_clear() {
    let mut session = Watched::new();
    let commit = json!([{"tool_name": "Bash", "tool_input": {"command": "git commit"}, "tool_response": "ok"}]);
    let windows = [("7001", SESSION), ("7002", "b")];
    for (client, id) in windows {
        session.environment = session.environment.with("CLAUDE_PID", client);
        session.hook(
            "SessionStart",
            &json!({"source": "startup", "session_id": id}),
        );
    }
    for (_, id) in windows {
        let batch = json!({"tool_calls": commit, "session_id": id});
        session.uses(86).hook("PostToolBatch", &batch);
        session.checkpointed_of(id);
    }
    let documents = session.environment.dir().join(".ekiden/handoffs");
    let documents = documents
        .read_dir()
        .unwrap()
        .flatten()
        .map(|file| file.path());
    let is_of = |path: &PathBuf, id: &str| {
        let text = std::fs::read_to_string(path).unwrap();
        text.contains(&format!("\nsession: {id}\n"))
    };
    let documents: Vec<PathBuf> = documents.collect();
    for ((client, id), fresh) in windows.into_iter().zip(["a2", "b2"]) {
        let environment = session.environment.with("CLAUDE_PID", client);
        session.environment = environment.with("CLAUDE_CODE_SESSION_ID", fresh);
        let own = documents.iter().find(|path| is_of(path, id)).unwrap();
        let own = own.display().to_string();
        let told = session.hook(
            "SessionStart",
            &json!({"source": "clear", "session_id": fresh}),
        );
        assert!(agent(&told).contains(&own), "{own}: {told}");
        let said = session
            .environment
            .run(&["orient", "--json"])
            .expect(0)
            .stdout;
        assert!(said.contains(&own), "{own}: {said}");
        session.hook(
            "PostToolBatch",
            &json!({"session_id": fresh, "tool_calls": []}),
        );
    }
}

/// Hooks ask no git where the state is.
// shows: CHK-004, HND-07
#[test]
fn where_git_does_not_answer_the_document_is_marked_where_hooks_look() {
    for is_there in [true, false] {
        let mut session = Watched::new();
        let bin = session.environment.path("bin").display().to_string();
        let path = match is_there {
            true => format!("{bin}:{}", std::env::var("PATH").unwrap()),
            false => format!("{bin}/none"),
        };
        session.environment.script("../bin/git", "kill -9 $$\n");
        session.environment = session.environment.with("PATH", &path);
        session.uses(60);
        session.hook("PreCompact", &json!({"trigger": "auto"}));
        let made = session
            .environment
            .dir()
            .join(".git/ekiden/root/guard/made");
        assert_eq!(std::fs::read_dir(made).unwrap().count(), 1, "{path}");
        assert!(!session.environment.exists(".ekiden/state"), "{path}");
        let other = json!({"source": "startup", "session_id": "another"});
        let told = session.hook("SessionStart", &other);
        assert!(agent(&told).contains("It reads:"), "{path}: {told}");
    }
}

/// A person puts the handoff off each time, and each time the client compacts first.
// shows: EST-05
#[test]
fn reminders_that_are_put_off_into_compactions_should_come_earlier() {
    let session = Watched::new();
    let put_off = || {
        session.uses(86).batch("ls");
        session
            .environment
            .run(&["checkpoint", "--defer"])
            .expect(0);
        session.uses(89).batch("ls");
        session.hook("PreCompact", &json!({"trigger": "auto"}));
        session.hook("SessionStart", &json!({"source": "compact"}));
        session.uses(10).batch("ls");
    };
    let told = || session.environment.told(&["stats", "--threshold"]);
    for _ in 0..4 {
        put_off();
    }
    let few = told();
    assert!(
        few.contains("put off") && !few.contains("guard.levels"),
        "{few}"
    );
    put_off();
    let said = told();
    let (_, said) = said
        .split_once("\n\nput off")
        .unwrap_or_else(|| panic!("{said}"));
    insta::assert_snapshot!(said.trim_start(), @r"
    100% (5 of 5)  of the reminders to hand off; a compaction came first after 100% (5 of 5) of those, and after none yet of the others
            to be reminded earlier  ekiden config set guard.levels 60,75,95
    --- exit code 0
    ");
    assert!(
        !session.environment.exists(".ekiden/config.toml"),
        "only suggested"
    );
}

// shows: CHK-07, CHK-12
#[test]
fn a_person_asks_and_puts_off() {
    let session = Watched::new();
    session.uses(71).batch("ls");
    let of_user = session.environment.command(&["checkpoint", "--defer"]);
    let of_user = { of_user }.env("EKIDEN_GUARD_LEVELS", "50,60,70").output();
    let told = String::from_utf8(of_user.unwrap().stdout).unwrap();
    assert!(told.contains("put off until 70%"), "{told}");
    let told = session
        .environment
        .run(&["checkpoint", "--defer"])
        .expect(0)
        .stdout;
    assert_eq!(
        told,
        "The handoff is put off until 90% of the usable window.\n"
    );
    assert!(session.line(118_571).contains("[CKPT: Deferred]"));
    let answer = session.uses(86).batch("ls");
    assert!(
        person(&answer).contains("The checkpoint waits until 90%"),
        "{answer}"
    );
    let taken = session
        .environment
        .run(&["checkpoint", "--json"])
        .expect(0)
        .stdout;
    let taken: Value = serde_json::from_str(&taken).unwrap();
    assert!(taken["document"].as_str().unwrap().ends_with(".md"));
    assert_eq!(taken["modified_files"], json!(["src/api.rs"]));
}

// shows: CHK-07
#[test]
fn at_90_percent_nothing_is_put_off() {
    let session = Watched::new();
    session.line(149_000);
    let defer = || session.environment.run(&["checkpoint", "--defer"]);
    assert!(defer().expect(0).stdout.contains("until 90%"));
    session.line(150_300);
    let said = defer().expect(1).stderr;
    assert!(said.contains("the context is nearly full"), "{said}");
}

// shows: CHK-07
#[test]
fn what_is_written_is_not_put_off() {
    let session = Watched::new();
    session.uses(86).batch("git commit -m x");
    session.checkpointed();
    let put_off = session.environment.run(&["checkpoint", "--defer"]);
    let said = put_off.expect(1).stderr;
    assert!(said.contains("its document is written"), "{said}");
    assert!(
        said.contains("hint: hand off: /handoff, then /clear"),
        "{said}"
    );
    assert!(!session.log().contains("deferred"), "{}", session.log());
}

// shows: EST-002
#[test]
fn a_prompt_that_may_not_fit_is_warned_of_and_not_stopped() {
    let session = Watched::new();
    session
        .environment
        .write("docs/spec.md", &"- [ ] port a module\n".repeat(20));
    session.uses(55);
    let answer = session.hook(
        "UserPromptSubmit",
        &json!({"prompt": "Implement docs/spec.md, all of it."}),
    );
    assert_eq!(person(&answer), "");
    session.environment.write(
        "docs/large.md",
        &"words of a large specification\n".repeat(3_000),
    );
    let prompt = json!({"prompt": "Implement docs/large.md, all of it."});
    let answer = session.hook("UserPromptSubmit", &prompt);
    assert!(person(&answer).contains("or proceed anyway"), "{answer}");
    assert!(agent(&answer).contains("Three ways are open"), "{answer}");
    assert_eq!(answer["decision"], Value::Null);
}

// shows: SHD-002
#[test]
fn a_prompt_that_names_a_large_document_is_answered_with_its_parts() {
    let session = Watched::new();
    session
        .environment
        .write("NEWS.md", &"- a thing that is done\n".repeat(300));
    session.uses(5);
    let prompt = json!({"prompt": "Fix the typo in NEWS.md"});
    let answer = session.hook("UserPromptSubmit", &prompt);
    assert_eq!(person(&answer), "", "it has no open boxes");
    let spec = format!("# Port\n\n{}", "- [ ] port a module\n".repeat(28));
    session.environment.write("docs/spec.md", &spec);
    let prompt = json!({"prompt": "Implement docs/spec.md, all of it."});
    let answer = session.hook("UserPromptSubmit", &prompt);
    insta::assert_snapshot!(person(&answer), @r"
    docs/spec.md may take about 71% of the usable window. Shard it first, into 3 parts:
      S01  port a module  26%  lines 3-11
      S02  port a module  26%  lines 12-20  needs S01 (the same section)
      S03  port a module  28%  lines 21-30  needs S02 (the same section)
    `ekiden shard docs/spec.md -o plan.toml` writes them as a plan, `ekiden shard docs/spec.md --issues ISSUE` makes sub-issues of them.
    ");
    assert!(
        agent(&answer).contains("`ekiden shard` shows them"),
        "{answer}"
    );
    assert_eq!(answer["decision"], Value::Null);
}

// shows: MON-08
#[test]
fn in_a_session_of_ekiden_it_stands_aside() {
    let mut session = Watched::new();
    session.environment = session.environment.with("EKIDEN_RUN", "7f3a0000");
    assert_eq!(session.uses(96).batch("ls"), json!({}));
    assert_eq!(session.line(160_000), "");
    assert_eq!(session.log(), "");
}

// shows: MON-001
#[test]
fn subagents_and_the_clients_own_prompts_are_not_the_session() {
    let session = Watched::new();
    session.uses(86);
    assert_eq!(
        session.hook(
            "PostToolBatch",
            &json!({"agent_id": "a1", "tool_calls": []})
        ),
        json!({})
    );
    let named = include_str!("../../../ekiden-core/src/prompt/texts/alert_written.md");
    for own in ["<task-notification>done</task-notification>", named] {
        let own = json!({"prompt": own});
        assert_eq!(session.hook("UserPromptSubmit", &own), json!({}));
        assert_eq!(session.log(), "");
    }
    session.uses(96).batch("ls");
    let call = |name: &str, input: Value| {
        let asked =
            json!({"agent_id": "a1", "tool_name": name, "tool_input": input, "tool_use_id": "t"});
        session.hook("PreToolUse", &asked)
    };
    let state = session.environment.dir().join(".git/ekiden/root/x");
    for refused in [
        call("Write", json!({"file_path": state})),
        call("mcp__ekiden__write_handoff", json!({"done": "x"})),
    ] {
        let ruling = &refused["hookSpecificOutput"]["permissionDecision"];
        assert_eq!(ruling, "deny", "{refused}");
    }
    assert_eq!(call("Bash", json!({"command": "make"})), json!({}));
}

// shows: SEC-05
#[test]
fn rubbish_fails_open_and_never_with_2() {
    let environment = Environment::with_git();
    let half =
        "{\"hook_event_name\":\"PostToolBatch\",\"session_id\":\"../../x\",\"tool_calls\":[{";
    for input in [
        "",
        "null",
        "[1,2]",
        half,
        "\u{0}\u{1b}[2J",
        &"x".repeat(2_000_000),
    ] {
        for args in [
            &["hook", "PostToolBatch"][..],
            &["hook", "nonsense", "--wat"],
            &["hook"],
            &["statusline", "--wat"],
        ] {
            let said = environment.fed(args, input).expect(0);
            assert!(
                !said.stdout.contains("hookSpecificOutput"),
                "{args:?}: {}",
                said.stdout
            );
        }
    }
    let session = Watched::new();
    std::fs::write(session.transcript(), "{\"type\":\"assistant\",\"mess").unwrap();
    assert_eq!(session.batch("ls"), json!({}));
    std::fs::remove_file(session.transcript()).unwrap();
    assert_eq!(session.batch("ls"), json!({}));
    session.environment.shell("mkfifo ../transcript.jsonl");
    assert_eq!(session.batch("ls"), json!({}));
    assert!(session.line(50_000).contains("29%"));
}

/// A state directory that cannot be made, and a work dir that is gone.
// shows: SEC-05
#[test]
fn a_hook_without_a_place_for_its_state_fails_open() {
    let mut session = Watched::new();
    session.environment = session
        .environment
        .with("EKIDEN_STATE_DIR", "/dev/null/state");
    for percent in [71, 96] {
        assert_eq!(session.uses(percent).batch("ls"), json!({}));
        assert_eq!(session.tool("Bash", &json!({"command": "ls"})), json!({}));
    }
    session.line(160_000);
    let gone = json!({"cwd": "/no/such/place"});
    assert_eq!(session.hook("SessionStart", &gone), json!({}));
    assert_eq!(session.hook("Stop", &gone), json!({}));
}

// shows: HND-08, SEC-05
#[test]
fn the_hook_of_a_relay_whose_engine_is_gone_says_nothing() {
    let environment = Environment::new();
    for asker in ["hook", "status-line", "nonsense"] {
        let said = environment
            .run(&["__hook", "/no/such/socket", asker])
            .expect(0);
        assert_eq!((&*said.stdout, &*said.stderr), ("", ""));
    }
}

/// Else each call would tell it again, and begin another checkpoint.
// shows: MON-004, SEC-05
#[test]
fn what_could_not_be_recorded_is_not_told() {
    let session = Watched::new();
    std::fs::create_dir_all(session.guard(&format!("{SESSION}.jsonl"))).unwrap();
    for percent in [71, 86, 96] {
        assert_eq!(session.uses(percent).batch("ls"), json!({}));
    }
    assert!(!session.environment.exists(".ekiden/handoffs"));
    let errors = std::fs::read_to_string(session.guard("errors.log")).unwrap();
    assert!(errors.lines().count() >= 3, "{errors}");
    assert!(errors.contains(&format!("{SESSION}.jsonl")), "{errors}");
    let doctor = session.environment.told(&["doctor", "--agent", "claude"]);
    assert!(doctor.contains("the last problem was: "), "{doctor}");
    let status = session.environment.run(&["status"]).expect(0).stderr;
    assert!(
        status.contains("warning: the last problem of hooks or the memory: "),
        "{status}"
    );
    let there = ["status", "-d", "../project"];
    let status = session.environment.run_in("other", &there).stderr;
    assert!(status.contains("`ekiden doctor -d ../project`"), "{status}");
    std::fs::remove_dir(session.guard(&format!("{SESSION}.jsonl"))).unwrap();
    let told = session.uses(71).batch("ls");
    assert!(person(&told).contains("Context at 71%"), "{told}");
}

/// As on a full disk.
// shows: HND-07, SEC-05
#[test]
fn a_handoff_is_shown_even_if_that_cannot_be_recorded() {
    let session = Watched::new();
    session.environment.run(&["handoff"]).expect(0);
    std::fs::create_dir_all(session.guard(&format!("{SESSION}.jsonl"))).unwrap();
    let told = session.hook("SessionStart", &json!({"source": "startup"}));
    assert!(agent(&told).contains("It reads:"), "{told}");
}

/// A second window, or a script: its session has worked from what was still empty.
// shows: HND-07
#[test]
fn a_document_that_is_filled_in_after_another_session_had_it_is_shown_once_more() {
    let session = Watched::new();
    session.uses(86).batch("git commit -m done");
    session.checkpointed();
    let begins = |id: &str| {
        let told = session.hook(
            "SessionStart",
            &json!({"source": "clear", "session_id": id}),
        );
        session.hook("PostToolBatch", &json!({"session_id": id}));
        agent(&told).contains("It reads:")
    };
    assert!(begins("a second window"));
    assert!(!begins("a third one"));
    let documents = session.environment.dir().join(".ekiden/handoffs");
    let document = documents.read_dir().unwrap().next().unwrap().unwrap();
    let document = std::fs::File::options()
        .append(true)
        .open(document.path())
        .unwrap();
    let later = std::time::SystemTime::now() + std::time::Duration::from_millis(5);
    document.set_modified(later).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(begins("after /clear"));
    assert!(!begins("the next one"));
}

/// The one that holds the lock writes nothing here, as if it had been killed.
// shows: CHK-10
#[test]
fn a_compaction_waits_for_a_checkpoint_that_is_being_written() {
    let session = Watched::new();
    session.uses(60);
    session.hook("UserPromptSubmit", &json!({"prompt": "go"}));
    let now = jiff::Timestamp::now().as_millisecond();
    let writing = json!({"time": now, "event": "writing", "reason": "level2"});
    std::fs::write(
        session.guard(&format!("{SESSION}.jsonl")),
        format!("{writing}\n"),
    )
    .unwrap();
    let lock = std::fs::File::create(session.guard(&format!("{SESSION}.writing"))).unwrap();
    lock.lock().unwrap();
    let pause = std::time::Duration::from_millis(300);
    std::thread::scope(|scope| {
        let compacts = scope.spawn(|| session.hook("PreCompact", &json!({"trigger": "auto"})));
        std::thread::sleep(pause);
        assert!(!compacts.is_finished());
        drop(lock);
        assert_eq!(compacts.join().unwrap(), json!({}));
    });
    let log = session.log();
    assert!(log.contains("\"reason\":\"compaction\""), "{log}");
    assert!(session.environment.exists(".ekiden/handoffs"), "{log}");
}

/// Else a document that is filled in would still get a call refused.
// shows: MON-004, CHK-005
#[test]
fn what_a_call_saw_is_kept_even_if_another_one_is_deciding() {
    let session = Watched::new();
    session.uses(96).batch("ls");
    session.checkpointed();
    let documents = session.environment.dir().join(".ekiden/handoffs");
    let document = documents.read_dir().unwrap().next().unwrap().unwrap();
    let written = json!({"tool_name": "Edit", "tool_response": "ok", "tool_input": {"file_path": document.path()}});
    let lock = std::fs::File::open(session.guard(&format!("{SESSION}.lock"))).unwrap();
    lock.lock().unwrap();
    session.hook("PostToolBatch", &json!({"tool_calls": [written]}));
    drop(lock);
    let log = session.log();
    assert_eq!(log.matches("\"filled\"").count(), 1, "{log}");
    assert_eq!(session.tool("Bash", &json!({"command": "make"})), json!({}));
}

// shows: MON-004
#[test]
fn of_many_calls_at_once_one_tells() {
    let session = Watched::new();
    session.uses(71);
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..16)
            .map(|_| scope.spawn(|| session.batch("ls")))
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert_eq!(
        answers
            .iter()
            .filter(|answer| !person(answer).is_empty())
            .count(),
        1
    );
    assert_eq!(session.log().matches("\"crossed\"").count(), 1);
}

// shows: UIX-06
#[test]
fn another_programs_line_stands_below() {
    let environment = Environment::new();
    let input = json!({"cwd": environment.dir(), "session_id": "s"}).to_string();
    let said = environment.fed(&["statusline", "--wrap", "tr a-z A-Z | head -c 5"], &input);
    assert_eq!(said.expect(0).stdout, "[CTX: --] [CKPT: Ready]\n{\"CWD\n");
}

/// The client ends a status line that is no longer wanted.
// shows: UIX-06
#[test]
fn a_line_that_is_ended_takes_the_other_programs_processes_with_it() {
    let environment = Environment::new();
    let line = "(touch begun; sleep 2; touch left) | cat";
    let said = environment.start(&["statusline", "--wrap", line]);
    wait_until("the other program", || environment.exists("begun"));
    said.signal(Signal::TERM);
    said.end();
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    assert!(!environment.exists("left"));
}

// shows: UIX-06
#[test]
fn every_part_of_the_line_can_be_chosen_in_any_order() {
    let mut session = Watched::new();
    let response = |minute: u32, used: u64| {
        let line = json!({"type": "assistant", "isSidechain": false,
            "timestamp": format!("2099-11-21T14:0{minute}:00.000Z"),
            "message": {"id": format!("m{minute}"), "model": MODEL, "role": "assistant",
                "content": [{"type": "text", "text": "on it"}], "stop_reason": "end_turn",
                "usage": {"input_tokens": used, "output_tokens": 5}}});
        format!("{line}\n")
    };
    let grown = [(0, 90_000), (1, 95_000), (2, 100_000)].map(|(at, used)| response(at, used));
    std::fs::write(session.transcript(), grown.concat()).unwrap();
    let input = json!({"session_id": SESSION, "transcript_path": session.transcript(),
        "cwd": session.environment.dir(), "model": {"id": MODEL, "display_name": "Haiku 4.5"},
        "workspace": {"project_dir": session.environment.dir()},
        "context_window": {"context_window_size": 200_000, "total_input_tokens": 100_000},
        "cost": {"total_cost_usd": 1.236, "total_duration_ms": 754_000},
        "rate_limits": {"five_hour": {"used_percentage": 41.6}, "seven_day": {"used_percentage": 7}}});
    let mut line = |format: &str, wrap: &[&str]| {
        let environment = std::mem::replace(&mut session.environment, Environment::new());
        session.environment = environment.with("EKIDEN_GUARD_LINE", format);
        let args = [&["statusline"], wrap].concat();
        let said = session.environment.fed(&args, &input.to_string());
        said.expect(0).stdout
    };
    let wrap = ["--wrap", "echo mine; echo below"];
    insta::assert_snapshot!(line("limits time cost trend next model context", &[]), @"[5h: 42% 7d: 7%] [13m] [$1.24] [+5000 tokens/min] [L1 in 3m] [Haiku 4.5] [CTX: █████░░░░░ 59%]");
    insta::assert_snapshot!(line("cost wrapped context", &wrap), @"[$1.24] mine [CTX: █████░░░░░ 59%]");
    insta::assert_snapshot!(line("cost", &wrap), @r"
    [$1.24]
    mine
    below
    ");
}

// shows: CHK-13
#[test]
fn status_says_where_the_session_is() {
    let session = Watched::new();
    session.uses(71).batch("ls");
    let said = session
        .environment
        .run(&["checkpoint", "--status", "--session", SESSION])
        .expect(0)
        .stdout;
    assert_eq!(
        said, "Context     unknown: no response yet\n",
        "no transcript of it is known"
    );
}

// shows: CHK-13, MON-001
#[test]
fn status_in_a_shell_knows_the_session_that_was_watched_last() {
    let session = Watched::new();
    session.uses(66);
    session.hook(
        "UserPromptSubmit",
        &json!({"prompt": "go on", "permission_mode": "plan"}),
    );
    let projects = session.environment.path("home/.claude/projects/-p");
    std::fs::create_dir_all(&projects).unwrap();
    std::fs::copy(
        session.transcript(),
        projects.join(format!("{SESSION}.jsonl")),
    )
    .unwrap();
    let said = session
        .environment
        .run(&["checkpoint", "--status"])
        .expect(0)
        .stdout;
    assert!(said.starts_with("Context     66% L0"), "{said}");
    assert!(session.line(110_221).contains("[PHASE: plan]"));
    session
        .environment
        .run(&["checkpoint", "--phase", "porting"])
        .expect(0);
    assert!(session.line(110_221).contains("[PHASE: porting]"));
}

// shows: CHK-12, CHK-13
#[test]
fn nothing_is_noted_of_a_session_that_nobody_watched() {
    let environment = Environment::with_git();
    for noted in [&["--defer"][..], &["--phase", "porting"], &["--status"]] {
        let told = environment.told(&[&["checkpoint"], noted].concat());
        let why = "error: no session was watched here yet\n";
        assert!(
            told.contains(why) && told.contains("exit code 66"),
            "{told}"
        );
    }
    let told = environment.told(&["checkpoint", "--session", "typo"]);
    assert!(
        told.contains("no session `typo` was watched here"),
        "{told}"
    );
    assert!(!environment.path(".git/ekiden/guard").exists());
}

/// Worktrees share their state.
// shows: CHK-12
#[test]
fn a_command_in_a_shell_is_not_about_a_session_in_another_worktree() {
    let session = Watched::new();
    let other = session.environment.path("other");
    let added = ["worktree", "add", "--quiet", other.to_str().unwrap()];
    session.environment.git(&added);
    let projects = session.environment.path("home/.claude/projects/-p");
    std::fs::create_dir_all(&projects).unwrap();
    session.uses(66);
    let response = std::fs::read_to_string(session.transcript()).unwrap();
    for (id, dir) in [("here", session.environment.dir()), ("there", other)] {
        session.hook(
            "UserPromptSubmit",
            &json!({"prompt": "go", "session_id": id, "cwd": dir}),
        );
        let cwd = format!("{{\"cwd\":{},", json!(dir.join("src")));
        let response = response.replacen('{', &cwd, 1);
        std::fs::create_dir_all(dir.join("src")).unwrap();
        std::fs::write(projects.join(format!("{id}.jsonl")), response).unwrap();
    }
    session.environment.run(&["checkpoint"]).expect(0);
    let taken = |id: &str| {
        let log = std::fs::read_to_string(session.guard(&format!("{id}.jsonl")));
        log.unwrap().contains("\"taken\"")
    };
    assert_eq!(["here", "there"].map(taken), [true, false]);
}

/// The client's tool `EnterWorktree` changes the directory, and `CLAUDE_PROJECT_DIR` stays.
// shows: CHK-002, HND-07
#[test]
fn a_session_whose_agent_enters_a_worktree_is_watched_there() {
    let mut session = Watched::new();
    let side = session.environment.dir().join(".claude/worktrees/side");
    let branch = "feature/ANV-7-side";
    let side_name = side.to_str().unwrap();
    session
        .environment
        .git(&["worktree", "add", "--quiet", "-b", branch, side_name]);
    std::fs::write(side.join("src/side.rs"), "new\n").unwrap();
    let project = session.environment.dir().to_str().unwrap().to_owned();
    session.environment = session.environment.with("CLAUDE_PROJECT_DIR", &project);
    let commit = json!({"tool_name": "Bash", "tool_input": {"command": "git commit -m x"}, "tool_response": "ok"});
    let within = json!({"cwd": side.join("src"), "tool_calls": [commit]});
    session.uses(87).hook("PostToolBatch", &within);
    session.checkpointed();
    assert!(!session.environment.exists(".ekiden/handoffs"));
    let documents = std::fs::read_dir(side.join(".ekiden/handoffs")).unwrap();
    let document = documents.flatten().next().unwrap().path();
    let document = std::fs::read_to_string(document).unwrap();
    for expected in [branch, "ANV-7", "src/side.rs"] {
        assert!(document.contains(expected), "{expected}: {document}");
    }
    let cleared = json!({"source": "clear", "session_id": "next", "cwd": side});
    let told = session.hook("SessionStart", &cleared);
    assert!(agent(&told).contains("src/side.rs"), "{told}");
}

/// A command of the user has the name of one of the skills.
// shows: MON-004, OPS-02
#[test]
fn each_command_is_called_by_its_own_name() {
    let session = Watched::new();
    let skill = ".claude/skills/ekiden-handoff/SKILL.md";
    session.environment.write(skill, "installed");
    session.uses(71).batch("ls");
    let told = session.uses(96).batch("ls");
    assert!(person(&told).contains("`/orient`"), "{told}");
    session.checkpointed();
    let told = session.batch("ls");
    assert!(agent(&told).contains("/ekiden-handoff"), "{told}");
    let plugin = r#"{"enabledPlugins": {"ekiden@ekiden": true}}"#;
    let settings = ".claude/settings.json";
    session.environment.write(settings, plugin);
    let status = session.environment.run(&["checkpoint"]).expect(0).stdout;
    assert!(status.contains("/clear, then /ekiden:orient"), "{status}");
}

/// As after `claude --continue`.
// shows: MEM-13
#[test]
fn a_session_that_ends_twice_leaves_what_it_left_once() {
    let session = Watched::new();
    session.uses(20);
    let lines = [
        json!({"type": "user", "message": {"role": "user", "content": "Mend the parser"}}),
        json!({"type": "assistant", "message": {"id": "c", "content": [{"type": "tool_use", "id": "t", "name": "Bash",
            "input": {"command": "ls gone"}}]}}),
        json!({"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t",
            "is_error": true, "content": "Exit code 2\nboom"}]}}),
    ];
    let add = |more: &[Value]| {
        let before = std::fs::read_to_string(session.transcript()).unwrap();
        let more: String = more.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(session.transcript(), before + &more).unwrap();
    };
    let ends = || {
        let path = session.transcript().display().to_string();
        session
            .environment
            .run(&["__remember", SESSION, &path])
            .expect(0);
        let said = session.environment.run(&["memory", "recent", "--json"]);
        let said: Value = serde_json::from_str(&said.expect(0).stdout).unwrap();
        said["observations"].as_array().unwrap().len()
    };
    add(&lines);
    assert_eq!([ends(), ends()], [2, 2], "a failure and the summary");
    add(&[json!({"type": "user", "message": {"role": "user", "content": "And the lexer"}})]);
    assert_eq!(ends(), 3, "the summary is another now");
    // A week of other sessions.
    let files = MemoryFiles::of(&session.environment.path("home/.local/state/ekiden"));
    let from = Origin {
        project: session.environment.dir().display().to_string(),
        ..Origin::default()
    };
    let now = Timestamp(jiff::Timestamp::now().as_millisecond().cast_unsigned());
    let others = (0..250).filter_map(|nth| prompt(&from, now, &format!("Prompt {nth}")));
    files.append(&others.collect::<Vec<_>>()).unwrap();
    ends();
    let said = session.environment.run(&["memory", "stats", "--json"]);
    let said: Value = serde_json::from_str(&said.expect(0).stdout).unwrap();
    assert_eq!(said["observations"], 253, "{said}");
}

// shows: UIX-06
#[test]
fn on_the_branch_of_a_stage_the_phase_is_its_name() {
    let session = Watched::new();
    session
        .environment
        .git(&["checkout", "-q", "-b", "ekiden/7f3a0b1c-S04"]);
    assert!(session.line(110_221).contains("[PHASE: S04]"));
    session
        .environment
        .git(&["checkout", "-q", "-b", "ekiden/fix-typos"]);
    assert!(!session.line(110_221).contains("PHASE"));
}

// shows: UIX-08
#[test]
fn a_checkpoint_is_sent_by_otlp_where_the_user_wants_that() {
    let collector = Receiver::answering(&["200 OK"]);
    let environment = Watched::new().environment.with(
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        &collector.url("/spans"),
    );
    let session = Watched { environment };
    session.uses(71);
    session.hook("PreCompact", &json!({"trigger": "auto"}));
    assert_eq!(collector.wait_for(1)[0].line, "POST /spans HTTP/1.1");
    let spans = spans(&collector);
    let told = |key: &str| attribute(&spans[0], key);
    assert_eq!(spans[0].name, "checkpoint");
    assert_eq!(
        told("ekiden.checkpoint.reason").as_deref(),
        Some("compaction")
    );
    assert_eq!(told("ekiden.checkpoint.percent").as_deref(), Some("71"));
    assert_eq!(told("gen_ai.conversation.id").as_deref(), Some(SESSION));
}

// shows: MON-004
#[test]
fn what_no_issue_will_be_told_is_not_promised() {
    let mut session = Watched::new();
    // An issue on GitHub is a number, and the branch has a key of Linear.
    session.environment = session.environment.with("EKIDEN_TRACKER_KIND", "github");
    let answer = session.uses(96).batch("ls");
    let said = person(&answer);
    assert!(said.contains("96%") && !said.contains("updated"), "{said}");
}

// shows: CHK-006, LIN-002, HND-003, HND-09, MON-004
#[test]
fn a_checkpoint_tells_its_issue_and_the_document_what_the_tracker_says() {
    let server = TrackerServer::start(FakeLinear::with(&["Accounts", "Login"]));
    server.fake().service.issues[0].identifier = "ANV-123".to_owned();
    server.fake().service.issues[1].parent = Some("issue-1".to_owned());
    let mut session = Watched::new();
    session.environment = session
        .environment
        .with("EKIDEN_TRACKER_KIND", "linear")
        .with("EKIDEN_TRACKER_LINEAR_URL", &server.url("/graphql"))
        .with("LINEAR_API_KEY", "key");
    let answer = session.uses(96).batch("ls");
    let said = person(&answer);
    assert!(
        said.ends_with("\nIssue ANV-123 will be updated with progress."),
        "{said}"
    );
    session.checkpointed();
    let told = session.environment.run(&["orient"]).expect(0).stdout;
    assert!(
        told.contains("ANV-123: Accounts") && told.contains("Sub-issues: 0 of 1 done; open: ANV-2"),
        "{told}"
    );
    let labels = || server.fake().service.labels_of("ANV-123").join(" ");
    let comments = || server.fake().service.issue("ANV-123").comments.len();
    wait_until("the label and the comment", || {
        !labels().is_empty() && comments() > 0
    });
    {
        let fake = server.fake();
        let body = &fake.service.issue("ANV-123").comments[0].body;
        assert!(
            body.contains("### Session 5afeba7c · L3 at 96%\n") && body.contains("+++ Handoff\n"),
            "{body}"
        );
    }
    assert_eq!(labels(), "context-checkpointed");
    // It goes once another session has read the handoff and worked.
    let other = json!({"session_id": "0ther", "source": "startup"});
    session.hook("SessionStart", &other);
    assert_eq!(labels(), "context-checkpointed");
    session.hook(
        "PostToolBatch",
        &json!({"session_id": "0ther", "tool_calls": []}),
    );
    wait_until("no label", || labels().is_empty());
}

/// Within one session, and from the shells of two people.
// shows: CHK-006, LIN-002
#[test]
fn what_was_done_for_one_issue_is_not_told_to_another() {
    let server = TrackerServer::start(FakeLinear::with(&["Accounts", "Login"]));
    let bodies = |issue: &str| -> Vec<String> {
        let fake = server.fake();
        let comments = fake.service.issue(issue).comments.iter();
        let bodies = comments.map(|comment| comment.body.replace('\u{200b}', ""));
        bodies.collect()
    };
    for (count, is_watched) in [(1, true), (2, false), (3, false)] {
        let mut session = Watched::new();
        session.environment = session
            .environment
            .with("EKIDEN_TRACKER_KIND", "linear")
            .with("EKIDEN_TRACKER_STATE", "In Progress")
            .with("EKIDEN_TRACKER_LINEAR_URL", &server.url("/graphql"))
            .with("LINEAR_API_KEY", "key");
        if is_watched {
            session.uses(71).batch("ls");
        }
        let environment = &session.environment;
        let checkpoint = |issue: &str, text: &str| {
            let branch = format!("feat/{issue}");
            environment.git(&["switch", "--quiet", "--force-create", &branch]);
            environment.write("src/api.rs", text);
            environment.run(&["checkpoint"]).expect(0);
            environment.run(&["tracker", "flush"]).expect(0);
            assert_eq!(bodies(issue).len(), count);
        };
        checkpoint("ANV-1", "first\n");
        checkpoint("ANV-2", "second\n");
        // Where a person has moved the issue since, it stays.
        server.fake().service.issues[1].state = 0;
        checkpoint("ANV-2", "third\n");
        assert_eq!(server.fake().service.issue("ANV-2").state, 0);
    }
    for (issue, other) in [("ANV-1", "feat/ANV-2"), ("ANV-2", "feat/ANV-1")] {
        let bodies = bodies(issue).join("\n");
        assert!(
            bodies.contains(&format!("feat/{issue}")) && !bodies.contains(other),
            "{bodies}"
        );
    }
}

impl Watched {
    /// What the mod is answered, with the client's own figure.
    fn by_mod(&self, event: &str, percent: u64, more: &Value) -> Value {
        let tokens = 167_000 * percent / 100 + 1;
        let mut input =
            json!({"context": {"tokens": tokens, "window": 200_000, "percent": percent}});
        for (key, value) in more.as_object().unwrap() {
            input[key] = value.clone();
        }
        let said = self
            .environment
            .fed(&["hook", event, "--mod"], &self.input(event, &input));
        serde_json::from_str(&said.expect(0).stdout).unwrap()
    }
}

// shows: AGT-18
#[test]
fn the_mod_is_told_what_a_hook_would_say_and_until_when_it_need_not_ask() {
    let session = Watched::new();
    let call = json!({"tool_calls": []});
    let started = session.by_mod("Watch", 10, &json!({}));
    assert_eq!(started["watch"]["from"], Value::Null, "{started}");
    let quiet = session.by_mod("PostToolBatch", 10, &call);
    let watch = &quiet["watch"];
    assert_eq!(
        json!([
            watch["from"],
            watch["to"],
            watch["everyBatch"],
            watch["refuses"],
            watch["usable"]
        ]),
        json!([0, 100_200, false, false, 167_000])
    );
    assert_eq!(watch["levels"], json!([116_900, 141_950, 158_650]));
    let log = session.guard(&format!("{SESSION}.jsonl"));
    assert_eq!(watch["log"], log.to_str().unwrap());

    let told = session.by_mod("PostToolBatch", 71, &call);
    assert!(
        person(&told["answer"]).starts_with("⚠️ Context at 71%"),
        "{told}"
    );
    assert!(
        agent(&told["answer"]).contains("finish the item at hand"),
        "{told}"
    );
    assert_eq!(told["watch"]["logBytes"], log.metadata().unwrap().len());
    let asked_again = session.by_mod("PostToolBatch", 72, &call);
    assert_eq!(asked_again["answer"], json!({}));

    // Before a call the use is known exactly, so the very call is refused.
    let bash = json!({"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t"});
    let refused = session.by_mod("PreToolUse", 96, &bash);
    let decision = &refused["answer"]["hookSpecificOutput"]["permissionDecision"];
    assert_eq!(decision, "deny", "{refused}");
    let shown = person(&refused["answer"]);
    assert!(
        shown.contains("Emergency") && shown.contains("refused one call"),
        "{shown}"
    );
    session.checkpointed();
    let passed = session.by_mod("PreToolUse", 96, &bash);
    assert_eq!(passed["answer"], json!({}));
}

// shows: AGT-18
#[test]
fn shell_hooks_stand_aside_as_long_as_the_sign_of_life_is_fresh() {
    let session = Watched::new();
    let started = session.by_mod("Watch", 10, &json!({}));
    let sign = PathBuf::from(started["watch"]["sign"].as_str().unwrap());
    session.uses(96);
    let write = |path: &str| {
        session.tool(
            "Write",
            &json!({"file_path": session.environment.dir().join(path)}),
        )
    };
    std::fs::write(&sign, "").unwrap();
    assert_eq!(session.batch("ls"), json!({}), "the mod watches");
    assert_eq!(session.hook("Stop", &json!({})), json!({}));
    assert!(!session.log().contains("crossed"), "{}", session.log());
    // The mod asks about no batch that crosses nothing, and a later checkpoint waits while tests fail.
    let tests = |answer: &str| {
        std::fs::write(&sign, "").unwrap();
        let call = json!({"tool_name": "Bash", "tool_input": {"command": "cargo test"}, "tool_response": answer});
        session.hook("PostToolBatch", &json!({"tool_calls": [call]}))
    };
    for answer in ["ok", "Exit code 101", "Exit code 101"] {
        assert_eq!(tests(answer), json!({}));
    }
    std::fs::write(&sign, "").unwrap();
    let log = session.log();
    assert_eq!(log.matches("\"tested\"").count(), 1, "{log}");
    assert!(log.contains("\"passed\":false"), "{log}");
    // What no level decides stays theirs.
    let fenced = write(".git/ekiden/root/guard/x");
    assert_eq!(
        fenced["hookSpecificOutput"]["permissionDecision"], "deny",
        "{fenced}"
    );

    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(10);
    let file = std::fs::File::options().write(true).open(&sign).unwrap();
    file.set_modified(long_ago).unwrap();
    assert!(person(&session.batch("ls")).contains("Context at 96%"));
    session.checkpointed();
}

// shows: AGT-18
#[test]
fn a_document_that_comes_after_the_turn_is_asked_for_once_nothing_runs() {
    let session = Watched::new();
    let stopped = session.by_mod("Stop", 86, &json!({}));
    assert!(
        person(&stopped["answer"]).contains("Initiating checkpoint"),
        "{stopped}"
    );
    session.checkpointed();
    let idle = session.by_mod("Idle", 86, &json!({}));
    assert!(
        agent(&idle["answer"]).contains("fill in what is missing there"),
        "{idle}"
    );
    assert_eq!(session.by_mod("Idle", 86, &json!({}))["answer"], json!({}));

    let advised = Watched::new();
    advised
        .environment
        .write(".ekiden/config.toml", "guard.l3 = \"advise\"\n");
    advised.by_mod("Stop", 86, &json!({}));
    advised.checkpointed();
    assert_eq!(advised.by_mod("Idle", 86, &json!({}))["answer"], json!({}));
}

// shows: AGT-18
#[test]
fn the_end_of_a_turn_is_held_once_at_l3_and_never_if_that_is_not_wanted() {
    let session = Watched::new();
    let held = session.by_mod("Stop", 96, &json!({}));
    assert_eq!(held["answer"]["decision"], "block", "{held}");
    session.checkpointed();
    let again = session.by_mod("Stop", 97, &json!({}));
    assert_eq!(again["answer"]["decision"], Value::Null, "{again}");

    let advised = Watched::new();
    advised
        .environment
        .write(".ekiden/config.toml", "guard.l3 = \"advise\"\n");
    let passed = advised.by_mod("Stop", 96, &json!({}));
    assert_eq!(passed["answer"]["decision"], Value::Null, "{passed}");
    advised.checkpointed();
}
