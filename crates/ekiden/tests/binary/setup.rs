//! `ekiden setup`: what it makes of the files of a home and a project, and that it takes all of it back.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::environment::Environment;

const SETTINGS: &str = ".claude/settings.json";
const NO_JSON: &str = "{\n  \"model\": \"opus\"\n  \"hooks\": {}\n}\n";

/// The home of the environment, file by file.
struct Home<'e>(&'e Environment);

impl Home<'_> {
    fn write(&self, name: &str, text: &str) {
        let path = self.0.path("home").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path("home").join(name)).unwrap_or_default()
    }

    fn exists(&self, name: &str) -> bool {
        self.0.path("home").join(name).symlink_metadata().is_ok()
    }

    /// Everything in it: mode and content of files, where links lead.
    fn all(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        let home = self.0.path("home");
        let mut todo = vec![home.clone()];
        while let Some(dir) = todo.pop() {
            for entry in dir.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
                let found = entry.symlink_metadata().unwrap();
                let name = entry
                    .strip_prefix(&home)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                let mode = found.permissions().mode();
                let what = if found.is_dir() {
                    todo.push(entry);
                    String::new()
                } else if found.is_symlink() {
                    entry.read_link().unwrap().display().to_string()
                } else {
                    String::from_utf8_lossy(&std::fs::read(&entry).unwrap()).into_owned()
                };
                all.insert(name, format!("{mode:o} {what}"));
            }
        }
        // What every program finds there.
        all.retain(|name, _| ![".local", ".local/state"].contains(&name.as_str()));
        all
    }

    fn settings(&self) -> Value {
        serde_json::from_str(&self.read(SETTINGS)).unwrap()
    }
}

/// An environment in which the program lies in a directory with a blank in its name, and what it says
/// when it is called from there.
fn elsewhere(environment: &Environment, args: &[&str]) -> String {
    let program = environment.path("my tools/ekiden");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    if !program.exists() {
        // By another process: what a child of another test inherits open for writing cannot be executed.
        let (ours, copy) = (env!("CARGO_BIN_EXE_ekiden"), program.display());
        environment.shell(&format!("ln '{ours}' '{copy}' || cp '{ours}' '{copy}'"));
    }
    let mut command = Command::new(program);
    command
        .args(args)
        .current_dir(environment.dir())
        .env_clear()
        .env("HOME", environment.path("home"));
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Without the path of the program under test, which differs from machine to machine.
fn plain(said: &str) -> String {
    said.replace(env!("CARGO_BIN_EXE_ekiden"), "/opt/ekiden")
}

fn done(environment: &Environment, args: &[&str]) -> String {
    let said = environment.run(&[&["setup"], args].concat()).expect(0);
    let told = plain(&environment.normal(&said));
    told.strip_suffix("\n--- exit code 0")
        .unwrap_or(&told)
        .to_owned()
}

/// What stands below the difference.
fn in_words(told: &str) -> String {
    let lines: Vec<&str> = told.lines().collect();
    let end = lines
        .iter()
        .rposition(|line| line.starts_with(['+', '-']))
        .map_or(0, |at| at + 1);
    lines[end..].join("\n")
}

// ── In and out ────────────────────────────────────────────────────────────────────────────────

// shows: OPS-02
#[test]
fn an_empty_home_gets_the_guard_and_loses_it_again() {
    let environment = Environment::with_git();
    let home = Home(&environment);
    let before = home.all();
    insta::assert_snapshot!(done(&environment, &["--dry-run"]), @r#"
    --- /dev/null
    +++ HOME/.claude/settings.json
    @@ -0,0 +1,100 @@
    +{
    +  "hooks": {
    +    "SessionStart": [
    +      {
    +        "hooks": [
    +          {
    +            "type": "command",
    +            "command": "! command -v /opt/ekiden >/dev/null || exec /opt/ekiden hook SessionStart",
    +            "timeout": 10
    +          }
    +        ]
    +      }
    +    ],
    +    "UserPromptSubmit": [
    +      {
    +        "hooks": [
    +          {
    +            "type": "command",
    +            "command": "! command -v /opt/ekiden >/dev/null || exec /opt/ekiden hook UserPromptSubmit",
    +            "timeout": 10
    +          }
    +        ]
    +      }
    +    ],
    +    "PreToolUse": [
    +      {
    +        "hooks": [
    +          {
    +            "type": "command",
    +            "command": "! command -v /opt/ekiden >/dev/null || exec /opt/ekiden hook PreToolUse",
    +            "timeout": 10
    +          }
    +        ]
    +      }
    +    ],
    +    "PostToolBatch": [
    +      {
    +        "hooks": [
    +          {
    +            "type": "command",
    +            "command": "! command -v /opt/ekiden >/dev/null || exec /opt/ekiden hook PostToolBatch",
    +            "timeout": 10
    +          }
    +        ]
    +      }
    +    ],
    +    "PreCompact": [
    +      {
    +        "hooks": [
    +          {
    +            "type": "command",
    +            "command": "! command -v /opt/ekiden >/dev/null || exec /opt/ekiden hook PreCompact",
    +            "timeout": 60
    +          }
    +        ]
    +      }
    +    ],
    +    "Stop": [
    +      {
    +        "hooks": [
    +          {
    +            "type": "command",
    +            "command": "! command -v /opt/ekiden >/dev/null || exec /opt/ekiden hook Stop",
    +            "timeout": 10
    +          }
    +        ]
    +      }
    +    ],
    +    "SessionEnd": [
    +      {
    +        "hooks": [
    +          {
    +            "type": "command",
    +            "command": "! command -v /opt/ekiden >/dev/null || exec /opt/ekiden hook SessionEnd",
    +            "timeout": 10
    +          }
    +        ]
    +      }
    +    ]
    +  },
    +  "statusLine": {
    +    "type": "command",
    +    "command": "! command -v /opt/ekiden >/dev/null || exec /opt/ekiden statusline",
    +    "refreshInterval": 5
    +  },
    +  "permissions": {
    +    "allow": ["mcp__ekiden"]
    +  },
    +  "extraKnownMarketplaces": {
    +    "ekiden-setup": {
    +      "source": {
    +        "source": "directory",
    +        "path": "HOME/.claude/ekiden"
    +      }
    +    }
    +  },
    +  "enabledPlugins": {
    +    "ekiden-mod@ekiden-setup": true
    +  }
    +}
      to create  HOME/.claude/settings.json
      to create  HOME/.claude.json (MCP server)
      to create  HOME/.claude/skills/checkpoint/SKILL.md
      to create  HOME/.claude/skills/handoff/SKILL.md
      to create  HOME/.claude/skills/orient/SKILL.md
      to create  HOME/.claude/skills/ralph/SKILL.md
      to create  HOME/.claude/skills/shard/SKILL.md
      to create  HOME/.claude/ekiden/.claude-plugin/marketplace.json
      to create  HOME/.claude/ekiden/mod/.claude-plugin/plugin.json
      to create  HOME/.claude/ekiden/mod/hooks/hooks.json
      to create  HOME/.claude/ekiden/mod/hooks/guard.ts
      to create  HOME/.claude/ekiden/mod/types/guard.d.ts
    nothing was changed: this was a dry run
    "#);
    assert_eq!(home.all(), before, "a dry run changes nothing");
    let installed = done(&environment, &[]);
    insta::assert_snapshot!(in_words(&installed), @r"
    created   HOME/.claude/settings.json
    created   HOME/.claude.json (MCP server)
    created   HOME/.claude/skills/checkpoint/SKILL.md
    created   HOME/.claude/skills/handoff/SKILL.md
    created   HOME/.claude/skills/orient/SKILL.md
    created   HOME/.claude/skills/ralph/SKILL.md
    created   HOME/.claude/skills/shard/SKILL.md
    created   HOME/.claude/ekiden/.claude-plugin/marketplace.json
    created   HOME/.claude/ekiden/mod/.claude-plugin/plugin.json
    created   HOME/.claude/ekiden/mod/hooks/hooks.json
    created   HOME/.claude/ekiden/mod/hooks/guard.ts
    created   HOME/.claude/ekiden/mod/types/guard.d.ts
    skills    /checkpoint, /handoff, /orient, /ralph, /shard in new sessions
    next      start a session; `ekiden setup --remove` removes the guard
    ");
    let commands = home.settings()["hooks"].as_object().unwrap().len();
    assert_eq!(commands, 7);
    let with = home.all();
    insta::assert_snapshot!(done(&environment, &[]), @"nothing to change");
    assert_eq!(home.all(), with, "a second time");
    let removed = done(&environment, &["--remove"]);
    insta::assert_snapshot!(in_words(&removed), @r"
    removed   HOME/.claude/settings.json
    removed   HOME/.claude.json (MCP server)
    removed   HOME/.claude/ekiden/.claude-plugin/marketplace.json
    removed   HOME/.claude/ekiden/mod/.claude-plugin/plugin.json
    removed   HOME/.claude/ekiden/mod/hooks/guard.ts
    removed   HOME/.claude/ekiden/mod/hooks/hooks.json
    removed   HOME/.claude/ekiden/mod/types/guard.d.ts
    removed   HOME/.claude/skills/checkpoint/SKILL.md
    removed   HOME/.claude/skills/handoff/SKILL.md
    removed   HOME/.claude/skills/orient/SKILL.md
    removed   HOME/.claude/skills/ralph/SKILL.md
    removed   HOME/.claude/skills/shard/SKILL.md
    ");
    assert_eq!(home.all(), before);
    insta::assert_snapshot!(done(&environment, &["--remove"]), @"nothing of the guard is here");
}

/// Settings as people have them.
const CORPUS: [&str; 8] = [
    "{}",
    "{\n}\n",
    "",
    "{\"model\":\"opus\",\"permissions\":{\"allow\":[\"Edit\"]}}",
    "\u{feff}{\r\n\t\"model\": \"opus\"\r\n}\r\n",
    "{\n    // mine\n    \"model\": \"opus\", /* really */\n    \"hooks\": {\n    },\n}\n",
    "{\n  \"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}]},\n  \"statusLine\": {\"type\": \"command\", \"command\": \"~/.claude/line.sh \\\"x\\\"\", \"padding\": 0}\n}",
    "{\n  \"statusLine\": \"?\",\n  \"disableAllHooks\": true\n}\n",
];

// shows: OPS-02
#[test]
fn what_was_there_comes_back_byte_for_byte_with_its_mode() {
    for (at, text) in CORPUS.iter().enumerate() {
        let environment = Environment::new();
        let home = Home(&environment);
        home.write(SETTINGS, text);
        let mode = std::fs::Permissions::from_mode(if at % 2 == 0 { 0o640 } else { 0o600 });
        std::fs::set_permissions(environment.path("home").join(SETTINGS), mode).unwrap();
        let before = home.all();
        done(&environment, &[]);
        assert!(
            home.read(SETTINGS).contains("hook PostToolBatch"),
            "{text:?}"
        );
        assert_eq!(home.all()[SETTINGS][..6], before[SETTINGS][..6], "the mode");
        done(&environment, &[]);
        done(&environment, &["--remove"]);
        assert_eq!(home.all(), before, "{text:?}");
    }
}

/// The client's state with a key in it.
const STATE: &str =
    "{\n  \"numStartups\": 3,\n  \"mcpServers\": {},\n  \"primaryApiKey\": \"sk-secret\"\n}";

// shows: OPS-02, MEM-09
#[test]
fn the_mcp_server_comes_with_the_guard_and_goes_with_it() {
    for scope in ["--user", "--project"] {
        let environment = Environment::with_git();
        let home = Home(&environment);
        home.write(".claude.json", STATE);
        let before = home.all();
        let told = done(&environment, &[scope]);
        assert!(!told.contains("sk-secret"), "{told}");
        let state: Value = serde_json::from_str(&home.read(".claude.json")).unwrap();
        let servers = match scope {
            "--user" => &state["mcpServers"],
            _ => &state["projects"][environment.dir().to_str().unwrap()]["mcpServers"],
        };
        assert_eq!(servers["ekiden"]["args"], serde_json::json!(["mcp"]));
        assert!(home.all()[".claude.json"].starts_with(&before[".claude.json"][..6]));
        assert!(done(&environment, &[scope]).contains("nothing to change"));
        // Nothing of it is kept elsewhere.
        let kept = home.all();
        let kept = kept.iter().filter(|(_, text)| text.contains("sk-secret"));
        assert_eq!(kept.count(), 1);

        // Switched off, it goes, and its rule too.
        let with = home.all();
        let mut off = environment.command(&["setup", scope]);
        assert!(off.env("EKIDEN_MCP", "false").status().unwrap().success());
        assert_eq!(home.read(".claude.json"), STATE);
        assert_ne!(home.all(), with);
        done(&environment, &[scope]);
        done(&environment, &[scope, "--remove"]);
        assert_eq!(home.all(), before, "{scope}");
    }
}

// shows: OPS-02
#[test]
fn both_scopes_leave_nothing_whichever_comes_first_and_goes_last() {
    for [first, second] in [["--user", "--project"], ["--project", "--user"]] {
        for [one, other] in [[first, second], [second, first]] {
            let environment = Environment::with_git();
            done(&environment, &[first]);
            done(&environment, &[second]);
            done(&environment, &[one, "--remove"]);
            assert!(Home(&environment).exists(".claude.json"));
            done(&environment, &[other, "--remove"]);
            let left = Home(&environment).exists(".claude.json");
            assert!(!left, "{first} first, {other} last");
        }
    }
}

// shows: OPS-02
#[test]
fn a_state_of_the_client_that_is_not_understood_is_left_alone() {
    let environment = Environment::new();
    let home = Home(&environment);
    home.write(".claude.json", "{ broken");
    let before = home.all();
    refused(&environment, &[], 78);
    assert_eq!(home.all(), before);
    let theirs = r#"{"mcpServers": {"ekiden": {"command": "road-race"}}}"#;
    home.write(".claude.json", theirs);
    let said = environment.run(&["setup"]).expect(0);
    assert!(
        said.stderr.contains("belongs to somebody else"),
        "{}",
        said.stderr
    );
    assert_eq!(home.read(".claude.json"), theirs);
    let settings = home.read(SETTINGS);
    assert!(!settings.contains("mcp__ekiden"), "{settings}");
}

// shows: OPS-02
#[test]
fn what_others_changed_since_stays_and_ours_goes() {
    let environment = Environment::new();
    let home = Home(&environment);
    home.write(SETTINGS, "{\n  \"model\": \"opus\"\n}\n");
    done(&environment, &[]);
    let theirs = home
        .read(SETTINGS)
        .replace("\"opus\"", "\"haiku\",   \"theme\": \"dark\"");
    home.write(SETTINGS, &theirs);
    assert!(done(&environment, &[]).contains("nothing to change"));
    done(&environment, &["--remove"]);
    assert_eq!(
        home.read(SETTINGS),
        "{\n  \"model\": \"haiku\",   \"theme\": \"dark\"\n}\n"
    );

    // A rule that allows ekiden's tools was theirs before.
    let allowing =
        "{\n  \"permissions\": {\"allow\": [\"mcp__ekiden\"]},\n  \"model\": \"opus\"\n}\n";
    home.write(SETTINGS, allowing);
    for server in ["true", "false"] {
        let mut setup = environment.command(&["setup"]);
        let set_up = setup.env("EKIDEN_MCP", server).status();
        assert!(set_up.unwrap().success());
        let theirs = home.read(SETTINGS).replace("opus", "haiku");
        home.write(SETTINGS, &theirs);
        done(&environment, &["--remove"]);
        let left = home.read(SETTINGS);
        assert_eq!(left, allowing.replace("opus", "haiku"));
        home.write(SETTINGS, allowing);
    }
    let told = done(&environment, &["--remove"]);
    assert_eq!(told, "nothing of the guard is here");

    // So was an empty list of hooks.
    home.write(SETTINGS, "{\n  \"hooks\": {},\n  \"model\": \"opus\"\n}\n");
    done(&environment, &[]);
    let theirs = home.read(SETTINGS).replace("opus", "haiku");
    home.write(SETTINGS, &theirs);
    done(&environment, &["--remove"]);
    assert_eq!(home.settings(), json!({"hooks": {}, "model": "haiku"}));

    // If somebody took out the hooks by hand, `--remove` still takes out the rule.
    home.write(SETTINGS, "{\n  \"model\": \"opus\"\n}\n");
    done(&environment, &[]);
    let mut by_hand = home.settings();
    by_hand.as_object_mut().unwrap().remove("hooks");
    home.write(SETTINGS, &format!("{by_hand:#}"));
    done(&environment, &["--remove"]);
    assert_eq!(home.settings(), json!({"model": "opus"}));

    home.write(SETTINGS, "");
    std::fs::remove_dir_all(environment.path("home/.claude")).unwrap();
    done(&environment, &[]);
    let theirs = home.read(SETTINGS) + "\n";
    home.write(SETTINGS, &theirs);
    std::fs::remove_file(environment.path("home/.claude/skills/orient/SKILL.md")).unwrap();
    done(&environment, &["--remove"]);
    assert!(!home.exists(".claude"), "nothing of it but ours");
}

// shows: OPS-02
#[test]
fn without_a_receipt_all_that_is_ours_is_still_found() {
    let environment = Environment::new();
    let home = Home(&environment);
    home.write(SETTINGS, CORPUS[6]);
    done(&environment, &[]);
    std::fs::remove_dir_all(environment.path("home/.local")).unwrap();
    done(&environment, &["--remove"]);
    let given: Value = serde_json::from_str(CORPUS[6]).unwrap();
    assert_eq!(home.settings(), given);
    assert!(!home.exists(".claude/skills/handoff"));
}

// shows: OPS-02
#[test]
fn without_the_copy_of_the_settings_they_are_not_taken_for_ours() {
    let environment = Environment::new();
    let home = Home(&environment);
    home.write(SETTINGS, CORPUS[6]);
    done(&environment, &[]);
    environment.shell("find ../home/.local -name original.json -delete");
    done(&environment, &["--remove"]);
    let given: Value = serde_json::from_str(CORPUS[6]).unwrap();
    assert_eq!(home.settings(), given);
}

// shows: OPS-02
#[test]
fn a_program_that_moved_is_brought_up_to_date() {
    let environment = Environment::new();
    let home = Home(&environment);
    home.write(SETTINGS, CORPUS[6]);
    let before = home.all();
    elsewhere(&environment, &["setup"]);
    let program = format!("'{}'", environment.path("my tools/ekiden").display());
    assert!(
        home.read(SETTINGS)
            .contains(&format!("{program} hook Stop")),
        "{}",
        home.read(SETTINGS)
    );
    assert!(
        home.read(".claude/skills/orient/SKILL.md")
            .contains(&format!("Run `{program} orient`"))
    );
    std::fs::remove_file(environment.path("my tools/ekiden")).unwrap();
    let told = environment.told(&["doctor", "--agent", "claude"]);
    assert!(
        told.contains("calls `ROOT/my tools/ekiden`, which does not exist"),
        "{told}"
    );
    done(&environment, &[]);
    assert!(!home.read(SETTINGS).contains("my tools"));
    assert!(
        !home
            .read(".claude/skills/orient/SKILL.md")
            .contains("my tools")
    );
    done(&environment, &["--remove"]);
    assert_eq!(home.all(), before);
}

// shows: OPS-02
#[test]
fn the_command_of_a_program_that_is_gone_says_nothing() {
    let environment = Environment::new();
    let home = Home(&environment);
    home.write(
        SETTINGS,
        CORPUS[6]
            .replace("~/.claude/line.sh \\\"x\\\"", "echo mine")
            .as_str(),
    );
    elsewhere(&environment, &["setup"]);
    std::fs::remove_file(environment.path("my tools/ekiden")).unwrap();
    let settings = home.settings();
    let hook = settings["hooks"]["PostToolBatch"][0]["hooks"][0]["command"].as_str();
    let line = settings["statusLine"]["command"].as_str();
    for (command, said) in [(hook, ""), (line, "mine\n")] {
        let output = Command::new("/bin/sh")
            .args(["-c", command.unwrap()])
            .output()
            .unwrap();
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{output:?}"
        );
        assert_eq!(String::from_utf8(output.stdout).unwrap(), said);
    }
}

// shows: OPS-02
#[test]
fn a_home_behind_a_link_is_left_without_a_trace() {
    let environment = Environment::new();
    let link = environment.path("link");
    symlink(environment.path("home"), &link).unwrap();
    let environment = environment.with("HOME", link.to_str().unwrap());
    let home = Home(&environment);
    let before = home.all();
    done(&environment, &[]);
    done(&environment, &["--remove"]);
    assert_eq!(home.all(), before);
}

// ── What is refused ───────────────────────────────────────────────────────────────────────────

/// The guard is not installed: exit code and what is said. The home is as it was.
#[track_caller]
fn refused(environment: &Environment, args: &[&str], code: i32) -> String {
    let home = Home(environment);
    let before = home.all();
    let said = environment.run(&[&["setup"], args].concat()).expect(code);
    assert_eq!(home.all(), before);
    environment.normal(&said)
}

// shows: OPS-02
#[test]
fn a_file_that_is_not_understood_is_never_replaced() {
    let environment = Environment::new();
    Home(&environment).write(SETTINGS, NO_JSON);
    insta::assert_snapshot!(refused(&environment, &[], 78), @r"
    --- standard error
    error: cannot change `HOME/.claude/settings.json`: line 2, column 18: expected comma
    hint: nothing was changed; fix the file, then try again
    --- exit code 78
    ");
    assert_eq!(
        refused(&environment, &["--remove"], 78),
        refused(&environment, &[], 78)
    );
    std::fs::write(
        environment.path("home").join(SETTINGS),
        b"{\"a\": \"\xff\"}",
    )
    .unwrap();
    insta::assert_snapshot!(refused(&environment, &[], 78), @r"
    --- standard error
    error: cannot change `HOME/.claude/settings.json`: it is not UTF-8
    hint: nothing was changed; save it as UTF-8, then try again
    --- exit code 78
    ");
    std::fs::remove_file(environment.path("home").join(SETTINGS)).unwrap();
    std::fs::create_dir(environment.path("home").join(SETTINGS)).unwrap();
    insta::assert_snapshot!(refused(&environment, &[], 74), @r"
    --- standard error
    error: cannot read `HOME/.claude/settings.json`: it is not a regular file
    hint: something else is where a file has to be; move it away
    --- exit code 74
    ");
}

// shows: OPS-02
#[test]
fn what_may_not_be_changed_is_not() {
    let environment = Environment::new();
    let home = Home(&environment);
    home.write(SETTINGS, "{}");
    let path = environment.path("home").join(SETTINGS);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
    insta::assert_snapshot!(refused(&environment, &[], 77), @r"
    --- standard error
    error: cannot change `HOME/.claude/settings.json`: it is read-only
    hint: nothing was changed; `chmod u+w` makes it writable
    --- exit code 77
    ");
    let environment = Environment::new().with("HOME", "");
    insta::assert_snapshot!(refused(&environment, &[], 78), @r"
    --- standard error
    error: cannot find your settings of Claude Code: HOME is not set
    hint: set HOME
    --- exit code 78
    ");
    let environment = Environment::new();
    let nowhere = environment.path("nowhere").display().to_string();
    let environment = environment.with("HOME", &nowhere);
    insta::assert_snapshot!(refused(&environment, &[], 66), @r"
    --- standard error
    error: cannot install into `ROOT/nowhere`: there is no such directory
    hint: create it, or correct `HOME` or `CLAUDE_CONFIG_DIR`
    --- exit code 66
    ");
}

/// The receipt is written first, so a file may still be the older one.
// shows: OPS-02
#[test]
fn an_upgrade_that_was_killed_is_carried_on() {
    let environment = Environment::new();
    let home = Home(&environment);
    let orient = ".claude/skills/orient/SKILL.md";
    elsewhere(&environment, &["setup"]);
    let older = home.read(orient);
    done(&environment, &[]);
    let newer = home.read(orient);
    assert_ne!(older, newer);
    for _ in 0..2 {
        home.write(orient, &older);
        let said = done(&environment, &[]);
        assert!(!said.contains("was changed since"), "{said}");
        assert_eq!(home.read(orient), newer);
    }
    home.write(orient, &older);
    done(&environment, &["--remove"]);
    assert!(!home.exists(orient));
}

// shows: OPS-02
#[test]
fn a_damaged_receipt_is_never_taken_for_none() {
    let environment = Environment::new();
    done(&environment, &[]);
    let dir = environment
        .path("home/.local/state/ekiden/setup")
        .read_dir()
        .unwrap()
        .next()
        .unwrap();
    std::fs::write(dir.unwrap().path().join("receipt.json"), "{ torn").unwrap();
    let said = refused(&environment, &["--remove"], 74);
    assert!(
        said.contains("cannot read the receipt") && said.contains("hint: remove it"),
        "{said}"
    );
}

// ── Links ─────────────────────────────────────────────────────────────────────────────────────

// shows: OPS-02
#[test]
fn a_link_stays_and_what_it_leads_to_is_changed() {
    let environment = Environment::new();
    let home = Home(&environment);
    home.write("dotfiles/claude.json", CORPUS[4]);
    std::fs::create_dir(environment.path("home/.claude")).unwrap();
    symlink(
        "../dotfiles/claude.json",
        environment.path("home").join(SETTINGS),
    )
    .unwrap();
    let before = home.all();
    done(&environment, &[]);
    assert_eq!(home.all()[SETTINGS], before[SETTINGS]);
    assert!(home.read("dotfiles/claude.json").contains("hook Stop"));
    done(&environment, &["--remove"]);
    assert_eq!(home.all(), before);
    std::fs::remove_file(environment.path("home/dotfiles/claude.json")).unwrap();
    insta::assert_snapshot!(refused(&environment, &[], 74), @r"
    --- standard error
    error: cannot use `HOME/.claude/settings.json`: it is a symbolic link to `../dotfiles/claude.json`, which does not exist
    hint: create what it leads to, or remove the link; nothing was changed
    --- exit code 74
    ");
}

// shows: OPS-02
#[test]
fn skills_behind_a_link_go_and_the_link_stays() {
    let environment = Environment::new();
    let home = Home(&environment);
    for dir in ["dotfiles/skills", ".claude"] {
        std::fs::create_dir_all(environment.path("home").join(dir)).unwrap();
    }
    let link = environment.path("home/.claude/skills");
    symlink("../dotfiles/skills", link).unwrap();
    let before = home.all();
    done(&environment, &[]);
    done(&environment, &["--remove"]);
    assert_eq!(home.all(), before);
}

// shows: OPS-02, SEC-02
#[test]
fn no_link_of_a_project_leads_out_of_it() {
    let environment = Environment::with_git();
    let home = Home(&environment);
    home.write(SETTINGS, "{}");
    environment.write(".claude/x", "");
    symlink(
        environment.path("home").join(SETTINGS),
        environment.dir().join(".claude/settings.local.json"),
    )
    .unwrap();
    insta::assert_snapshot!(refused(&environment, &["--project"], 77), @r"
    --- standard error
    error: cannot change `PROJECT/.claude/settings.local.json`: it is a symbolic link out of the project, to `HOME/.claude/settings.json`
    hint: nothing was changed; without `--project` the guard is installed for all your sessions
    --- exit code 77
    ");
    assert_eq!(home.read(SETTINGS), "{}");
}

// ── Other people's things ─────────────────────────────────────────────────────────────────────

// shows: OPS-02
#[test]
fn a_command_that_exists_keeps_its_name() {
    let environment = Environment::new();
    let home = Home(&environment);
    home.write(".claude/commands/handoff.md", "Mine.");
    let said = done(&environment, &[]);
    assert!(
        said.contains(
            "skills    /checkpoint, /ekiden-handoff, /orient, /ralph, /shard in new sessions"
        ),
        "{said}"
    );
    assert!(!home.exists(".claude/skills/handoff"));
    assert!(
        home.read(".claude/skills/checkpoint/SKILL.md")
            .contains("with /ekiden-handoff.")
    );
    std::fs::remove_file(environment.path("home/.claude/commands/handoff.md")).unwrap();
    let said = done(&environment, &[]);
    assert!(
        said.contains("removed   HOME/.claude/skills/ekiden-handoff/SKILL.md"),
        "{said}"
    );
    assert!(home.exists(".claude/skills/handoff/SKILL.md"));
}

// shows: OPS-02
#[test]
fn a_skill_that_a_person_changed_is_theirs() {
    let environment = Environment::new();
    let home = Home(&environment);
    done(&environment, &[]);
    let mine = home.read(".claude/skills/orient/SKILL.md") + "\nBe brief.\n";
    home.write(".claude/skills/orient/SKILL.md", &mine);
    assert!(
        done(&environment, &[])
            .contains("skills/orient/SKILL.md was changed since, so it stays as it is; where it is missing, `ekiden setup` writes it anew")
    );
    assert!(done(&environment, &["--remove"]).contains("skills/orient/SKILL.md was changed since"));
    assert_eq!(home.read(".claude/skills/orient/SKILL.md"), mine);
    assert!(!home.exists(".claude/skills/handoff") && !home.exists(SETTINGS));
}

// shows: OPS-02
#[test]
fn what_keeps_the_guard_silent_is_told_and_not_changed() {
    let environment = Environment::new();
    Home(&environment).write(SETTINGS, CORPUS[5]);
    environment.write(".claude/settings.local.json", "{\"disableAllHooks\": true}");
    let other = "{\"hooks\":{\"Stop\":[{\"hooks\":[{\"command\":\"/other/ekiden hook Stop\"}]}]}}";
    environment.write(".claude/settings.json", other);
    let said = done(&environment, &[]);
    let warnings: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("warning"))
        .collect();
    insta::assert_snapshot!(warnings.join("\n"), @r"
    warning: Claude Code ignores all of HOME/.claude/settings.json, with the guard in it: not plain JSON at line 2, column 5 (it accepts no comments or trailing commas)
    warning: the guard is silent: `disableAllHooks` is set in PROJECT/.claude/settings.local.json
    warning: PROJECT/.claude/settings.json calls another ekiden, so both would run; see `ekiden doctor`
    ");
    assert_eq!(
        environment.read(".claude/settings.local.json"),
        "{\"disableAllHooks\": true}"
    );
    let environment = Environment::new();
    Home(&environment).write(SETTINGS, CORPUS[7]);
    let said = done(&environment, &[]);
    let warnings: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("warning"))
        .collect();
    insta::assert_snapshot!(warnings.join("\n"), @r"
    warning: the guard is silent: `disableAllHooks` is set in HOME/.claude/settings.json
    warning: the status line in HOME/.claude/settings.json has an unknown form, so the guard's is not shown
    ");
}

// ── Projects and programs ─────────────────────────────────────────────────────────────────────

// shows: OPS-02
#[test]
fn a_project_has_a_guard_of_its_own() {
    let environment = Environment::with_git();
    let home = Home(&environment);
    let before = home.all();
    done(&environment, &["--project"]);
    assert!(
        !environment.exists(SETTINGS),
        "it may be committed, and others have ekiden elsewhere"
    );
    let settings = environment.read(".claude/settings.local.json");
    assert!(settings.contains("hook Stop"), "{settings}");
    assert!(environment.exists(".claude/skills/handoff/SKILL.md"));
    assert!(!home.exists(".claude"));
    done(&environment, &["--project", "--remove"]);
    assert!(!environment.exists(".claude"));
    assert_eq!(home.all(), before);
}

/// They may be committed. npm's `ekiden` is a script, which starts the program from another path.
// shows: OPS-02
#[test]
fn skills_of_a_project_name_no_path_where_the_shell_finds_an_ekiden() {
    let environment = Environment::with_git();
    environment.script("../bin/ekiden", ":\n");
    let path = format!(
        "{}:{}",
        environment.path("bin").display(),
        std::env::var("PATH").unwrap()
    );
    let environment = environment.with("PATH", &path);
    done(&environment, &["--project"]);
    let skill = environment.read(".claude/skills/handoff/SKILL.md");
    let program = env!("CARGO_BIN_EXE_ekiden");
    assert!(
        skill.contains("ekiden handoff") && !skill.contains(program),
        "{skill}"
    );
    done(&environment, &["--project", "--remove"]);
    assert!(!environment.exists(".claude"));
}

// shows: OPS-02, UIX-06
#[test]
fn a_guard_of_a_project_hides_no_status_line() {
    let environment = Environment::with_git();
    let home = Home(&environment);
    let own = json!({"type": "command", "command": "~/line.sh x", "padding": 0});
    home.write(SETTINGS, &json!({ "statusLine": own }).to_string());
    let local = ".claude/settings.local.json";
    let line = || {
        let settings: Value = serde_json::from_str(&environment.read(local)).unwrap();
        settings["statusLine"].clone()
    };
    for user in [false, true] {
        if user {
            done(&environment, &["--user"]);
        }
        done(&environment, &["--project"]);
        let command = line()["command"].to_string();
        assert!(
            command.contains("statusline --wrap '~/line.sh x'"),
            "{command}"
        );
        assert_eq!(line()["padding"], 0);
        assert!(done(&environment, &["--project"]).contains("nothing to change"));
        // Somebody else changes the file, so that it is not simply put back.
        let changed = environment
            .read(local)
            .replacen('{', "{\"model\": \"opus\",", 1);
        environment.write(local, &changed);
        done(&environment, &["--project", "--remove"]);
        assert_eq!(line(), Value::Null);
        std::fs::remove_file(environment.dir().join(local)).unwrap();
    }
    done(&environment, &["--remove"]);
    assert_eq!(home.settings()["statusLine"], own);
}

// shows: OPS-02
#[test]
fn another_directory_of_the_client_is_respected() {
    let environment = Environment::new();
    let dir = environment.path("home/other").display().to_string();
    let environment = environment.with("CLAUDE_CONFIG_DIR", &dir);
    done(&environment, &[]);
    let home = Home(&environment);
    assert!(home.exists("other/settings.json") && !home.exists(".claude"));
}

// shows: OPS-02
#[test]
fn programs_are_told_what_changed() {
    let environment = Environment::new();
    Home(&environment).write(SETTINGS, "{}");
    let answer = |args: &[&str]| -> Value {
        let said = environment
            .run(&[&["setup", "--json"], args].concat())
            .expect(0);
        serde_json::from_str(&said.stdout).unwrap()
    };
    let dry = answer(&["--dry-run"]);
    assert_eq!(
        (&dry["changed"], &dry["dry_run"]),
        (&Value::from(false), &Value::from(true))
    );
    let done = answer(&[]);
    assert_eq!(
        (&done["v"], &done["scope"], &done["changed"]),
        (&1.into(), &"user".into(), &true.into())
    );
    assert_eq!(done["diff"], dry["diff"]);
    assert_eq!(done["files"].as_array().unwrap().len(), 12);
    assert_eq!(done["files"][0]["change"], "changed");
    assert_eq!(
        std::fs::read_to_string(Path::new(done["original"].as_str().unwrap())).unwrap(),
        "{}"
    );
    assert_eq!(
        done["skills"],
        serde_json::json!(["/checkpoint", "/handoff", "/orient", "/ralph", "/shard"])
    );
    assert_eq!(answer(&["--remove"])["files"][0]["change"], "changed");
}
