//! What goes in comes out again, and what is not ours is not touched.

use expect_test::expect;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const PROGRAM: &str = "/opt/ekiden";
const GUARDED: &str = "! command -v /opt/ekiden >/dev/null || exec /opt/ekiden";

fn installed(text: &str) -> String {
    install(text, PROGRAM).unwrap().text
}

/// The text without the hooks of events that nothing else is said of: they are all alike.
fn in_short(text: &str) -> String {
    let mut settings: Value = serde_json::from_str(text).unwrap();
    let hooks = settings["hooks"].as_object_mut().unwrap();
    hooks.retain(|event, _| matches!(event.as_str(), "Stop" | "PreCompact"));
    settings.to_string()
}

// ── In and out ────────────────────────────────────────────────────────────────────────────────

// shows: OPS-02
#[test]
fn settings_of_nobody_get_all_hooks_and_the_status_line() {
    let text = installed("");
    let settings: Value = serde_json::from_str(&text).unwrap();
    for hook in GUARD_HOOKS {
        let command = format!("{GUARDED} hook {}", hook.event);
        let entry = json!({"type": "command", "command": command, "timeout": hook.timeout_secs});
        assert_eq!(settings["hooks"][hook.event], json!([{"hooks": [entry]}]));
    }
    assert_eq!(
        settings["hooks"].as_object().unwrap().len(),
        GUARD_HOOKS.len()
    );
    let line = json!({"type": "command", "command": format!("{GUARDED} statusline"), "refreshInterval": 5});
    assert_eq!(settings["statusLine"], line);
    assert_eq!(remove(&text, None).unwrap(), "{}\n");
    assert_eq!(installed(&text), text);
}

// shows: OPS-02
#[test]
fn what_others_have_there_keeps_every_byte() {
    let given = r#"{
   "model" : "opus",     // mine
   "hooks": {
      /* watches */
      "Stop": [
         {
            "hooks": [
               {"type":"command",  "command":"say done"}
            ]
         }
      ],
      "SessionStart": [
         {
            "hooks": [ ]
         }
      ],
      "PreCompact": [
         {
            "matcher": "auto",
            "hooks": [
               {"type": "command", "command": "note"}
            ]
         }
      ],
      "PreToolUse": [
         {
            "hooks": []
         }
      ],
      "PostToolBatch": [
         1
      ],
      "UserPromptSubmit": [
         {
            "hooks": "?"
         }
      ],
      "SessionEnd": [
         {
         }
      ]
   }
}"#;
    let with = installed(given);
    assert_eq!(remove(&with, None).unwrap(), given);
    assert_eq!(installed(&with), with);
    let mut left = with.lines();
    for line in given.lines().map(|line| line.trim_end_matches([',', ' '])) {
        assert!(
            left.any(|found| found.trim_end_matches([',', ' ']) == line),
            "{line}\n{with}"
        );
    }
}

// shows: OPS-02
#[test]
fn tabs_windows_lines_a_mark_and_trailing_commas_stay_what_they_are() {
    let given = "\u{feff}{\r\n\t\"hooks\": {\r\n\t\t\"Stop\": [\r\n\t\t\t{\"hooks\": [],},\r\n\t\t],\r\n\t},\r\n}\r\n";
    let with = installed(given);
    assert_eq!(remove(&with, None).unwrap(), given);
    assert!(with.starts_with(
        "\u{feff}{\r\n\t\"hooks\": {\r\n\t\t\"Stop\": [\r\n\t\t\t{\"hooks\": [],},\r\n\t\t\t{\r\n"
    ));
    assert!(!with.replace("\r\n", "").contains('\n'));
    assert!(
        with.ends_with("statusline\",\r\n\t\t\"refreshInterval\": 5,\r\n\t},\r\n}\r\n"),
        "{with}"
    );
}

#[test]
fn one_line_becomes_several_and_keeps_its_values() {
    for given in [
        r#"{"a":1}"#,
        r#"{ "hooks": {"Stop":[{"hooks":[{"command":"x"}]}]} }"#,
        "[]",
        "{}",
    ] {
        let Ok(with) = install(given, PROGRAM) else {
            assert_eq!(given, "[]");
            continue;
        };
        let back: Value = serde_json::from_str(&remove(&with.text, None).unwrap()).unwrap();
        assert_eq!(back, serde_json::from_str::<Value>(given).unwrap());
    }
}

// ── What ekiden has installed before ──────────────────────────────────────────────────────────

// shows: OPS-02
#[test]
fn an_older_guard_is_brought_up_to_date_and_nothing_fires_twice() {
    let old = r#"{"hooks": {
        "Stop": [
            {"hooks": [{"command": "/old/place/ekiden hook Stop", "timeout": 3}, {"command": "mine"}]},
            {"hooks": [{"command": "ekiden-0.1 hook Stop"}]}
        ],
        "PreCompact": [{"matcher": "auto", "hooks": [{"command": "ekiden hook Stop"}]}],
        "PostToolUse": [{"hooks": [{"command": "ekiden hook PostToolUse"}]}]
    }, "statusLine": {"type": "command", "command": "'/old place/ekiden' statusline --wrap 'date +%H'"}}"#;
    let new = installed(old);
    expect![[r#"{"hooks":{"PreCompact":[{"hooks":[{"command":"! command -v /opt/ekiden >/dev/null || exec /opt/ekiden hook PreCompact","timeout":60,"type":"command"}]}],"Stop":[{"hooks":[{"command":"! command -v /opt/ekiden >/dev/null || exec /opt/ekiden hook Stop","timeout":3},{"command":"mine"}]}]},"statusLine":{"command":"! command -v /opt/ekiden >/dev/null || exec /opt/ekiden statusline --wrap 'date +%H' ; eval 'date +%H'","type":"command"}}"#]]
        .assert_eq(&in_short(&new));
    assert!(!new.contains("PostToolUse\""));
    assert_eq!(installed(&new), new);
    let without: Value = serde_json::from_str(&remove(&new, None).unwrap()).unwrap();
    assert_eq!(
        without,
        json!({"hooks": {"Stop": [{"hooks": [{"command": "mine"}]}]},
            "statusLine": {"type": "command", "command": "date +%H"}})
    );
}

// shows: OPS-02
#[test]
fn only_what_ekiden_installs_is_taken_for_ours() {
    let hook = |program: &str, event: &str| {
        Some(GuardCommand::Hook {
            program: program.to_owned(),
            event: event.to_owned(),
        })
    };
    for (command, expected) in [
        ("ekiden hook Stop", hook("ekiden", "Stop")),
        ("'/a b/ekiden' hook Stop", hook("/a b/ekiden", "Stop")),
        ("/o/ekiden-1.2 hook Other", hook("/o/ekiden-1.2", "Other")),
        (
            "! command -v ekiden >/dev/null || exec ekiden hook Stop",
            hook("ekiden", "Stop"),
        ),
        ("! command -v ekiden || exec ekiden hook Stop", None),
        ("ekiden hook Stop --plugin", None),
        ("ekiden hook Stop; say done", None),
        ("A=1 ekiden hook Stop", None),
        ("ekidenly hook Stop", None),
        ("/x/ekiden/run hook Stop", None),
        ("ekiden statusline | cut -c1-80", None),
        ("ekiden 'hook Stop", None),
        ("", None),
    ] {
        assert_eq!(GuardCommand::parse(command), expected, "{command}");
    }
}

proptest! {
    #[test]
    fn a_command_is_known_again_whatever_is_in_it(
        dir in "[^\0]{0,12}", event in "[A-Za-z]{1,9}", wrapped in proptest::option::of("[^\0]{0,30}"),
    ) {
        let program = format!("/{dir}/ekiden");
        let hook = GuardCommand::Hook { program: program.clone(), event };
        prop_assert_eq!(GuardCommand::parse(&hook.text().unwrap()), Some(hook));
        let line = GuardCommand::StatusLine { program, wrapped };
        prop_assert_eq!(GuardCommand::parse(&line.text().unwrap()), Some(line));
    }
}

// ── Status lines ──────────────────────────────────────────────────────────────────────────────

// shows: UIX-06, OPS-02
#[test]
fn a_status_line_that_exists_is_wrapped_and_comes_back() {
    for command in [
        "~/.claude/line.sh",
        "printf '%s' \"$(date)\"",
        "a\nb",
        "ünïcode \u{1f600}",
    ] {
        let given = serde_json::to_string_pretty(
            &json!({"statusLine": {"type": "command", "command": command, "padding": 0}}),
        )
        .unwrap();
        let with = install(&given, PROGRAM).unwrap();
        assert_eq!(with.status_line, StatusLineFate::Wrapped);
        let settings: Value = serde_json::from_str(&with.text).unwrap();
        let line = &settings["statusLine"];
        assert_eq!(
            line.get("refreshInterval"),
            None,
            "as often as its owner meant it to be asked"
        );
        assert_eq!(
            GuardCommand::parse(line["command"].as_str().unwrap()),
            Some(GuardCommand::StatusLine {
                program: PROGRAM.to_owned(),
                wrapped: Some(command.to_owned()),
            })
        );
        assert_eq!(line["padding"], 0);
        assert_eq!(remove(&with.text, None).unwrap(), given);
        assert_eq!(
            install(&with.text, "/new/ekiden").unwrap().status_line,
            StatusLineFate::Wrapped
        );
    }
}

// shows: UIX-06
#[test]
fn ours_is_asked_for_though_nothing_happens_in_the_session() {
    let line = |text: &str| serde_json::from_str::<Value>(text).unwrap()["statusLine"].clone();
    let new = line(&install("{}", "ekiden").unwrap().text);
    assert_eq!(new["refreshInterval"], 5);
    let older = r#"{"statusLine": {"type": "command", "command": "ekiden statusline"}}"#;
    assert_eq!(line(&install(older, "ekiden").unwrap().text), new);
    let changed =
        r#"{"statusLine":{"type":"command","command":"ekiden statusline","refreshInterval":60}}"#;
    assert_eq!(
        line(&installed(changed))["refreshInterval"],
        60,
        "what a person chose stays"
    );
}

#[test]
fn a_status_line_of_another_form_stays() {
    for line in [
        r#""x""#,
        "null",
        r#"{"type":"other","command":"x"}"#,
        r#"{"type":"command"}"#,
        r#"{"type":"command","command":"\u0000"}"#,
    ] {
        let given = format!("{{\n  \"statusLine\": {line}\n}}");
        let with = install(&given, PROGRAM).unwrap();
        assert_eq!(with.status_line, StatusLineFate::Kept, "{line}");
        assert!(
            with.text.contains(&format!("\"statusLine\": {line}")),
            "{}",
            with.text
        );
        assert_eq!(remove(&with.text, None).unwrap(), given);
    }
}

// ── What is not edited ────────────────────────────────────────────────────────────────────────

// shows: OPS-02
#[test]
fn what_cannot_be_edited_without_guessing_is_refused_with_its_place() {
    let mut told = String::new();
    for text in [
        "{\n  \"a\": 1\n  \"b\": 2\n}",
        "{\n  \"ä\": tru }",
        "{\"a\": 'x'}",
        "{",
        "{} {}",
        "[]",
        "\"x\"",
        "{\n  \"hooks\": []\n}",
        "{\"hooks\": {\"Stop\": {}}}",
        "{\"hooks\": {},\n \"hooks\": {}}",
        "{\"hooks\": {\"Stop\": [], \"St\\u006fp\": []}}",
        "{\"statusLine\": {\"command\": \"a\", \"command\": \"b\"}}",
        "\u{feff}{\n\"hooks\": 1}",
    ] {
        let fault = install(text, PROGRAM).unwrap_err();
        assert_eq!(remove(text, None).unwrap_err(), fault);
        told.push_str(&format!("{text:?}\n  {fault}\n"));
    }
    expect![[r#"
        "{\n  \"a\": 1\n  \"b\": 2\n}"
          line 2, column 9: expected comma
        "{\n  \"ä\": tru }"
          line 2, column 8: unexpected word
        "{\"a\": 'x'}"
          line 1, column 7: single-quoted strings are not allowed
        "{"
          line 1, column 1: unterminated object
        "{} {}"
          line 1, column 4: text cannot contain more than one JSON value
        "[]"
          the file is not an object
        "\"x\""
          the file is not an object
        "{\n  \"hooks\": []\n}"
          `hooks` is not an object
        "{\"hooks\": {\"Stop\": {}}}"
          `hooks.Stop` is not an array
        "{\"hooks\": {},\n \"hooks\": {}}"
          `hooks` appears twice
        "{\"hooks\": {\"Stop\": [], \"St\\u006fp\": []}}"
          `Stop` appears twice
        "{\"statusLine\": {\"command\": \"a\", \"command\": \"b\"}}"
          `command` appears twice
        "\u{feff}{\n\"hooks\": 1}"
          `hooks` is not an object
    "#]]
    .assert_eq(&told);
}

/// Whichever of them an edit would change: the client uses the last one, and a person sees the first.
// shows: OPS-02, MEM-09
#[test]
fn an_entry_that_appears_twice_is_not_edited() {
    let twice = |name: &str| Err(SettingsFault::Twice { name: name.into() });
    for (text, name) in [
        (r#"{"permissions": {}, "permissions": {}}"#, "permissions"),
        (r#"{"permissions": {"allow": [], "allow": []}}"#, "allow"),
    ] {
        assert_eq!(allow_tools(text, true), twice(name));
        assert_eq!(allow_tools(text, false), twice(name));
    }
    for (list, entry) in [
        ("enabledPlugins", "ekiden-mod@ekiden-setup"),
        ("extraKnownMarketplaces", "ekiden-setup"),
    ] {
        let lists = format!("{{\"{list}\": {{}}, \"{list}\": {{}}}}");
        let entries = format!("{{\"{list}\": {{\"{entry}\": 1, \"{entry}\": 2}}}}");
        for (text, name) in [(lists, list), (entries, entry)] {
            assert_eq!(use_mod(&text, Some("/d")), twice(name));
            assert_eq!(remove(&text, None), twice(name));
        }
    }
    for (text, project, name) in [
        (
            r#"{"mcpServers": {}, "mcpServers": {}}"#,
            None,
            "mcpServers",
        ),
        (
            r#"{"mcpServers": {"ekiden": 1, "ekiden": 2}}"#,
            None,
            "ekiden",
        ),
        (
            r#"{"projects": {"/p": {}, "/p": {"mcpServers": {}}}}"#,
            Some("/p"),
            "/p",
        ),
    ] {
        assert_eq!(
            register(text, project, PROGRAM).unwrap_err(),
            twice(name).unwrap_err()
        );
        assert_eq!(unregister(text, project, 1), twice(name));
    }
}

// ── What the client sees ──────────────────────────────────────────────────────────────────────

// shows: OPS-02
#[test]
fn a_survey_sees_what_the_client_sees() {
    let with = installed("");
    let survey = Survey::read(with.as_bytes()).unwrap();
    assert_eq!(survey.programs_at("Stop").collect::<Vec<_>>(), [PROGRAM]);
    assert_eq!(survey.programs_at("PostToolUse").count(), 0);
    assert_eq!(
        (survey.programs(), survey.status_line.as_deref()),
        (vec![PROGRAM], Some(PROGRAM))
    );
    assert!(!survey.plugin);

    let other = json!({"enabledPlugins": {"x@y": true, "ekiden@here": true},
        "hooks": {"Stop": [{"hooks": [{"command": "ekiden hook PreCompact"}, {"type": "http"}, 1]}, 2], "x": 3}});
    let survey = Survey::read(other.to_string().as_bytes()).unwrap();
    assert_eq!((survey.programs(), survey.plugin), (vec![], true));
    let off = json!({"enabledPlugins": {"ekiden@here": false}}).to_string();
    assert!(!Survey::read(off.as_bytes()).unwrap().plugin);
    assert!(Survey::read(format!("\u{feff}{with}").as_bytes()).is_some());
}

#[test]
fn a_file_that_the_client_leaves_out_is_none() {
    for text in ["{// c\n}", "{\"a\": 1,}", "", "\u{ff}"] {
        assert_eq!(Survey::read(text.as_bytes()), None, "{text:?}");
    }
    assert_eq!(Survey::read(b"{\"a\": \"\xff\"}"), None);
    let at = load_fault("{\n  // why\n  \"a\": 1\n}").unwrap();
    assert_eq!(at.to_string(), "line 2, column 3");
    assert_eq!(load_fault("\u{feff}{}\n"), None);
    assert_eq!(load_fault("\n"), None);
}

// ── Any settings ──────────────────────────────────────────────────────────────────────────────

/// Some value, as settings have them.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::hash_map("[a-zA-Z ]{1,6}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Hooks of other people at some events, ours among them.
fn any_hooks() -> impl Strategy<Value = Value> {
    let event = prop_oneof![
        Just("Stop"),
        Just("PreToolUse"),
        Just("PostToolUse"),
        Just("Nope")
    ];
    let entry = prop_oneof![
        any_value(),
        "[a-z ]{1,9}".prop_map(|command| json!({"type": "command", "command": command})),
    ];
    let group = proptest::collection::vec(entry, 1..3).prop_map(|hooks| json!({ "hooks": hooks }));
    let groups = proptest::collection::vec(prop_oneof![group, any_value()], 1..3);
    proptest::collection::btree_map(event, groups, 1..4).prop_map(|events| json!(events))
}

fn any_settings() -> impl Strategy<Value = Value> {
    let others = proptest::collection::btree_map("[a-m]{1,5}", any_value(), 0..4);
    (others, proptest::option::of(any_hooks())).prop_map(|(others, hooks)| {
        let mut settings = json!(others);
        if let Some(hooks) = hooks {
            settings["hooks"] = hooks;
        }
        settings
    })
}

/// The settings over several lines, with comments between them.
fn commented(settings: &Value, every: usize) -> String {
    let pretty = serde_json::to_string_pretty(settings).unwrap();
    let lines = pretty
        .lines()
        .enumerate()
        .map(|(at, line)| match at % every {
            0 => format!("// {at}\n{line}\n"),
            _ => format!("{line}\n"),
        });
    lines.collect()
}

fn without_comments(text: &str) -> Value {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    serde_json::from_str(&lines.join("\n")).unwrap_or_else(|error| panic!("{error}: {text}"))
}

proptest! {
    // shows: OPS-02
    #[test]
    fn whatever_the_settings_are_they_come_out_as_they_went_in(settings in any_settings()) {
        let given = serde_json::to_string_pretty(&settings).unwrap();
        let with = installed(&given);
        prop_assert_eq!(&installed(&with), &with);
        prop_assert_eq!(remove(&with, None).unwrap(), given);
    }

    // shows: OPS-02
    #[test]
    fn no_comment_is_lost(settings in any_settings(), every in 1_usize..5) {
        let given = commented(&settings, every);
        let with = installed(&given);
        let back = remove(&with, None).unwrap();
        for comment in given.lines().filter(|line| line.starts_with("//")) {
            prop_assert!(with.lines().any(|line| line.trim() == comment), "{comment} {with}");
            prop_assert!(back.lines().any(|line| line.trim() == comment), "{comment} {back}");
        }
        prop_assert_eq!(without_comments(&back), settings);
    }

    #[test]
    fn no_text_makes_it_panic(text in "[\\[\\]{}:,\"/* \n\\\\a0hoksStp]{0,40}") {
        let _ = install(&text, PROGRAM);
        let _ = remove(&text, None);
        let _ = load_fault(&text);
        let _ = Survey::read(text.as_bytes());
    }

    #[test]
    fn no_cut_makes_it_panic(settings in any_settings(), at in any::<proptest::sample::Index>()) {
        let text = installed(&settings.to_string());
        let cut = text.floor_char_boundary(at.index(text.len()));
        prop_assert!(install(&text[..cut], PROGRAM).is_err() || text[..cut].trim().is_empty());
    }
}

// ── The plugin ────────────────────────────────────────────────────────────────────────────────

// shows: OPS-03
#[test]
fn the_plugin_has_the_same_hooks() {
    let hooks = GUARD_HOOKS.map(|hook| {
        let command = GuardCommand::Hook {
            program: "ekiden".to_owned(),
            event: hook.event.to_owned(),
        };
        let command = format!("{} --plugin", command.text().unwrap());
        let entry = json!({"type": "command", "command": command, "timeout": hook.timeout_secs});
        let groups = serde_json::to_string(&json!([{ "hooks": [entry] }])).unwrap();
        format!("    \"{}\": {groups}", hook.event)
    });
    let about = "Watches the context of the session. Stands aside where `ekiden setup` has installed the same hooks.";
    let text = format!(
        "{{\n  \"description\": \"{about}\",\n  \"modules\": [\"./guard.ts\"],\n  \"hooks\": {{\n{}\n  }}\n}}\n",
        hooks.join(",\n")
    );
    assert!(serde_json::from_str::<Value>(&text).is_ok());
    expect_test::expect_file!["../../../../plugin/hooks/hooks.json"].assert_eq(&text);
}

// shows: OPS-03, MEM-09
#[test]
fn the_plugin_has_the_same_server() {
    let plugin = include_str!("../../../../plugin/.mcp.json");
    let plugin: Value = serde_json::from_str(plugin).unwrap();
    let server = json!({"command": "ekiden", "args": ["mcp", "--plugin"]});
    assert_eq!(plugin, json!({"mcpServers": {"ekiden": server}}));
}

// ── The MCP server ────────────────────────────────────────────────────────────────────────────

/// A state file as the client writes it.
const STATE: &str = "{\n  \"numStartups\": 3,\n  \"projects\": {\n    \"/w\": {\n      \"mcpServers\": {},\n      \"allowedTools\": []\n    }\n  },\n  \"primaryApiKey\": \"sk\"\n}";

// shows: OPS-02, MEM-09
#[test]
fn the_server_goes_into_the_state_of_the_client_and_out_byte_for_byte() {
    let others = STATE.replace(
        "{},",
        "{\n        \"own\": {\n          \"command\": \"x\"\n        }\n      },",
    );
    for (text, project, made) in [
        (STATE, None, 1),
        (STATE, Some("/w"), 0),
        (STATE, Some("/v"), 2),
        (&*others, Some("/w"), 0),
    ] {
        let with = register(text, project, PROGRAM).unwrap();
        assert_eq!((with.made, with.taken), (made, false), "{project:?}");
        assert_eq!(
            registered(with.text.as_bytes(), project).as_deref(),
            Some(PROGRAM)
        );
        let again = register(&with.text, project, PROGRAM).unwrap();
        assert_eq!(again.text, with.text);
        let moved = register(&with.text, project, "/else/ekiden").unwrap().text;
        assert_eq!(
            registered(moved.as_bytes(), project).as_deref(),
            Some("/else/ekiden")
        );
        for with in [&with.text, &moved] {
            assert_eq!(
                unregister(with, project, made).unwrap(),
                text,
                "{project:?}"
            );
        }
    }
    assert_eq!(unregister(STATE, None, 1).unwrap(), STATE);
    let fresh = register("", None, PROGRAM).unwrap();
    assert_eq!(unregister(&fresh.text, None, fresh.made).unwrap(), "{}\n");
}

// shows: OPS-02
#[test]
fn a_state_file_on_one_line_stays_on_one_line() {
    for end in ["", "\n"] {
        let before = format!(r#"{{"said":"a \" b","projects":{{"/p":{{"allowed":[]}}}}}}{end}"#);
        for project in [None, Some("/p"), Some("/q")] {
            let with = register(&before, project, "/bin/ekiden").unwrap();
            assert!(!with.text.trim_end().contains('\n'), "{}", with.text);
            assert!(
                with.text
                    .contains(r#""ekiden":{"command":"/bin/ekiden","args":["mcp"]}"#)
            );
            assert_eq!(unregister(&with.text, project, with.made).unwrap(), before);
        }
    }
    let spread = register("{\n  \"a\": 1\n}\n", None, "/bin/ekiden").unwrap();
    assert!(spread.text.lines().count() > 5, "{}", spread.text);
}

// shows: OPS-02
#[test]
fn a_server_in_a_file_with_commas_after_last_entries_is_known_again() {
    let other = "\"other\": {\n      \"command\": \"y\",\n    },";
    let text = format!("{{\n  \"mcpServers\": {{\n    {other}\n  }},\n}}\n");
    let once = register(&text, None, PROGRAM).unwrap();
    assert_eq!(register(&once.text, None, PROGRAM), Ok(once.clone()));
    assert_eq!(unregister(&once.text, None, once.made).unwrap(), text);
}

// shows: OPS-02
#[test]
fn a_server_of_somebody_else_keeps_its_name() {
    let text = r#"{"mcpServers": {"ekiden": {"command": "road-race", "args": ["mcp"]}}}"#;
    let with = register(text, None, PROGRAM).unwrap();
    assert_eq!((with.text.as_str(), with.taken), (text, true));
    assert_eq!(unregister(text, None, 1).unwrap(), text);
    assert_eq!(registered(text.as_bytes(), None), None);
    assert!(register(r#"{"mcpServers": []}"#, None, PROGRAM).is_err());
}

// shows: OPS-02, MEM-09
#[test]
fn the_rule_that_allows_the_servers_tools_comes_once_and_goes() {
    for text in [
        "{\n  \"model\": \"opus\"\n}\n",
        "{\n  \"permissions\": {\n    \"allow\": [\"Edit\"],\n    \"deny\": []\n  }\n}\n",
        "{\n  \"permissions\": {\n    \"allow\": [\n      \"Edit\"\n    ]\n  }\n}\n",
    ] {
        let with = allow_tools(text, true).unwrap();
        assert_eq!(with.matches(TOOLS_RULE).count(), 1);
        assert_eq!(allow_tools(&with, true).unwrap(), with);
        let with = install(&with, PROGRAM).unwrap().text;
        let without = remove(&with, None).unwrap();
        assert_eq!(allow_tools(&without, false).unwrap(), text);
    }
    assert!(allow_tools(r#"{"permissions": {"allow": {}}}"#, true).is_err());
}
