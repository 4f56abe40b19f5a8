//! The agents as rows of differences: how each is started and led to loopback, and what it can do.

use std::path::{Path, PathBuf};

use serde_json::json;

/// An agent under test.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Agent {
    /// Its folder in `agents/`, and its row in the settings.
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    /// Its program and arguments, from the folder's `node_modules/.bin`.
    pub(crate) command: &'static [&'static str],
    /// A little more than what orders a handoff, by the window that it tells, in tokens.
    pub(crate) full: u64,
    pub(crate) order: Order,
    /// An attempt that was cut off goes on in the same conversation.
    pub(crate) resumes: bool,
    /// It cuts a result of a tool that is larger than its window.
    pub(crate) cuts_results: bool,
    /// It tells a usage limit when it meets one.
    pub(crate) tells_limits: bool,
    pub(crate) login: Login,
}

/// When it says that its login does not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Login {
    /// When the service refuses it.
    Refused,
    /// When there is none: this variable holds it.
    Missing(&'static str),
    /// Never: it tries again for minutes, or ends the turn with words.
    Untold,
}

/// How the order to hand off reaches a session at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// In the middle of the turn, by figures that come with each call.
    InTurn,
    /// When the turn ends: nothing tells how full the context is before, or only its bytes do.
    AtTurnEnd,
}

pub(crate) const AGENTS: [Agent; 5] = [
    Agent {
        name: "codex",
        kind: "codex",
        command: &["codex", "app-server"],
        full: 124_000,
        order: Order::InTurn,
        resumes: true,
        cuts_results: true,
        tells_limits: true,
        login: Login::Refused,
    },
    Agent {
        name: "opencode",
        kind: "acp",
        command: &["opencode", "acp"],
        full: 124_000,
        order: Order::InTurn,
        resumes: true,
        cuts_results: true,
        tells_limits: true,
        login: Login::Untold,
    },
    Agent {
        name: "qwen",
        kind: "acp",
        command: &["qwen", "--acp", "--auth-type", "openai"],
        full: 82_000,
        order: Order::InTurn,
        resumes: false,
        cuts_results: true,
        tells_limits: false,
        login: Login::Missing("OPENAI_API_KEY"),
    },
    Agent {
        name: "gemini",
        kind: "acp",
        command: &["gemini", "--acp", "--skip-trust"],
        full: 124_000,
        order: Order::AtTurnEnd,
        resumes: false,
        cuts_results: false,
        tells_limits: false,
        login: Login::Missing("GEMINI_API_KEY"),
    },
    Agent {
        name: "copilot",
        kind: "acp",
        command: &["copilot", "--acp"],
        full: 124_000,
        order: Order::AtTurnEnd,
        resumes: true,
        cuts_results: true,
        tells_limits: false,
        login: Login::Untold,
    },
];

/// An invented key. It is sent to loopback only, and would open nothing elsewhere.
const KEY: &str = "sk-fake-0000000000000000";

impl Agent {
    /// Where its program is, if it is installed.
    pub(crate) fn program(&self) -> Option<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
        let folder = root.join("agents").join(self.name);
        let program = folder.join("node_modules/.bin").join(self.command[0]);
        program.is_file().then_some(program)
    }

    /// The variables that lead it to the service, with a login or without.
    pub(crate) fn variables(&self, url: &str, home: &Path) -> Vec<(&'static str, String)> {
        let of_home = |name: &str| home.join(name).display().to_string();
        match self.name {
            "codex" => vec![("CODEX_HOME", of_home(".codex")), ("FAKE_KEY", KEY.into())],
            "opencode" => vec![
                ("XDG_CONFIG_HOME", of_home(".config")),
                ("OPENCODE_DISABLE_AUTOUPDATE", "1".into()),
                ("OPENCODE_DISABLE_MODELS_FETCH", "1".into()),
            ],
            "qwen" => vec![
                ("OPENAI_BASE_URL", format!("{url}/v1")),
                ("OPENAI_API_KEY", KEY.into()),
                ("OPENAI_MODEL", "fake-model".into()),
                // Else it starts itself once more, to have more memory.
                ("QWEN_CODE_NO_RELAUNCH", "true".into()),
            ],
            "gemini" => vec![
                ("GOOGLE_GEMINI_BASE_URL", url.into()),
                ("GEMINI_API_KEY", KEY.into()),
                ("GEMINI_MODEL", "gemini-3.8-flash".into()),
            ],
            _ => vec![
                ("COPILOT_OFFLINE", "true".into()),
                ("COPILOT_PROVIDER_BASE_URL", format!("{url}/v1")),
                ("COPILOT_PROVIDER_API_KEY", KEY.into()),
                ("COPILOT_MODEL", "fake-model".into()),
                ("COPILOT_PROVIDER_MAX_PROMPT_TOKENS", "200000".into()),
            ],
        }
    }

    /// The files in its home that do the same.
    pub(crate) fn files(&self, url: &str) -> Option<(&'static str, String)> {
        match self.name {
            "codex" => Some((
                ".codex/config.toml",
                format!(
                    "model = \"fake-model\"\nmodel_provider = \"fake\"\nmodel_context_window = 200000\n\n\
                     [model_providers.fake]\nname = \"fake\"\nbase_url = \"{url}/v1\"\nwire_api = \"responses\"\n\
                     env_key = \"FAKE_KEY\"\nrequest_max_retries = 0\nstream_max_retries = 0\n"
                ),
            )),
            "opencode" => {
                let model = json!({"limit": {"context": 200_000, "output": 8_000}});
                let provider = json!({"npm": "@ai-sdk/openai-compatible",
                    "options": {"baseURL": format!("{url}/v1"), "apiKey": KEY}, "models": {"fake-model": model}});
                let config = json!({"provider": {"fake": provider}, "model": "fake/fake-model"});
                Some((".config/opencode/opencode.json", config.to_string()))
            }
            "gemini" => {
                let chosen = json!({"security": {"auth": {"selectedType": "gemini-api-key"}}});
                Some((".gemini/settings.json", chosen.to_string()))
            }
            _ => None,
        }
    }
}
