//! Manifests as files: how they are read, what they name, and how their faults are told.

use crate::environment::Environment;
use crate::plan;

const PLAN: &str =
    "format = 1\nproject = \"demo\"\n[[stage]]\nid = \"A\"\nname = \"Tea\"\nprompt = \"Brew.\"\n";

fn dry(manifest: &str) -> [&str; 5] {
    ["execute", manifest, "--dry-run", "--agent", "rehearsal"]
}

// shows: PLN-06, SEC-01
#[test]
fn pipes_devices_and_directories_are_refused_and_nothing_is_waited_for() {
    let environment = Environment::new();
    environment.shell("mkfifo f.toml; mkdir d; ln -s /dev/zero zero.toml");
    for (name, what) in [
        ("f.toml", "a pipe"),
        ("d", "a directory"),
        ("/dev/zero", "a device"),
    ] {
        let said = environment.run(&dry(name)).expect(65);
        let told = format!("error: cannot read the manifest {name}: it is {what}\n");
        assert!(said.stderr.starts_with(&told), "{}", said.stderr);
    }
    environment.run(&dry("zero.toml")).expect(65);
    environment.run(&dry("gone.toml")).expect(66);
}

// shows: PLN-06, SEC-01
#[test]
fn a_manifest_that_is_too_large_is_not_read_whole() {
    let environment = Environment::new();
    environment.shell("truncate -s 100G large.toml");
    let told = |said: &str| assert!(said.contains("large.toml is larger than 32 MB\n"), "{said}");
    told(&environment.run(&dry("large.toml")).expect(65).stderr);
}

// shows: PLN-03
#[test]
fn a_manifest_comes_from_standard_input_too() {
    let environment = Environment::new();
    let yaml = "stages:\n  - {name: A, prompt: tea.md}\n";
    environment.write("tea.md", "Brew.\n");
    for name in ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        for text in [PLAN, yaml] {
            let said = environment.fed(&dry(name), text).expect(0);
            assert!(
                said.stdout.contains("Tea") || text == yaml,
                "{name}: {}",
                said.stdout
            );
        }
    }
    let said = environment.fed(&dry("-"), "format = 1\n").expect(65);
    assert!(
        said.stderr
            .starts_with("error: standard input has 2 faults\n"),
        "{}",
        said.stderr
    );
}

// shows: PLN-03, PLN-12
#[test]
fn a_diagnosis_names_standard_input_as_a_command_takes_it() {
    let environment = plan::repository();
    let failing = plan::stage("A", "retries = 0", "true", "false");
    let execute = ["execute", "-", "--agent", "rehearsal", "--yes", "-m", "1"];
    environment.fed(&execute, &plan::plan(&[failing])).expect(1);
    let diagnosis = environment.read(".ekiden/handoffs/A.md");
    assert!(diagnosis.contains("`ekiden execute - --new"), "{diagnosis}");
}

/// A cloned repository comes with links: to a directory, to a file, and one that stays inside.
// shows: SEC-09
#[test]
fn no_path_of_a_manifest_passes_a_link_out_of_the_project() {
    let environment = Environment::with_git();
    environment.shell("ln -s /etc link; ln -s /etc/passwd task.md; ln -s link/passwd doc.md");
    environment.shell("mkdir docs && echo Brew. > docs/tea.md && ln -s docs/tea.md inside.md");
    let head = "format = 1\nproject = \"p\"\narchitecture = \"doc.md\"\n[worktree]\ncopy = [\"link/hosts\"]\n";
    let stages = "[[stage]]\nid = \"A\"\nname = \"a\"\nprompt_file = \"task.md\"\n\
                  context = [\"link/passwd\", \"docs/*\", \"link/pass*\", \"inside.md\"]\n\
                  outputs = [\"link/x\"]\nvalidation = { kind = \"files\", files = [\"link/\"] }\n\
                  [[stage]]\nid = \"B\"\nname = \"b\"\nprompt_file = \"inside.md\"\n";
    environment.write("plan.toml", &format!("{head}{stages}"));
    environment.commit_all();
    insta::assert_snapshot!(environment.told(&dry("plan.toml")), @r#"
    --- standard error
    error: plan.toml has 7 faults
      line 3  architecture "doc.md" leads out of the project, to /etc/passwd
      line 5  worktree: copy "link/hosts" leads out of the project, to /etc/hosts
      line 9  stage "A": prompt "task.md" leads out of the project, to /etc/passwd
      line 10  stage "A": context "link/passwd" leads out of the project, to /etc/passwd
      line 10  stage "A": context "link/pass*" leads out of the project, to /etc
      line 11  stage "A": outputs "link/x" leads out of the project, to /etc/x
      line 12  stage "A": files "link/**" leads out of the project, to /etc
    --- exit code 65
    "#);
    assert!(environment.runs().is_empty());
}

/// Between the reading of the plan and the stage, another stage made the link.
// shows: SEC-09
#[test]
fn a_link_that_a_stage_made_shows_the_next_one_nothing_outside() {
    let environment = Environment::with_git();
    let plan = "format = 1\nproject = \"p\"\n[[stage]]\nid = \"A\"\nname = \"a\"\nprompt = '''\n- [ ] Link\n  \
                ```sh\n  ln -s /etc link\n  ```\n'''\n[[stage]]\nid = \"B\"\nname = \"b\"\nneeds = [\"A\"]\n\
                retries = 0\ncontext = [\"link/passwd\"]\nprompt = '''\n- [ ] Look\n'''\n";
    environment.git(&["config", "user.name", "Me"]);
    environment.git(&["config", "user.email", "me@example.invalid"]);
    environment.write("plan.toml", plan);
    environment.commit_all();
    let said = environment.run(&["execute", "plan.toml", "--yes", "--agent", "rehearsal"]);
    let told = "`link/passwd` leads out of the project, to /etc/passwd";
    assert!(format!("{said}").contains(told), "{said}");
    environment.shell("! grep -rq root:x .ekiden/runs/*/");
}

// shows: PLN-06
#[test]
fn faults_of_the_text_the_files_and_the_agents_are_told_together() {
    let environment = Environment::new();
    let stages = "[[stage]]\nid = \"B\"\nname = \"n\"\nagent = \"nobody\"\nretries = 99\nprompt_file = \"gone.md\"\n\
                  needs = [\"Z\"]\n";
    let text = PLAN.replacen('\n', "\narchitecture = \"gone.md\"\n", 1);
    environment.write("plan.toml", &format!("{text}{stages}"));
    insta::assert_snapshot!(environment.told(&dry("plan.toml")), @r#"
    --- standard error
    error: plan.toml has 5 faults
      line 2  architecture "gone.md" does not exist
      line 11  stage "B": there is no agent `nobody`; there are: claude, rehearsal, codex, opencode, qwen, gemini, copilot
      line 12  stage "B": retries is 99, but must be a whole number from 0 to 10
      line 13  stage "B": prompt "gone.md" does not exist
      line 14  stage "B" needs "Z", which does not exist
    --- exit code 65
    "#);
    environment.write("plan.toml", &text);
    insta::assert_snapshot!(environment.told(&dry("plan.toml")), @r#"
    --- standard error
    error: plan.toml has 1 fault
      line 2  architecture "gone.md" does not exist
    --- exit code 65
    "#);
}

// shows: PLN-05
#[test]
fn a_prompt_file_is_the_projects_and_that_of_cleave_its_pipelines() {
    let environment = Environment::new();
    let place = |name: &str| environment.dir().join(name);
    std::fs::create_dir_all(place("plans")).unwrap();
    for (dir, line) in [("", "project"), ("plans/", "beside")] {
        let text = format!("- [ ] It\n  ```sh\n  echo {line} > made\n  ```\n");
        environment.write(&format!("{dir}p.md"), &text);
    }
    let made = |manifest: &str| {
        environment
            .run(&["execute", manifest, "--agent", "rehearsal", "--yes"])
            .expect(0);
        environment.read("made")
    };
    environment.write(
        "plans/plan.toml",
        &PLAN.replace("prompt = \"Brew.\"", "prompt_file = \"p.md\""),
    );
    assert_eq!(made("plans/plan.toml"), "project\n");
    environment.write(
        "plans/pipeline.yaml",
        "stages:\n  - {name: A, prompt: p.md}\n",
    );
    assert_eq!(made("plans/pipeline.yaml"), "beside\n");
    std::fs::remove_file(place("p.md")).unwrap();
    environment.write(
        "plans/p.md",
        "- [ ] It\n  ```sh\n  echo else > made\n  ```\n",
    );
    assert_eq!(made("plans/plan.toml"), "else\n");
}

// shows: PLN-05, PLN-06
#[test]
fn a_field_of_another_format_that_may_be_a_slip_is_told_before_anything_begins() {
    let environment = Environment::new();
    environment.write("p.md", "- [ ] It\n  ```sh\n  true\n  ```\n");
    environment.write(
        "pipeline.yaml",
        "stages:\n  - name: A\n    prompt: p.md\n    verfy: make test\n",
    );
    let told = |args: &[&str]| {
        environment
            .told(args)
            .split("--- standard error\n")
            .nth(1)
            .unwrap()
            .to_owned()
    };
    insta::assert_snapshot!(told(&dry("pipeline.yaml")), @r#"
    warning: the work dir is not in a git repository: stages work in it one at a time, and nothing is merged
    warning: line 4: stage "A": "verfy" is not a field and is ignored; did you mean "verify"?
    --- exit code 0
    "#);
    let asked = told(&["execute", "pipeline.yaml", "--agent", "rehearsal"]);
    insta::assert_snapshot!(asked, @r#"
    warning: line 4: stage "A": "verfy" is not a field and is ignored; did you mean "verify"?
    warning: the work dir is not in a git repository: stages work in it one at a time, and nothing is merged
    --- exit code 0
    "#);
}
