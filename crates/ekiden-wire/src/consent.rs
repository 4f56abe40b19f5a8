//! What an agent that asks us each time may do: the run's own choice, by the same rules as Claude Code's.
//!
//! If nothing allows a call it is refused, since nobody is there to answer. Reading in the work tree needs no rule.

use std::path::{Component, Path, PathBuf};

use ekiden_core::agent::Permissions;
use ekiden_core::guard::{HookInput, ToolUse};

use serde_json::Value;

use crate::hook_output::HookAnswer;
use crate::hooks::HookCall;
use crate::limits;
use crate::rpc::{Outbox, Start};
use crate::rules::{fetch_rule, is_plain};
use crate::shell_line::ShellLine;
use crate::stream::ClientEvent;
use crate::trace::keep;

/// The modes in which files in the work tree may be edited.
const EDITS: [&str; 2] = ["acceptEdits", "auto"];
const EVERYTHING: &str = "bypassPermissions";
/// The modes in which requests are answered here. In those not named above, only rules allow.
pub const MODES: [&str; 6] = ["default", "plan", "dontAsk", EDITS[0], EDITS[1], EVERYTHING];
/// Where git, editors and agents find commands and rules, in any directory: no mode allows editing these.
const OBEYED: [&str; 14] = [
    ".git",
    ".gitmodules",
    ".husky",
    ".bashrc",
    ".profile",
    ".vscode",
    ".idea",
    ".mcp.json",
    ".claude",
    ".codex",
    ".gemini",
    ".qwen",
    ".opencode",
    "opencode.json",
];

/// An agent's requests for permission: each becomes a question to the guard for each file that it names.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    consent: Consent,
    asked: Vec<PermissionRequest>,
}

#[derive(Debug)]
struct PermissionRequest {
    /// The agent's id of the request, as JSON.
    id: String,
    hooks: Vec<HookCall>,
    /// How many of its questions the guard has not answered.
    open: usize,
    answer: Option<HookAnswer>,
}

/// The decision about a request.
#[derive(Debug, PartialEq)]
pub(crate) struct Decided {
    pub(crate) id: Value,
    /// The id of the call that it is about.
    pub(crate) call: String,
    pub(crate) may: bool,
    /// The calls that nobody allowed, as the call's id and the tool.
    pub(crate) refused: Vec<(String, String)>,
}

impl Questions {
    pub(crate) fn new(start: &Start) -> Self {
        let (consent, asked) = (Consent::new(start), Vec::new());
        Self { consent, asked }
    }

    /// Puts a request to the guard.
    pub(crate) fn ask(&mut self, id: &Value, hooks: Vec<HookCall>, out: &mut Outbox) {
        let id = id.to_string();
        for (at, hook) in hooks.iter().enumerate() {
            out.see(ClientEvent::HookCallback {
                request_id: format!("{id}#{at}"),
                call: Box::new(hook.clone()),
            });
        }
        let asked = PermissionRequest {
            id,
            open: hooks.len(),
            hooks,
            answer: None,
        };
        keep(&mut self.asked, asked, limits::OPEN_CALLBACKS_MAX);
    }

    /// Takes an answer of the guard. The last one decides the request: the strictest counts.
    pub(crate) fn answer(&mut self, callback: &str, answer: &HookAnswer) -> Option<Decided> {
        let (id, _) = callback.rsplit_once('#')?;
        let place = self.asked.iter().position(|asked| asked.id == id)?;
        let asked = &mut self.asked[place];
        asked.open = asked.open.saturating_sub(1);
        asked.answer = Some(match (asked.answer.take(), answer) {
            (Some(HookAnswer::Deny(why)), _) => HookAnswer::Deny(why),
            (_, HookAnswer::Deny(why)) => HookAnswer::Deny(why.clone()),
            (None | Some(HookAnswer::Allow), HookAnswer::Allow) => HookAnswer::Allow,
            _ => HookAnswer::Pass,
        });
        if asked.open > 0 {
            return None;
        }
        let asked = self.asked.remove(place);
        let ours = asked.answer == Some(HookAnswer::Pass);
        let unallowed = |hook: &&HookCall| ours && !self.consent.allows_hook(hook);
        let refused: Vec<_> = asked.hooks.iter().filter(unallowed).collect();
        let name = |hook: &HookCall| (hook.tool_use_id.clone(), hook.tool.clone());
        let call = asked.hooks.first().map(|hook| hook.tool_use_id.clone());
        Some(Decided {
            call: call.unwrap_or_default(),
            id: serde_json::from_str(&asked.id).unwrap_or_default(),
            may: refused.is_empty()
                && matches!(asked.answer, Some(HookAnswer::Allow | HookAnswer::Pass)),
            refused: refused.into_iter().map(name).collect(),
        })
    }

    pub(crate) fn clear(&mut self) {
        self.asked.clear();
    }
}

/// The run's choice, for one work tree.
#[derive(Debug, Clone, Default)]
pub struct Consent {
    pub(crate) everything: bool,
    edits: bool,
    rules: Vec<String>,
    dir: PathBuf,
    resolve: Option<fn(&Path) -> PathBuf>,
}

/// If everything is allowed, the agent need not ask.
pub fn allows_everything(permissions: &Permissions) -> bool {
    permissions.skip || permissions.mode.as_deref() == Some(EVERYTHING)
}

impl Consent {
    pub fn new(start: &Start) -> Self {
        let (permissions, dir) = (&start.permissions, &start.dir);
        let mode = permissions.mode.as_deref().unwrap_or_default();
        Self {
            everything: allows_everything(permissions),
            edits: EDITS.contains(&mode),
            rules: permissions.allowed_tools.clone(),
            dir: start
                .resolve
                .map_or_else(|| dir.clone(), |resolve| resolve(dir)),
            resolve: start.resolve,
        }
    }

    /// Files in the work tree may be edited.
    pub fn edits(&self) -> bool {
        self.everything || self.edits
    }

    /// A call of this tool may run.
    pub fn allows(&self, name: &str, used: &ToolUse) -> bool {
        let by_choice = matches!(used, ToolUse::Read(path) if self.is_inside(path))
            || matches!(used, ToolUse::Write(path) if self.edits && self.is_inside(path) && !self.is_obeyed(path));
        let by_rules = matches!(used, ToolUse::Shell(line) if self.allows_commands(line))
            || self.rules.iter().any(|rule| matches(rule, name, used));
        self.everything || by_choice || by_rules
    }

    /// Each command of a line may run, and the line does nothing else.
    fn allows_commands(&self, line: &str) -> bool {
        let line = ShellLine::of(line);
        let may_run = |command: &String| {
            let by_rule = |rule: &String| allows_command(rule, command);
            self.stays_inside(command) || self.rules.iter().any(by_rule)
        };
        !line.does_more && !line.commands.is_empty() && line.commands.iter().all(may_run)
    }

    /// The command changes to another directory of the work tree.
    fn stays_inside(&self, command: &str) -> bool {
        let dir = command.strip_prefix("cd ").map(str::trim);
        let dir = dir.filter(|dir| is_plain(dir) && !dir.starts_with('-'));
        dir.is_some_and(|dir| self.is_inside(&self.dir.join(dir)))
    }

    /// The same for the call of a hook.
    pub(crate) fn allows_hook(&self, hook: &HookCall) -> bool {
        match &hook.input {
            HookInput::PreTool { tool, .. } => {
                let fetches = fetch_rule(&hook.tool, &hook.url);
                self.allows(&hook.tool, tool)
                    || fetches.is_some_and(|rule| self.rules.contains(&rule))
            }
            HookInput::Stop { .. } | HookInput::PreCompact | HookInput::Other => false,
        }
    }

    /// The path is in the work tree, both by its text and by where its links lead.
    fn is_inside(&self, path: &Path) -> bool {
        let climbs = path.components().any(|part| part == Component::ParentDir);
        !climbs && self.leads(path).starts_with(&self.dir)
    }

    /// Writing this decides what other programs run.
    fn is_obeyed(&self, path: &Path) -> bool {
        let named = |part: Component<'_>| {
            let part = part.as_os_str();
            OBEYED.iter().any(|name| part.eq_ignore_ascii_case(name))
        };
        let obeyed = |path: &Path| {
            let within = path.strip_prefix(&self.dir);
            within.is_ok_and(|within| within.components().any(named))
        };
        obeyed(path) || obeyed(&self.leads(path))
    }

    fn leads(&self, path: &Path) -> PathBuf {
        self.resolve
            .map_or_else(|| path.to_owned(), |resolve| resolve(path))
    }
}

/// A rule names a tool, or also a whole shell line.
fn matches(rule: &str, name: &str, used: &ToolUse) -> bool {
    match used {
        ToolUse::Write(_) => rule == "Write" || rule == "Edit",
        ToolUse::Read(_) => rule == "Read",
        ToolUse::Shell(line) => rule == "Bash" || form(rule) == Some(line.trim()),
        ToolUse::Schedule | ToolUse::Handoff | ToolUse::Own { .. } | ToolUse::Other => rule == name,
    }
}

/// A rule names a command, or how it begins.
fn allows_command(rule: &str, command: &str) -> bool {
    let Some(form) = form(rule) else {
        return false;
    };
    match form.strip_suffix(":*").or(form.strip_suffix(" *")) {
        Some(beginning) => command
            .strip_prefix(beginning)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')),
        None => command == form,
    }
}

fn form(rule: &str) -> Option<&str> {
    rule.strip_prefix("Bash(")?.strip_suffix(')')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::rules_for;
    use crate::tools::Call;

    fn consent(mode: Option<&str>, rules: &[&str]) -> Consent {
        let permissions = Permissions {
            mode: mode.map(str::to_owned),
            allowed_tools: rules.iter().map(|rule| (*rule).to_owned()).collect(),
            ..Permissions::default()
        };
        Consent::new(&Start {
            dir: PathBuf::from("/w"),
            permissions,
            ..Start::default()
        })
    }

    fn shell(command: &str) -> ToolUse {
        ToolUse::Shell(command.to_owned())
    }

    // shows: AGT-15
    #[test]
    fn a_rule_allows_what_it_names_and_no_second_command() {
        let rules = [
            "Bash(make:*)",
            "Bash(git status)",
            "Bash(go *)",
            "Bash(ls > log)",
            "WebFetch",
            "Ask (1)",
        ];
        let consent = consent(None, &rules);
        for (command, allowed) in [
            ("make", true),
            ("make test", true),
            ("makeup", false),
            ("make && rm -rf /", false),
            ("make; sh", false),
            ("make $(sh)", false),
            ("make > a", false),
            ("make # a", false),
            ("make 'a", false),
            ("go", true),
            ("go test ./...", true),
            ("gofmt", false),
            ("cd sub && make 2>&1 | go x; git status", true),
            ("cd /w/sub; make", true),
            ("cd ..; make", false),
            ("cd /etc; make", false),
            ("cd -; make", false),
            ("make | tail", false),
            ("ls > log", true),
            ("ls > log; make", false),
            (" ; ", false),
            ("git status", true),
            ("git status -s", false),
            ("sh", false),
        ] {
            assert_eq!(
                consent.allows("Bash", &shell(command)),
                allowed,
                "{command}"
            );
        }
        assert!(consent.allows("WebFetch", &ToolUse::Other));
        assert!(consent.allows("Ask (1)", &ToolUse::Other));
        assert!(!consent.allows("Other", &ToolUse::Other));
    }

    /// The rules that a run proposes after a refusal, and with which it is resumed.
    // shows: AGT-15
    #[test]
    fn each_proposed_rule_allows_its_call() {
        for (tool, input) in [
            ("Bash", json!({"command": "make -j2"})),
            (
                "Bash",
                json!({"command": "cd sub && cargo test 2>&1 | tail -20"}),
            ),
            (
                "Bash",
                json!({"command": "git add a.rs; git commit -m 'a && b'"}),
            ),
            ("Bash", json!({"command": "timeout 9 make || sh x.sh"})),
            ("Bash", json!({"command": "python3 tools/x.py\nls"})),
            ("WebFetch", json!({"url": "https://docs.rs/serde"})),
            ("WebFetch", json!({"url": "https://docs.rs:x@example.com/"})),
            ("WebFetch", json!({"description": "Fetch (2) pages"})),
            ("Ask the user (1 question)", json!({})),
            ("Write", json!({"file_path": "/etc/a"})),
        ] {
            let call = Call::new("t".to_owned(), tool.to_owned(), &input);
            let hook = HookCall::of(&json!({"hook_event_name": "PreToolUse", "tool_name": tool,
                "tool_input": input, "cwd": "/w"}));
            let rules = rules_for(&call);
            let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
            assert!(!consent(None, &[]).allows_hook(&hook), "{input}");
            assert!(
                consent(None, &rules).allows_hook(&hook),
                "{input}: {rules:?}"
            );
            for left_out in 0..rules.len() {
                let mut fewer = rules.clone();
                fewer.remove(left_out);
                assert!(
                    !consent(None, &fewer).allows_hook(&hook),
                    "{input}: {fewer:?}"
                );
            }
        }
        let other = json!({"hook_event_name": "PreToolUse", "tool_name": "WebFetch",
            "tool_input": {"url": "https://example.com/"}});
        let rules = ["WebFetch(domain:docs.rs)"];
        assert!(!consent(None, &rules).allows_hook(&HookCall::of(&other)));
    }

    // shows: AGT-15
    #[test]
    fn the_work_tree_is_read_freely_and_edited_by_choice() {
        let inside = ToolUse::Write("/w/a.rs".into());
        assert!(!consent(None, &[]).allows("Edit", &inside));
        assert!(consent(None, &["Write"]).allows("Edit", &inside));
        let edits = consent(Some("acceptEdits"), &[]);
        assert!(edits.allows("Edit", &inside));
        assert!(edits.allows("Read", &ToolUse::Read("/w/a.rs".into())));
        for outside in ["/etc/passwd", "/w/../etc/passwd", "/www/a"] {
            assert!(!edits.allows("Edit", &ToolUse::Write(outside.into())));
            assert!(!edits.allows("Read", &ToolUse::Read(outside.into())));
        }
        for setting in [
            "/w/.git/hooks/pre-commit",
            "/w/a/.Claude/settings.json",
            "/w/.mcp.json",
        ] {
            let write = ToolUse::Write(setting.into());
            assert!(!edits.allows("Edit", &write), "{setting}");
            assert!(consent(None, &["Write"]).allows("Edit", &write));
        }
        assert!(edits.allows("Edit", &ToolUse::Write("/w/.github/ci.yml".into())));
        assert!(!edits.allows("Bash", &shell("make")));
        assert!(consent(Some(EVERYTHING), &[]).allows("Bash", &shell("make")));
    }

    // shows: AGT-15, SEC-02
    #[test]
    fn a_link_leads_no_edit_out_of_the_work_tree() {
        let edits = Consent::new(&Start {
            dir: PathBuf::from("/link-to-w"),
            permissions: Permissions {
                mode: Some("acceptEdits".to_owned()),
                ..Permissions::default()
            },
            resolve: Some(|path| {
                let path = path.to_string_lossy();
                let path = path.replace("/link-to-w", "/w");
                let path = path.replace("/w/hooks", "/w/.git/hooks");
                PathBuf::from(path.replace("/w/link", "/etc"))
            }),
            ..Start::default()
        });
        let write = |path: &str| edits.allows("Edit", &ToolUse::Write(path.into()));
        assert!(write("/link-to-w/a.rs") && write("/w/a.rs"));
        assert!(!write("/w/link/passwd") && !write("/link-to-w/link/passwd"));
        assert!(!write("/link-to-w/hooks/pre-commit"));
    }
}
