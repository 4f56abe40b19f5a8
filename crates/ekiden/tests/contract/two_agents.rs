//! Two real agents, each against its own service: Claude Code meets a usage limit, and Qwen goes on from what it left.
//!
//! Qwen is installed by `npm ci` in `agents/qwen`. Where either of them is missing, the test is left out, which a line on
//! standard error says.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ekiden_testkit::client::{CleanEnvironment, real_client_for};
use ekiden_testkit::messages_api::{Message, MessagesApi, Reply, Request, Status};
use ekiden_testkit::model_apis::{Answer, Asked, ModelApis};
use serde_json::{Value, json};

use crate::plan::{git, tree_of, write};
use crate::project::{Project, ekiden};
use crate::relay::{hand_off, handoff, session_of};
use crate::stage::{Running, Turn};

/// Longer than a limit that is reset within a second is held.
const RESET_OVER: Duration = Duration::from_secs(32);

/// A project, both agents, and their services.
struct Fixture {
    project: Project,
    environment: CleanEnvironment,
    claude: PathBuf,
    qwen: PathBuf,
    api: MessagesApi,
    other: ModelApis,
    _turn: Turn,
}

impl Fixture {
    fn set(
        what: &str,
        claude: impl FnMut(&Request) -> Reply + Send + 'static,
        qwen: impl FnMut(&Asked) -> Answer + Send + 'static,
    ) -> Option<Self> {
        let program = real_client_for(what)?;
        let other = installed_qwen(what)?;
        let turn = Turn::wait();
        let project = Project::new();
        for (key, value) in [
            ("user.name", "Test"),
            ("user.email", "test@example.invalid"),
        ] {
            git(&project, &["config", key, value]);
        }
        let api = MessagesApi::start(claude);
        let service = ModelApis::start(qwen);
        let environment = CleanEnvironment::new(&api).unwrap();
        // Limits by structured fields come with a subscription. In a sandbox of its own root may skip permissions.
        let environment = environment
            .with("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-fake")
            .without("ANTHROPIC_API_KEY")
            .with("CLAUDE_CODE_MAX_RETRIES", "0")
            .with("IS_SANDBOX", "1")
            .with("OPENAI_BASE_URL", format!("{}/v1", service.url()))
            .with("OPENAI_API_KEY", "sk-fake-0000000000000000")
            .with("OPENAI_MODEL", "fake-model");
        Some(Self {
            project,
            environment,
            claude: program,
            qwen: other,
            api,
            other: service,
            _turn: turn,
        })
    }

    fn ekiden(&self) -> Command {
        let mut command = ekiden(&self.project);
        let home = self.environment.home();
        command.env_clear().envs(self.environment.variables());
        command.env("XDG_CONFIG_HOME", home);
        let qwen = [
            self.qwen.to_str().unwrap(),
            "--acp",
            "--auth-type",
            "openai",
        ];
        let config = format!(
            "fallback = [\"qwen\"]\n[agents.claude]\ncommand = {}\n[agents.qwen]\ncommand = {}\n",
            json!([self.claude.to_str().unwrap()]),
            json!(qwen),
        );
        std::fs::create_dir_all(home.join("ekiden")).unwrap();
        std::fs::write(home.join("ekiden/config.toml"), config).unwrap();
        command
    }

    fn start(&self, args: &[&str]) -> Running {
        Running::of(
            self.ekiden()
                .args(args)
                .args(["--skip-permissions", "--json"]),
        )
    }

    fn said(&self, args: &[&str]) -> String {
        let output = self.ekiden().args(args).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Where Qwen is, or a line that the test is left out.
fn installed_qwen(what: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    let program = root.join("agents/qwen/node_modules/.bin/qwen");
    if program.is_file() {
        return Some(program);
    }
    let line = format!("left out: {what} (no qwen; `npm ci` in agents/qwen installs it)\n");
    let needed = std::env::var("EKIDEN_NEED_AGENTS").unwrap_or_default();
    assert!(!needed.split(',').any(|name| name == "qwen"), "{line}");
    // Nobody to tell: the test is left out either way.
    let _ = std::io::stderr().write_all(line.as_bytes());
    None
}

/// The five-hour limit of a subscription, until so many seconds since 1970.
fn limit(resets_at: u64) -> Reply {
    let reset = resets_at.to_string();
    Status::error(429, "rate_limit_error", "This would exceed your limit.")
        .header("anthropic-ratelimit-unified-status", "rejected")
        .header("anthropic-ratelimit-unified-reset", &reset)
        .header(
            "anthropic-ratelimit-unified-representative-claim",
            "five_hour",
        )
        .header("anthropic-ratelimit-unified-5h-status", "rejected")
        .header("anthropic-ratelimit-unified-5h-utilization", "1.0")
        .header("anthropic-ratelimit-unified-5h-reset", &reset)
        .into()
}

fn in_secs(secs: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs() + secs
}

/// Qwen does this by its shell, hands off as that session, and ends its turn.
fn by_shell(asked: &Asked, work: &str, session: u32) -> Answer {
    let [progress, next_prompt, _] = handoff(session);
    if asked.results > 0 {
        return Answer::Words {
            text: "Done.".to_owned(),
            tokens: 21_000,
        };
    }
    let command = format!(
        "{work}\ncat > .ekiden/handoff/PROGRESS.md <<'END'\n{progress}END\n\
         cat > .ekiden/handoff/NEXT_PROMPT.md <<'END'\n{next_prompt}END\n"
    );
    Answer::Shell {
        command,
        tokens: 20_000,
    }
}

/// The sessions that began: stage and agent, in their order.
fn sessions(told: &[Value]) -> Vec<(String, String)> {
    let began = told
        .iter()
        .filter(|line| line["event"] == "session_started");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    began
        .map(|line| (text(&line["stage"]), text(&line["agent"])))
        .collect()
}

/// Where the relay works, as the client says.
fn dir_of(request: &Request) -> PathBuf {
    let said = request.system() + &request.text();
    let mut words = said.split(|c: char| c.is_whitespace() || "\"'`<>()".contains(c));
    let dir = words.find(|word| word.starts_with('/') && word.contains("/ekiden-project-"));
    let dir = PathBuf::from(dir.unwrap_or_else(|| panic!("no project in {said}")));
    let is_it = |part: &&Path| {
        let name = part.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("ekiden-project-"))
    };
    dir.ancestors().find(is_it).unwrap().to_owned()
}

/// Whose part it is, by the task, which stands first.
fn part_of(text: &str) -> Option<String> {
    let rest = &text[text.find("Make part P")? + "Make part ".len()..];
    Some(rest[..3].to_owned())
}

/// Claude does eight of twelve stages and half of the ninth; then it is out for hours.
// shows: REL-39, AGT-14, AGT-17, PLN-08
#[test]
fn a_plan_of_twelve_stages_goes_on_with_qwen_where_claude_met_its_limit() {
    let mut plan = "format = 1\nproject = \"twelve\"\njobs = 3\n".to_owned();
    let first: Vec<String> = (1..=8).map(|number| format!("P{number:02}")).collect();
    for part in (1..=12).map(|number| format!("P{number:02}")) {
        let needs = match &*part {
            "P09" => json!(first),
            part if first.iter().any(|first| first == part) => json!([]),
            _ => json!(["P09"]),
        };
        plan += &format!(
            "[[stage]]\nid = \"{part}\"\nname = \"{part}\"\nneeds = {needs}\nprompt = \"Make part {part}.\"\n\
             validation = {{ kind = \"command\", command = 'test -s {part}.txt' }}\n"
        );
    }
    let claude = move |request: &Request| -> Reply {
        let Some(part) = part_of(&request.text()) else {
            return Message::text("Well.").into();
        };
        let (dir, file) = (tree_of(request, &part), format!("{part}.txt"));
        let is_whole = first.contains(&part);
        match request.answers() {
            0 if is_whole => write(&dir, &file, "claude\n").into(),
            0 if part == "P09" => write(&dir, "half.txt", "half of it\n").into(),
            1 if is_whole => hand_off(&dir, 3).into(),
            _ if is_whole => Message::text("Done.").into(),
            _ => limit(in_secs(18_000)),
        }
    };
    let qwen = |asked: &Asked| {
        let part = part_of(&asked.text).unwrap_or_default();
        let from = if part == "P09" {
            "cat half.txt"
        } else {
            "echo qwen"
        };
        by_shell(asked, &format!("{from} > {part}.txt"), 3)
    };
    let Some(fixture) = Fixture::set("a plan over two real agents", claude, qwen) else {
        return;
    };
    fixture.project.write("plan.toml", &plan);
    git(&fixture.project, &["add", "--all"]);
    git(&fixture.project, &["commit", "--quiet", "--message=plan"]);

    let told = fixture
        .start(&["execute", "plan.toml", "--yes"])
        .expect_exit(0);

    let by = |agent: &str| -> Vec<String> {
        let all = sessions(&told).into_iter();
        let its = all.filter(|(_, by)| by == agent);
        its.map(|(stage, _)| stage).collect()
    };
    let mut whole = by("claude");
    assert_eq!(whole.pop().as_deref(), Some("P09"));
    whole.sort_unstable();
    assert_eq!(
        whole,
        ["P01", "P02", "P03", "P04", "P05", "P06", "P07", "P08"]
    );
    assert_eq!(by("qwen").len(), 4);
    assert_eq!(by("qwen")[0], "P09", "from what the first one left");
    let limits = told.iter().filter(|line| {
        line["cause"]["rate_limited"]["kind"] == "five_hour" && line["left"] == "nothing"
    });
    assert_eq!(limits.count(), 1, "{told:#?}");
    assert_eq!(fixture.project.read("P08.txt"), "claude\n");
    assert_eq!(fixture.project.read("P09.txt"), "half of it\n");
    assert_eq!(fixture.project.read("P12.txt"), "qwen\n");
    // Who did what.
    let status = fixture.said(&["status"]);
    let row = |part: &str| {
        let mut rows = status.lines();
        rows.rfind(|line| line.contains(part)).unwrap().to_owned()
    };
    assert!(row("P08").ends_with("by claude"), "{status}");
    assert!(row("P09").ends_with("by claude, qwen"), "{status}");
    assert!(row("P12").ends_with("by qwen"), "{status}");
    let trailers = ["log", "--format=%(trailers:key=Ekiden-Agent,valueonly)"];
    let trailers = git(&fixture.project, &trailers);
    let commits = |agent: &str| trailers.lines().filter(|line| *line == agent).count();
    assert_eq!((commits("claude"), commits("qwen")), (9, 4), "{trailers}");
    assert!(!fixture.api.main_requests().is_empty() && !fixture.other.asked().is_empty());
}

/// The limit of the first is over while the second works, so the third session is the first one's again.
// shows: REL-39, REL-11
#[test]
fn a_relay_goes_on_with_qwen_and_back_to_claude_after_the_reset() {
    let mut resets_at = None;
    let claude = move |request: &Request| -> Reply {
        let dir = dir_of(request);
        match (session_of(&request.text()), request.answers()) {
            (1, 0) => write(&dir, "item-1.txt", "claude\n").into(),
            (1, _) => limit(*resets_at.get_or_insert_with(|| in_secs(1))),
            (_, 0) => write(&dir, "item-3.txt", "claude\n").into(),
            (_, 1) => hand_off(&dir, 3).into(),
            (_, _) => Message::text("Done.").into(),
        }
    };
    // When it hands off, the reset is over, and the half minute behind it.
    let qwen = |asked: &Asked| {
        if asked.results == 1 {
            std::thread::sleep(RESET_OVER);
        }
        by_shell(asked, "echo qwen > item-2.txt", 2)
    };
    let Some(fixture) = Fixture::set("a relay over two real agents", claude, qwen) else {
        return;
    };
    let run = ["run", "Make three items.", "--verify", "test -f item-3.txt"];
    let told = fixture.start(&run).expect_exit(0);
    let agents: Vec<String> = sessions(&told)
        .into_iter()
        .map(|(_, agent)| agent)
        .collect();
    assert_eq!(agents, ["claude", "qwen", "claude"], "{told:#?}");
    for (item, by) in [(1, "claude\n"), (2, "qwen\n"), (3, "claude\n")] {
        assert_eq!(fixture.project.read(&format!("item-{item}.txt")), by);
    }
}
