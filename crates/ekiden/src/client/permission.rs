//! What the agent may do without asking. Somebody must have chosen it, since nobody is there to answer
//! during a relay.
//!
//! A choice is a setting of ekiden, a flag in the agent's command, or the client's own mode and rules. If
//! there is none, ekiden asks a person at a terminal once, and keeps the answer in the user's settings
//! file; the answer "everything" is kept for the project alone. Without a terminal the run does not start.

use std::path::Path;

use ekiden_core::agent::{AgentKind, AgentSpec, Interface, Permissions};

use super::settings::ClientSettings;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::phrase;
use crate::settings::chosen::refuse_plan_mode;
use crate::settings::environment::Environment;

/// Flags of the client with which a user's own command makes the choice.
const CHOOSING_FLAGS: [&str; 5] = [
    "--permission-mode",
    "--dangerously-skip-permissions",
    "--allowedTools",
    "--allowed-tools",
    "--permission-prompt-tool",
];

/// The mode in which the agent does everything without asking.
const BYPASS: &str = "bypassPermissions";
/// Flags that the client refuses when it runs as root.
const NOT_AS_ROOT: [&str; 2] = [
    "--dangerously-skip-permissions",
    "--allow-dangerously-skip-permissions",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Files may be edited; commands follow the client's own rules.
    Edits,
    /// The client's own safety check decides.
    Auto,
    Everything,
    /// Only what the client's own rules allow.
    OwnRules,
}

/// Shows a question and reads a line; `None` if there is no line.
pub type Ask<'a> = &'a mut dyn FnMut(&str) -> Option<String>;

/// Earlier choices, and where an answer is kept.
#[derive(Debug, Clone, Copy, Default)]
pub struct Remembered<'a> {
    /// The user's settings file.
    pub settings: Option<&'a Path>,
    /// The file for choices that hold in one project only.
    pub of_project: Option<&'a Path>,
    /// The user chose "everything" for this project.
    pub everything: bool,
}

/// Makes sure that somebody has chosen. Returns a person's answer, so that it can be remembered.
pub fn settle(
    agent: &mut AgentSpec,
    client: &ClientSettings,
    remembered: Remembered<'_>,
    asker: Option<Ask<'_>>,
) -> Result<Option<Choice>, Failure> {
    if agent.kind == AgentKind::Claude
        && let Some(found) = client.denies_handoffs(&agent.command, agent.interface)
    {
        let text = format!("no session could write its handoff: {}", found.why);
        return Err(Failure::new(Exit::NotPermitted, text).hint(found.remedy));
    }
    // In the client's own interface a person is there to answer.
    let unattended = asks(agent) && agent.interface == Interface::Headless;
    let client_chose = agent.kind == AgentKind::Claude && client.choose_permissions();
    if !unattended || is_chosen(agent) || client_chose {
        return Ok(None);
    }
    if remembered.everything {
        Choice::Everything.apply(&mut agent.permissions);
        return Ok(None);
    }
    let choice = asker
        .and_then(|asker| answer(asker, remembered))
        .ok_or_else(|| nobody_chose(remembered.settings))?;
    choice.apply(&mut agent.permissions);
    Ok(Some(choice))
}

/// The agent asks before it does what nobody allowed.
pub fn asks(agent: &AgentSpec) -> bool {
    matches!(
        agent.kind,
        AgentKind::Claude | AgentKind::Acp | AgentKind::Codex
    )
}

/// ekiden's settings or the agent's command say what the agent may do.
pub fn is_chosen(agent: &AgentSpec) -> bool {
    let Permissions {
        mode,
        skip,
        allowed_tools,
        isolated: _,
        mcp: _,
        read_only: _,
    } = &agent.permissions;
    let by_flag = |word: &String| CHOOSING_FLAGS.iter().any(|flag| word.starts_with(flag));
    *skip || mode.is_some() || !allowed_tools.is_empty() || agent.command.iter().any(by_flag)
}

/// What makes the client refuse to start as root: all permissions, with nothing that says it is in a
/// sandbox. Measured with 2.1.197 and 2.1.329. We know nothing about a wrapper's command.
pub fn refused_as_root(
    agent: &AgentSpec,
    client: &ClientSettings,
    environment: &Environment,
) -> Option<String> {
    let program = agent.command.first().map(Path::new)?.file_name()?;
    let variable = |name| environment.variable(name).or(client.variable(name));
    let is_in_sandbox = variable("IS_SANDBOX") == Some("1")
        || variable("CLAUDE_CODE_BUBBLEWRAP").is_some_and(|value| !value.is_empty());
    if agent.kind != AgentKind::Claude || program != "claude" || is_in_sandbox {
        return None;
    }
    let is_refused = |word: &&String| NOT_AS_ROOT.contains(&word.as_str());
    if agent.permissions.skip {
        return Some("--skip-permissions".to_owned());
    }
    if let Some(flag) = agent.command.iter().find(is_refused) {
        return Some(flag.clone());
    }
    (mode(agent, client) == Some(BYPASS)).then(|| format!("the permission mode {BYPASS}"))
}

/// The mode that the client begins in. That of a flag overrides that of a settings file.
fn mode<'a>(agent: &'a AgentSpec, client: &'a ClientSettings) -> Option<&'a str> {
    let Permissions { mode, skip, .. } = &agent.permissions;
    let skips = *skip || agent.command.iter().any(|word| word == NOT_AS_ROOT[0]);
    match agent.interface {
        _ if skips => Some(BYPASS),
        Interface::Headless => {
            let of_command = mode_in(&agent.command);
            mode.as_deref().or(of_command).or(client.default_mode())
        }
        // There the client gets a mode in any case.
        Interface::Terminal => mode.as_deref(),
    }
}

fn mode_in(command: &[String]) -> Option<&str> {
    let flag = CHOOSING_FLAGS[0];
    let at = command.iter().rposition(|word| word.starts_with(flag))?;
    let value = command[at].strip_prefix(flag)?.strip_prefix('=');
    value.or_else(|| command.get(at + 1).map(String::as_str))
}

/// Refuses what the client would refuse (see [`refused_as_root`]), and a mode without handoffs.
pub fn check_mode(
    agent: &AgentSpec,
    client: &ClientSettings,
    environment: &Environment,
) -> Result<(), Failure> {
    if agent.kind == AgentKind::Claude {
        refuse_plan_mode(mode(agent, client))?;
    }
    let refused = refused_as_root(agent, client, environment);
    let Some(what) = refused.filter(|_| rustix::process::getuid().is_root()) else {
        return Ok(());
    };
    let text = format!("cannot start a session: the agent refuses `{what}` as root");
    Err(Failure::new(Exit::Settings, text)
        .hint(NOT_ROOT)
        .hint(SANDBOX))
}

/// What to do if the agent refuses root.
pub const NOT_ROOT: &str =
    "run as another user, or choose another mode: `--permission-mode acceptEdits`";
const SANDBOX: &str =
    "where nothing can be lost, such as a container: `IS_SANDBOX=1` in the environment";

impl Choice {
    pub const ALL: [Self; 4] = [Self::Edits, Self::Auto, Self::Everything, Self::OwnRules];

    /// The line of a settings file that says the same.
    pub fn setting(self) -> String {
        match self.mode() {
            Some(mode) => format!("permission_mode = \"{mode}\""),
            None => "skip_permissions = true".to_owned(),
        }
    }

    /// The client's permission mode that says the same, if one does.
    pub fn mode(self) -> Option<&'static str> {
        match self {
            Self::Edits => Some("acceptEdits"),
            Self::Auto => Some("auto"),
            Self::Everything => None,
            Self::OwnRules => Some("default"),
        }
    }

    fn apply(self, permissions: &mut Permissions) {
        match self.mode() {
            Some(mode) => permissions.mode = Some(mode.to_owned()),
            None => permissions.skip = true,
        }
    }

    fn of_answer(answer: &str) -> Option<Self> {
        let number: usize = answer.trim().parse().ok()?;
        Self::ALL.get(number.checked_sub(1)?).copied()
    }

    pub fn explanation(self) -> &'static str {
        match self {
            Self::Edits => "edit files here; commands only as its own rules allow",
            Self::Auto => "what its own safety check lets through",
            Self::Everything => "everything: only where nothing can be lost, such as a container",
            Self::OwnRules => "only what its own rules allow",
        }
    }
}

/// Asks until the answer is one of the choices. An empty line declines.
fn answer(ask: Ask<'_>, remembered: Remembered<'_>) -> Option<Choice> {
    let mut question = "Nobody will be there to answer when the agent asks for permission. What may it do without asking?\n\n".to_owned();
    for (number, choice) in (1..).zip(Choice::ALL) {
        question.push_str(&format!("  {number}  {}\n", choice.explanation()));
    }
    if let (Some(all), Some(one)) = (remembered.settings, remembered.of_project) {
        let [all, one] = [all, one].map(phrase::path);
        question.push_str(&format!(
            "\nThe answer is kept for all projects, in {all}; 3 for this project only, in {one}.\n"
        ));
    }
    question.push_str("\n1 to 4, or enter to start nothing: ");
    loop {
        let answer = ask(&question)?;
        if answer.trim().is_empty() {
            return None;
        }
        if let Some(choice) = Choice::of_answer(&answer) {
            return Some(choice);
        }
        "1 to 4, or enter to start nothing: ".clone_into(&mut question);
    }
}

fn nobody_chose(settings_file: Option<&Path>) -> Failure {
    let file = settings_file.map_or_else(
        || "your settings file".to_owned(),
        |path| path.display().to_string(),
    );
    let text = "cannot start a session: you have not chosen what the agent may do without asking";
    Failure::new(Exit::Settings, text)
        .hint("`--permission-mode acceptEdits` lets it edit files, `--allowed-tool 'Bash(make:*)'` lets it run a command")
        .hint("`--skip-permissions` lets it do everything; `--safe-mode` only what its own rules allow")
        .hint(format!("`{}` in {file} makes that choice permanent", Choice::Edits.setting()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claude(permissions: Permissions, command: &[&str]) -> AgentSpec {
        AgentSpec {
            name: "claude".to_owned(),
            kind: AgentKind::Claude,
            command: command.iter().map(|&word| word.to_owned()).collect(),
            model: None,
            account: None,
            permissions,
            interface: Interface::Headless,
        }
    }

    fn answered(answers: &[&'static str]) -> (Result<Option<Choice>, Failure>, AgentSpec, String) {
        let mut agent = claude(Permissions::default(), &["claude"]);
        let (mut answers, mut asked) = (answers.iter(), String::new());
        let mut ask = |question: &str| {
            asked.push_str(question);
            answers.next().map(|answer| (*answer).to_owned())
        };
        let settled = settle(
            &mut agent,
            &ClientSettings::default(),
            Remembered {
                settings: Some(Path::new("/h/config.toml")),
                of_project: Some(Path::new("/h/approved")),
                everything: false,
            },
            Some(&mut ask),
        );
        (settled, agent, asked)
    }

    // shows: AGT-13, RUN-21
    #[test]
    fn a_person_is_asked_until_the_answer_is_a_choice() {
        let (settled, agent, asked) = answered(&["yes", "9", "1"]);
        assert_eq!(settled.unwrap(), Some(Choice::Edits));
        assert_eq!(agent.permissions.mode.as_deref(), Some("acceptEdits"));
        expect_test::expect![[r"
            Nobody will be there to answer when the agent asks for permission. What may it do without asking?

              1  edit files here; commands only as its own rules allow
              2  what its own safety check lets through
              3  everything: only where nothing can be lost, such as a container
              4  only what its own rules allow

            The answer is kept for all projects, in /h/config.toml; 3 for this project only, in /h/approved.

            1 to 4, or enter to start nothing: 1 to 4, or enter to start nothing: 1 to 4, or enter to start nothing: "]]
        .assert_eq(&asked);
        let (settled, agent, _) = answered(&["3"]);
        assert!(settled.unwrap() == Some(Choice::Everything) && agent.permissions.skip);
    }

    // shows: RUN-20
    #[test]
    fn a_start_that_the_client_refuses_to_root_is_known_before() {
        let refused = |permissions: Permissions, command: &[&str], variables: &[(&str, &str)]| {
            let agent = claude(permissions, command);
            let environment = Environment::of(variables.iter().copied());
            refused_as_root(&agent, &ClientSettings::default(), &environment)
        };
        let skip = || Permissions {
            skip: true,
            ..Permissions::default()
        };
        let mode = |mode: &str| Permissions {
            mode: Some(mode.to_owned()),
            ..Permissions::default()
        };
        let none = Permissions::default;
        let bypass = ["claude", "--permission-mode", "bypassPermissions"];
        let flag = ["/opt/claude", "--dangerously-skip-permissions"];
        assert!(refused(skip(), &["claude"], &[]).is_some());
        assert!(refused(mode("bypassPermissions"), &["claude"], &[]).is_some());
        assert!(refused(none(), &bypass, &[]).is_some());
        assert!(refused(none(), &flag, &[("IS_SANDBOX", "true")]).is_some());
        for (permissions, command, variables) in [
            (skip(), &["claude"][..], &[("IS_SANDBOX", "1")][..]),
            (skip(), &["claude"], &[("CLAUDE_CODE_BUBBLEWRAP", "yes")]),
            (skip(), &["docker", "exec", "box", "claude"], &[]),
            (mode("acceptEdits"), &bypass, &[]),
            (none(), &["claude", "--permission-mode=auto"], &[]),
        ] {
            assert_eq!(
                refused(permissions, command, variables),
                None,
                "{command:?}"
            );
        }
    }

    // shows: AGT-13
    #[test]
    fn a_mode_in_which_no_handoff_can_be_written_is_refused() {
        let mode = |mode: &str| Permissions {
            mode: Some(mode.to_owned()),
            ..Permissions::default()
        };
        let skip = Permissions {
            skip: true,
            ..Permissions::default()
        };
        let of_tool = Permissions {
            allowed_tools: vec!["Write".to_owned()],
            ..Permissions::default()
        };
        let plans = serde_json::json!({"permissions": {"defaultMode": "plan"}});
        let (none, plans) = (ClientSettings::default(), ClientSettings::managed(plans));
        let check = |agent: &AgentSpec, client| check_mode(agent, client, &Environment::of([]));
        let by_flag = ["claude", "--permission-mode", "plan"];
        for (permissions, command, client) in [
            (mode("plan"), &["claude"][..], &none),
            (of_tool.clone(), &["claude"], &plans),
            (of_tool, &by_flag, &none),
        ] {
            let failure = check(&claude(permissions, command), client).unwrap_err();
            assert_eq!(failure.exit(), Exit::Settings);
        }
        let is_plan = |agent: &AgentSpec| super::mode(agent, &plans) == Some("plan");
        assert!(!is_plan(&claude(mode("acceptEdits"), &by_flag)));
        assert!(!is_plan(&claude(skip, &by_flag)));
        let rehearsal = AgentSpec {
            kind: AgentKind::Rehearsal,
            ..claude(mode("plan"), &["rehearsal"])
        };
        check(&rehearsal, &plans).unwrap();
        let in_terminal = AgentSpec {
            interface: Interface::Terminal,
            ..claude(Permissions::default(), &by_flag)
        };
        check(&in_terminal, &plans).unwrap();
    }

    // shows: AGT-13
    #[test]
    fn without_an_answer_nothing_starts() {
        for answers in [&[][..], &[""], &["x", ""]] {
            assert_eq!(answered(answers).0.unwrap_err().exit(), Exit::Settings);
        }
        let mut agent = claude(Permissions::default(), &["claude"]);
        let failure = settle(
            &mut agent,
            &ClientSettings::default(),
            Remembered::default(),
            None,
        )
        .unwrap_err();
        assert_eq!(failure.hints().len(), 3);
    }

    // shows: AGT-13
    #[test]
    fn a_choice_that_is_in_force_is_not_asked_about() {
        let mode = Permissions {
            mode: Some("default".to_owned()),
            ..Permissions::default()
        };
        let tool = Permissions {
            allowed_tools: vec!["Edit".to_owned()],
            ..Permissions::default()
        };
        let skip = Permissions {
            skip: true,
            ..Permissions::default()
        };
        let none = Permissions::default;
        for mut agent in [
            claude(mode, &["claude"]),
            claude(tool, &["claude"]),
            claude(skip, &["claude"]),
            claude(none(), &["claude", "--permission-mode=auto"]),
            AgentSpec {
                kind: AgentKind::Exec,
                ..claude(none(), &["mine"])
            },
        ] {
            assert_eq!(
                settle(
                    &mut agent,
                    &ClientSettings::default(),
                    Remembered::default(),
                    None
                )
                .unwrap(),
                None
            );
        }
    }

    // shows: RUN-21
    #[test]
    fn everything_that_was_chosen_for_this_project_is_not_asked_again() {
        let mut agent = claude(Permissions::default(), &["claude"]);
        let remembered = Remembered {
            everything: true,
            ..Remembered::default()
        };
        let settled = settle(&mut agent, &ClientSettings::default(), remembered, None);
        assert_eq!(settled.unwrap(), None);
        assert!(agent.permissions.skip);
    }

    #[test]
    fn what_is_remembered_is_a_setting() {
        for choice in Choice::ALL {
            let file =
                crate::settings::file::SettingsFile::parse(Path::new("x"), &choice.setting())
                    .unwrap();
            assert_eq!(file.values.len(), 1);
        }
    }
}
