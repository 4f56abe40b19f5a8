//! Defaults, files and agents: what a text alone does not say.

use ekiden_core::budget::Budget;
use ekiden_core::manifest::graph::Graph;

use super::*;

// shows: PLN-13, PLN-21
#[test]
fn what_the_file_leaves_out_is_filled_in() {
    let document = read(include_str!("../fixtures/own.toml"), Syntax::Toml).unwrap();
    let [first, second, third, fourth] = &document.stages[..] else {
        panic!()
    };
    assert_eq!(
        (first.part.retries, first.part.turns_max, first.sessions_max),
        (2, Some(50), 10)
    );
    assert_eq!(
        (first.part.session, first.part.session_tokens),
        (Budget::default(), Some(80_000))
    );
    assert_eq!(
        (second.task.as_str(), second.task_name.as_str()),
        ("Do as plan/models.md says.", "Models")
    );
    assert_eq!((second.part.retries, third.part.on_fail), (3, OnFail::Skip));
    assert_eq!(third.part.session.micro_usd, Some(500_000));
    assert_eq!(
        third.part.agent.as_ref().unwrap().model.as_deref(),
        Some("haiku")
    );
    assert_eq!((fourth.part.turns_max, fourth.sessions_max), (Some(80), 4));
    assert_eq!(fourth.part.agent.as_ref().unwrap().name, "nightly");
    assert!(document.stages.iter().all(|stage| stage.claim_needed));
    assert!(fourth.part.needs[1].optional && fourth.part.knowledge_apart);
    assert_eq!(Graph::of(&document.stages).order(), Some(vec![0, 1, 2, 3]));
}

// shows: PLN-11, PLN-22
#[test]
fn every_stage_passes_its_own_validation_the_projects_checks_and_has_its_outputs() {
    let document = read(include_str!("../fixtures/own.toml"), Syntax::Toml).unwrap();
    let told = |at: usize| {
        document.stages[at]
            .verification
            .as_ref()
            .unwrap()
            .in_lines()
    };
    assert_eq!(
        told(0),
        "npx tsc --noEmit\nnpm test\n# these files must exist: package.json, tsconfig.json"
    );
    assert_eq!(
        told(1),
        "npm test\nnpx tsc --noEmit\n# these files must exist: src/models/**"
    );
    let data = "jq -e 'length == 20' data/recipes.json\nnpx tsc --noEmit\nnpm test\n# these files must exist: data/recipes.json";
    assert_eq!(told(2), data);
    let page =
        "npx tsc --noEmit\nnpm test\n# these files must exist: app/**/*.tsx, app/[id]/page.tsx";
    assert_eq!(told(3), page);
}

// shows: PLN-11, PLN-21
#[test]
fn settings_fill_in_retries_and_checks_and_the_manifest_overrides_them() {
    let defaults = Defaults {
        retries: 5,
        checks: [Some("mypy .".to_owned()), None, Some("pytest".to_owned())],
        ..Defaults::default()
    };
    let told = |kind: &str, own: &str| {
        let text = format!(
            "format = 1\nproject = \"p\"\n{own}\n[[stage]]\nid = \"a\"\nname = \"a\"\nprompt = \"x\"\n\
             [stage.validation]\nkind = \"{kind}\"\n"
        );
        crate::read(&text, Syntax::Toml, &defaults, &mut crate::TextAlone)
            .map(|document| {
                let check = document.stages[0]
                    .verification
                    .as_ref()
                    .map(Verification::in_lines);
                (document.stages[0].part.retries, check.unwrap_or_default())
            })
            .map_err(|faults| faults.to_string())
    };
    let all = "mypy .\npytest".to_owned();
    assert_eq!(told("type_check", ""), Ok((5, all.clone())));
    assert_eq!(told("none", ""), Ok((5, all)));
    let own = "[validation]\ntest = \"make test\"\n";
    assert_eq!(told("test", own), Ok((5, "make test\nmypy .".to_owned())));
    let missing = told("lint", own).unwrap_err();
    assert!(missing.contains("\"lint\" has no command"), "{missing}");
}

// shows: PLN-05, PLN-11
#[test]
fn types_of_casm_run_what_casm_ran_and_only_where_they_stand() {
    let document = read(include_str!("../fixtures/casm.json"), Syntax::Json).unwrap();
    let command = |at: usize| {
        document.stages[at]
            .verification
            .as_ref()
            .unwrap()
            .command
            .as_str()
    };
    assert_eq!(
        (command(2), command(3), command(5)),
        ("npx tsc --noEmit", "npm test", "")
    );
    assert!(
        document
            .stages
            .iter()
            .all(|stage| stage.verification.as_ref().unwrap().beside.is_empty())
    );
    assert_eq!(
        document.stages[7].verification.as_ref().unwrap().files,
        ["README.md"]
    );
}

// shows: PLN-11
#[test]
fn nothing_to_check_is_no_verification() {
    let document = read(&own(&stage("a", "")), Syntax::Toml).unwrap();
    assert_eq!(document.stages[0].verification, None);
    let expected = "validation = { kind = \"command\", command = \"make\", exit_code = 3 }";
    let text = format!(
        "{}[validation]\ntest = \"make\"\n",
        own(&stage("a", expected))
    );
    let verification = read(&text, Syntax::Toml).unwrap().stages[0]
        .verification
        .clone()
        .unwrap();
    assert_eq!(
        verification.commands().collect::<Vec<_>>(),
        [("make", 3), ("make", 0)]
    );
}

// shows: PLN-05, PLN-06
#[test]
fn what_the_surroundings_cannot_answer_is_told_all_at_once() {
    let files = ["gone.md", "empty.md", "long.md", "good.md"];
    let stages: String = files
        .iter()
        .map(|file| stage(&file[..1], &format!("prompt_file = \"{file}\"")))
        .collect();
    let stages = stages
        .replace("prompt = \"p\"\n", "")
        .replacen("id = \"g\"", "id = \"h\"", 1);
    let text = own(&format!(
        "{stages}{}",
        stage("agentless", "agent = \"nobody\"")
    ));
    let told = read(&text, Syntax::Toml).unwrap_err();
    let told = format!("{}\n{told}", told.title());
    expect_test::expect![[r#"
        4 faults
          line 6  stage "h": prompt "gone.md" does not exist
          line 10  stage "e": prompt "empty.md" is empty
          line 14  stage "l": prompt "long.md" has 6001 bytes, at most 6000 fit: shorten it, make two stages of it, or name a file with the details in the context
          line 23  stage "agentless": there is no agent "nobody"
    "#]].assert_eq(&told);
}

// shows: PLN-06
#[test]
fn what_the_surroundings_cannot_answer_is_told_with_all_other_faults_where_it_stands() {
    let stages = [
        stage("a", "agent = \"nobody\"\nneeds = [\"z\"]"),
        stage("b c", "prompt_file = \"gone.md\"\nretries = 11").replace("prompt = \"p\"\n", ""),
        stage("c", "model = \"haiku\"\n\nagent = \"nobody\""),
    ];
    let text = own(&stages.concat()).replacen("\n", "\narchitecture = \"gone.md\"\n", 1);
    let told = read(&text, Syntax::Toml).unwrap_err();
    let told = format!("{}\n{told}", told.title());
    expect_test::expect![[r#"
        7 faults
          line 2  architecture "gone.md" does not exist
          line 8  stage "a": there is no agent "nobody"
          line 9  stage "a" needs "z", which does not exist
          line 11  id "b c" is not a stage id (letters, digits, `-`, `_`, `.`; at most 64, the first a letter, a digit or `_`)
          line 13  stage "b c": prompt "gone.md" does not exist
          line 14  stage "b c": retries is 11, but must be a whole number from 0 to 10
          line 21  stage "c": there is no agent "nobody"
    "#]].assert_eq(&told);
    let missing = "stages:\n  - name: a\n    verify: x\n";
    let told = read(missing, Syntax::Yaml).unwrap_err().to_string();
    assert_eq!(
        told, "  line 2  stage \"a\": \"prompt\" is missing\n",
        "a file that is not named is not sought"
    );
}

// shows: PLN-05
#[test]
fn the_architecture_of_casm_is_the_first_that_is_there() {
    let casm = include_str!("../fixtures/casm.json");
    let named = |name: &str| casm.replacen("\"./architecture.md\"", name, 1);
    let followed = |text: &str| {
        let document = read(text, Syntax::Json).unwrap();
        let architecture = document.architecture.unwrap();
        (architecture.name, architecture.summary)
    };
    let usual = || {
        (
            "architecture.md".to_owned(),
            "As architecture.md says.".to_owned(),
        )
    };
    assert_eq!(followed(&named("\"design.md\"")).0, "design.md");
    for elsewhere in ["\"gone.md\"", "\"/srv/p/architecture.md\"", "null"] {
        assert_eq!(followed(&named(elsewhere)), usual(), "{elsewhere}");
    }
    let odd = read(&named("\"odd.md\""), Syntax::Json)
        .unwrap_err()
        .to_string();
    assert_eq!(odd, "  line 7  architecture \"odd.md\" is not a file\n");
    let ours = format!(
        "architecture = \"docs/architecture.md\"\n{}",
        own(&stage("a", ""))
    );
    let architecture = good(&ours, Syntax::Toml).architecture.unwrap();
    assert_eq!(architecture.name, "docs/architecture.md");
}
