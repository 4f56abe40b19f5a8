//! What agents do to the worktrees and branches of their stages, and what of it reaches the whole.
//!
//! The agent is a script: the first session of a stage runs the stage's own script, the second its second
//! one, and each says all is done, whatever is.

use rustix::process::Signal;

use crate::environment::Environment;
use crate::processes::expect_nothing_alive;
use crate::running::{Running, Said, wait_until};

const AGENT: &str = r#"
cat > /dev/null
tree=$(git rev-parse --show-toplevel)
stage=${tree##*-}
count=$SCRIPTS/$stage.count
echo >> "$count"
script=$SCRIPTS/$stage.$(($(wc -l < "$count")))
[ -e "$script" ] && sh -e "$script"
to=$EKIDEN_HANDOFF
printf '%s\n' 'STATUS: ALL_COMPLETE' '' '## Done' '' "its part, number $(wc -l < "$count")" '' '## Stopped at' '' \
  'nothing is half done' '' '## Issues' '' 'none' > "$to/PROGRESS.md"
printf '%s\n' '## Task' '' "the part of $stage" '' '## State' '' "All of it is there after so many sessions:" \
  "$(wc -l < "$count"). Nothing else is to be done in this stage as far as anybody knows." '' '## Resume at' '' \
  'nothing' '' '## What works' '' 'sh' '' '## What to avoid' '' 'nothing' '' '## How to verify' '' 'look' > "$to/NEXT_PROMPT.md"
printf '%s\n' '## Core Knowledge' '' "- Stage $stage is a script." > "$to/KNOWLEDGE.md"
"#;

struct Fixture {
    environment: Environment,
    plan: String,
}

impl Fixture {
    fn new(setup: &str) -> Self {
        let environment = Environment::with_git();
        for (key, value) in [
            ("user.name", "Test"),
            ("user.email", "test@example.invalid"),
        ] {
            environment.git(&["config", key, value]);
        }
        let scripts = environment.path("scripts");
        std::fs::create_dir(&scripts).unwrap();
        let environment = environment.with("SCRIPTS", scripts.to_str().unwrap());
        environment.script("agent.sh", AGENT);
        environment.shell("mv agent.sh ../scripts/agent.sh; printf 'base\\n' > base.txt");
        environment.shell(setup);
        environment.commit_all();
        Self {
            environment,
            plan: "format = 1\nproject = \"merges\"\n".to_owned(),
        }
    }

    /// One more stage, whose sessions run these scripts.
    fn stage(mut self, id: &str, sessions: &[&str]) -> Self {
        for (at, script) in sessions.iter().enumerate() {
            std::fs::write(
                self.environment
                    .path("scripts")
                    .join(format!("{id}.{}", at + 1)),
                script,
            )
            .unwrap();
        }
        self.plan.push_str(&format!(
            "\n[[stage]]\nid = \"{id}\"\nname = \"Stage {id}\"\nprompt = \"Do it.\"\nretries = 0\n\
             validation = {{ kind = \"command\", command = \"true\" }}\n"
        ));
        self
    }

    /// All stages are validated by this.
    fn checked_by(mut self, command: &str) -> Self {
        self.plan = self
            .plan
            .replace("command = \"true\"", &format!("command = '{command}'"));
        self
    }

    fn run(&self) -> Said {
        self.start().end()
    }

    /// The same in a directory of the repository.
    fn run_in(&self, dir: &str) -> Said {
        self.environment.shell(&format!("mkdir -p {dir}"));
        self.start_in(dir).end()
    }

    fn start(&self) -> Running {
        self.start_in(".")
    }

    fn start_in(&self, dir: &str) -> Running {
        let plan = self.environment.path("plan.toml");
        std::fs::write(&plan, &self.plan).unwrap();
        let agent = self.environment.path("scripts/agent.sh");
        let (plan, agent) = (plan.to_str().unwrap(), agent.to_str().unwrap());
        self.environment.start(&[
            "execute",
            plan,
            "-d",
            dir,
            "--yes",
            "--agent-command",
            agent,
        ])
    }

    /// Nothing of a conflict is in what the user has.
    fn expect_no_marks(&self, said: &Said) {
        self.environment
            .shell("! git grep -q -e '^<<<<<<<' -e '^=======$' -e '^>>>>>>>' main");
        assert!(
            said.stdout
                .contains("B  failed: it does not merge with other stages"),
            "{said}"
        );
        // It was given back twice, and the third time it was not.
        assert_eq!(
            said.stdout.matches("it goes back to be fixed").count(),
            2,
            "{said}"
        );
    }
}

// shows: PLN-08
#[test]
fn conflicts_that_an_agent_left_are_never_merged() {
    let cases: [(&str, &str, &[&str]); 7] = [
        ("true", "n", &[]),
        ("true", " lead and trail ", &[]),
        ("true", "two\nlines", &[]),
        (
            "echo '* conflict-marker-size=20' > .gitattributes",
            "n",
            &[],
        ),
        ("echo 'n -diff' > .gitattributes", "n", &[]),
        ("true", "n", &["git mv n moved; git commit -qm moved"]),
        (
            "git config merge.conflictStyle diff3",
            "n",
            &["sed -i '/^<<<<<<< /d' n"],
        ),
    ];
    for (setup, name, then) in cases {
        let write = |text: &str| format!("printf '{text}\\n' > '{name}'");
        let (ours, theirs) = (write("a"), format!("sleep 0.4; {}", write("b")));
        let sessions = [&[theirs.as_str()], then].concat();
        let fixture = Fixture::new(setup)
            .stage("A", &[&ours])
            .stage("B", &sessions);
        let said = fixture.run().expect(1);
        fixture.expect_no_marks(&said);
    }
}

// shows: PLN-08
#[test]
fn an_output_that_git_ignores_is_told_before_the_plan_begins_and_to_the_stage() {
    let make = "mkdir dist; echo 1 > dist/x";
    let mend = "grep -rq 'git ignores it (.gitignore:2), so' $EKIDEN_RELAY; git add --force dist/x";
    let mut fixture = Fixture::new("printf '#\\ndist/\\n' > .gitignore").stage("A", &[make, mend]);
    fixture.plan.push_str("outputs = [\"dist/**\"]\n");
    let said = fixture.run().expect(0);
    let warned = "A: git ignores its output `dist/` (.gitignore:2)";
    assert!(said.stderr.contains(warned), "{said}");
    fixture
        .environment
        .shell("git cat-file -e main:dist/x; test ! -e ../scripts/A.3");
}

// shows: PLN-08
#[test]
fn a_checkout_of_the_branch_with_what_is_merged_moves_with_it() {
    let look = "here=$PWD; cd \"$SCRIPTS/../project\"; git switch -q $(git for-each-ref \
         --format='%(refname:short)' 'refs/heads/ekiden/????????'); cd \"$here\"; echo 2 > b";
    let mut fixture = Fixture::new("true")
        .stage("A", &["echo 1 > a"])
        .stage("B", &[look]);
    fixture.plan.push_str("needs = [\"A\"]\n");
    let said = fixture.run().expect(5);
    assert!(
        said.stdout
            .contains("next       git switch main && git merge ekiden/"),
        "{said}"
    );
    fixture
        .environment
        .shell("test -z \"$(git status --porcelain)\"; test -e a -a -e b");

    let gone = "git worktree add -q ../gone $(git for-each-ref \
         --format='%(refname:short)' 'refs/heads/ekiden/????????'); rm -r ../gone; echo 2 > b";
    let mut fixture = Fixture::new("true")
        .stage("A", &["echo 1 > a"])
        .stage("B", &[gone]);
    fixture.plan.push_str("needs = [\"A\"]\n");
    fixture.run().expect(0);
    assert!(fixture.environment.exists("b"));

    let in_the_way = format!("{look}; echo mine > \"$SCRIPTS/../project/b\"");
    let mut fixture = Fixture::new("true")
        .stage("A", &["echo 1 > a"])
        .stage("B", &[&in_the_way]);
    fixture.plan.push_str("needs = [\"A\"]\n");
    let said = fixture.run().expect(1);
    assert!(
        said.stdout
            .contains("failed: it cannot be merged: switch to another branch in "),
        "{said}"
    );
    assert_eq!(fixture.environment.read("b"), "mine\n");
}

/// Each of two stages passes alone, and both together do not: whoever is merged last is told and mends it, or
/// ends as failed, and the whole stays as it was.
// shows: PLN-08
#[test]
fn a_validation_that_fails_on_the_merge_goes_to_a_session_and_then_to_the_user() {
    let both = |then: &[&str]| {
        // B is merged behind A.
        let wait = "until git log --all --format=%s | grep -q '^ekiden: A '; do sleep 0.1; done";
        let second = format!("{wait}; echo b > b.txt");
        let sessions = [&[second.as_str()], then].concat();
        Fixture::new("true")
            .stage("A", &["echo a > a.txt"])
            .stage("B", &sessions)
            .checked_by("! [ -e a.txt ] || ! [ -e b.txt ] || { echo one too many; exit 1; }")
    };
    let mended = both(&["cat a.txt b.txt > both.txt; rm a.txt b.txt"]);
    let said = mended.run().expect(0);
    assert!(said.stdout.contains("3 sessions"), "{said}");
    assert_eq!(mended.environment.read("both.txt"), "a\nb\n");
    assert!(!mended.environment.exists("b.txt"));
    let prompt = mended
        .environment
        .run_dir()
        .join("stages/B/sessions/2/prompt.md");
    let prompt = std::fs::read_to_string(prompt).unwrap();
    assert!(prompt.contains("¦ one too many"), "{prompt}");

    let left = both(&[]);
    let said = left.run().expect(1);
    assert!(
        said.stdout
            .contains("B  failed: nothing changed in 3 sessions in a row"),
        "{said}"
    );
    let whole = format!("ekiden/{}", left.environment.runs()[0]);
    let files = left
        .environment
        .git(&["ls-tree", "--name-only", &whole, "--", "a.txt", "b.txt"]);
    assert_eq!(files, "a.txt\n");
}

/// The hook of a repository that wants no `bad` in its files.
fn with_hook(hooks: &str, name: &str) -> Fixture {
    let hook =
        "! git grep --cached -q bad -- a.txt && exit\necho line 3: no bad words >&2\nexit 3\n";
    let fixture = Fixture::new("true");
    fixture.environment.script(&format!("{hooks}/{name}"), hook);
    fixture
}

// shows: PLN-08, REL-18
#[test]
fn what_a_hook_refuses_goes_to_a_session_and_then_to_the_user() {
    let mended = with_hook(".git/hooks", "pre-commit")
        .stage("A", &["echo bad > a.txt", "echo good > a.txt"]);
    let said = mended.run().expect(0);
    assert!(
        said.stdout
            .contains("cannot be committed: a hook refused it; it goes back to be fixed"),
        "{said}"
    );
    assert_eq!(mended.environment.read("a.txt"), "good\n");
    let prompt = mended
        .environment
        .run_dir()
        .join("stages/A/sessions/2/prompt.md");
    let prompt = std::fs::read_to_string(prompt).unwrap();
    assert!(
        prompt.contains("# What the hook said\n\n¦ line 3: no bad words\n"),
        "{prompt}"
    );

    // The hook is in the tree, and git is told of it there.
    let left = with_hook("hooks", "pre-commit").stage("A", &["echo bad > a.txt"]);
    left.environment
        .shell("git add hooks && git commit -qm hooks && git config core.hooksPath hooks");
    let said = left.run().expect(1);
    assert!(
        said.stdout
            .contains("A  failed: it cannot be merged: a hook of the repository refused"),
        "{said}"
    );
    assert!(said.stdout.contains("3 sessions"), "{said}");
    let diagnosis = left.environment.read(".ekiden/handoffs/A.md");
    assert!(
        diagnosis.contains("## What the hook said\n\n> line 3: no bad words\n"),
        "{diagnosis}"
    );
}

/// No session can mend what git itself refuses, though there is a hook, nor a message that it does not write.
// shows: PLN-08
#[test]
fn what_git_refuses_goes_to_the_user_at_once() {
    let script =
        "echo good > a.txt; git config --unset user.name; git config user.useConfigOnly true";
    let fixture = with_hook(".git/hooks", "pre-commit").stage("A", &[script]);
    let said = fixture.run().expect(1);
    assert!(
        said.stdout
            .contains("A  failed: it cannot be merged: `git commit` failed: "),
        "{said}"
    );
    assert!(said.stdout.contains("1 session "), "{said}");

    let message = with_hook(".git/hooks", "commit-msg").stage("A", &["echo bad > a.txt"]);
    message
        .environment
        .script(".git/hooks/pre-commit", "exit 0\n");
    let said = message.run().expect(1);
    assert!(
        said.stdout
            .contains("cannot be merged: the `commit-msg` hook refused ekiden's message; give it"),
        "{said}"
    );
    assert!(said.stdout.contains("no bad words"), "{said}");
    assert!(said.stdout.contains("1 session "), "{said}");
}

/// The commits of sessions, of a stage's rest, of its merge and of what it is given have the subject that the user wants.
// shows: PLN-08, REL-18
#[test]
fn every_commit_of_a_plan_has_the_subject_of_the_settings() {
    let wait = "until git log --all --format=%s | grep -q '^chore: ekiden: A '; do sleep 0.1; done";
    let second = format!("{wait}; echo b > n");
    let mut fixture = Fixture::new("true")
        .stage("A", &["echo a > n"])
        .stage("B", &[&second, "echo ab > n"]);
    fixture.environment = fixture
        .environment
        .with("EKIDEN_COMMIT_SUBJECT", "chore: {subject}")
        .with("EKIDEN_GIT_COMMIT", "true");
    let lint = "grep -q '^chore: ekiden: ' \"$1\"\n";
    fixture.environment.script(".git/hooks/commit-msg", lint);
    fixture.run().expect(0);
    let log = fixture.environment.git(&["log", "--format=%s", "main"]);
    let others = log.lines().filter(|subject| *subject != "begin");
    assert!(
        { others }.all(|subject| subject.starts_with("chore: ekiden: ")),
        "{log}"
    );
    assert!(
        log.contains("chore: ekiden: changes of other stages, with conflicts\n"),
        "{log}"
    );
}

/// The checks of both sides decide on a resolved conflict: taking one side whole does not make the run complete.
// shows: PLN-08
#[test]
fn who_resolves_a_conflict_cannot_drop_what_the_other_stage_made() {
    let resolved = |then: &[&str]| {
        let wait = "until git log --all --format=%s | grep -q '^ekiden: A '; do sleep 0.1; done";
        let second = format!("{wait}; echo b > n; echo b > b.txt");
        let taken = "echo b > n; git rm -q a.txt";
        let sessions = [&[second.as_str(), taken], then].concat();
        let mut fixture = Fixture::new("true")
            .stage("A", &["echo a > n; echo a > a.txt"])
            .stage("B", &sessions);
        // That of A alone, and not what both have in common.
        let check = "command = \"test -f a.txt; exit $(( $? + 3 ))\", exit_code = 3";
        fixture.plan = fixture.plan.replacen("command = \"true\"", check, 1);
        fixture
    };
    let mended = resolved(&["git checkout -q HEAD^2 -- a.txt"]);
    let said = mended.run().expect(0);
    assert!(said.stdout.contains("4 sessions"), "{said}");
    assert_eq!(mended.environment.read("a.txt"), "a\n");
    assert_eq!(mended.environment.read("n"), "b\n");

    let left = resolved(&[]);
    let said = left.run().expect(1);
    let whole = format!("ekiden/{}", left.environment.runs()[0]);
    let kept = left.environment.git(&["show", &format!("{whole}:a.txt")]);
    assert_eq!(kept, "a\n", "{said}");
}

// shows: PLN-08
#[test]
fn a_file_that_holds_such_marks_by_right_can_be_put_right() {
    let text = "printf '<<<<<<< HEAD\\nis how it begins\\n' > n";
    let theirs = format!("sleep 0.4; {text}; echo b >> n");
    let mend = format!("{text}; printf 'a\\nb\\n' >> n");
    let fixture = Fixture::new("true")
        .stage("A", &["echo a > n"])
        .stage("B", &[&theirs, &mend]);
    fixture.run().expect(0);
    assert_eq!(
        fixture.environment.read("n"),
        "<<<<<<< HEAD\nis how it begins\na\nb\n"
    );
}

// shows: PLN-08
#[test]
fn where_git_leaves_no_marks_a_stage_is_told_and_what_it_has_stands() {
    let fixture = Fixture::new("true")
        .stage("A", &["git rm -q base.txt"])
        .stage("B", &["sleep 0.4; echo b >> base.txt"]);
    let said = fixture.run().expect(0);
    assert_eq!(
        said.stdout.matches("it goes back to be fixed").count(),
        1,
        "{said}"
    );
    assert_eq!(fixture.environment.read("base.txt"), "base\nb\n");
}

/// A copy of a project has the original's worktrees in its log.
// shows: PLN-08, RUN-11
#[test]
fn a_copied_project_leaves_the_worktrees_to_the_original_and_a_moved_one_takes_them() {
    let fixture = Fixture::new("true");
    let gate = fixture.environment.path("begun");
    let work = format!("echo made > n; touch {}; sleep 60", gate.display());
    let fixture = fixture.stage("A", &[&work, "true"]);
    let environment = &fixture.environment;
    let run = fixture.start();
    wait_until("the stage's work", || gate.exists());
    run.signal(Signal::KILL);
    run.end().expect(137);
    expect_nothing_alive(environment);
    environment.shell("cp -a . ../copy");
    let copy = environment.path("copy").to_string_lossy().into_owned();
    let resume = ["resume", "--work-dir", &copy];
    let said = environment.run(&resume).expect(74);
    let told = "is a worktree of another repository, ";
    assert!(said.stderr.contains(told), "{said}");
    environment.shell("mv .git ../gone");
    environment.run(&resume).expect(0);
    environment.shell("test made = $(git -C ../copy show main:n)");
}

/// The conflict is on the stage's branch, and the log does not have it yet.
// shows: PLN-08, RUN-11
#[test]
fn a_conflict_that_a_crash_cut_off_is_told_all_the_same() {
    let wait = "until git log --all --format=%s | grep -q '^ekiden: A '; do sleep 0.1; done";
    for (ours, theirs, mend) in [
        ("echo a > n", "echo b > n", "printf 'a\nb\n' > n"),
        ("git rm -q base.txt", "echo b >> base.txt", "echo both > n"),
    ] {
        let fixture = Fixture::new("true")
            .stage("A", &[ours])
            .stage("B", &[&format!("{wait}; {theirs}"), mend]);
        let environment = &fixture.environment;
        let gate = environment.path("given");
        environment.script(
            ".git/hooks/reference-transaction",
            &format!(
                "[ $1 = committed ] || exit 0\nwhile read -r old new ref; do\n  \
                 git log -1 --format=%s $new 2>&1 | grep -q 'with conflicts$' || continue\n  \
                 [ -e {0} ] || {{ touch {0}; sleep 60; }}\ndone\nexit 0\n",
                gate.display()
            ),
        );
        let run = fixture.start();
        wait_until("the conflict on the branch", || gate.exists());
        run.signal(Signal::KILL);
        run.end().expect(137);
        expect_nothing_alive(environment);
        environment.run(&["resume"]).expect(0);
        environment.shell("! git grep -q -e '^<<<<<<<' -e '^>>>>>>>' main");
        assert!(environment.exists("n"), "session 2 of B was told");
    }
}

// shows: PLN-08
#[test]
fn what_a_stage_does_elsewhere_than_on_its_branch_is_merged() {
    for elsewhere in ["git checkout -q -b feature", "git checkout -q --detach"] {
        let work = format!(
            "{elsewhere}; echo hello > f1; git add f1; git commit -qm mine; echo more > f2"
        );
        let fixture = Fixture::new("true").stage("A", &[&work]);
        fixture.run().expect(0);
        assert_eq!(fixture.environment.read("f1"), "hello\n", "{elsewhere}");
        assert_eq!(fixture.environment.read("f2"), "more\n", "{elsewhere}");
        if elsewhere.ends_with("feature") {
            let last = fixture
                .environment
                .git(&["log", "-1", "--format=%s", "feature"]);
            assert_eq!(
                last, "mine\n",
                "a branch that is not the stage's stays where it is"
            );
        }
    }
}

// shows: PLN-08
#[test]
fn a_tag_is_not_taken_for_the_branch_of_that_name() {
    let tags = "b=$(git branch --show-current); git tag $b; git tag ${b%-A}; echo a > a";
    let fixture = Fixture::new("true")
        .stage("A", &[tags])
        .stage("B", &["echo b > b"]);
    let said = fixture.run().expect(0);
    assert!(!said.stderr.contains("warning"), "{said}");
    assert_eq!(fixture.environment.read("a"), "a\n", "{said}");
    assert_eq!(fixture.environment.read("b"), "b\n", "{said}");
}

/// All worktrees of a repository share one stash.
// shows: REL-14
#[test]
fn a_stash_counts_only_for_the_stage_that_made_it() {
    let stashed = "until git stash list | grep -q .; do sleep 0.1; done; echo b > b";
    let fixture = Fixture::new("true")
        .stage("A", &["echo a > base.txt; git stash -q; echo a > a"])
        .stage("B", &[stashed]);
    let said = fixture.run().expect(0);
    let told = said.stdout.matches("git's stash has 1 new entry").count();
    assert_eq!(told, 1, "{said}");
}

// shows: PLN-08
#[test]
fn a_conflict_without_a_merge_goes_back_to_the_stage() {
    let conflict = "echo a > base.txt; git stash -q; echo b > base.txt; git commit -qam b; git stash pop -q || true";
    let fixture = Fixture::new("true").stage("A", &[conflict, "echo both > base.txt"]);
    let said = fixture.run().expect(0);
    assert!(said.stdout.contains("it goes back to be fixed"), "{said}");
    assert_eq!(fixture.environment.read("base.txt"), "both\n");
}

// shows: PLN-08
#[test]
fn a_rebase_or_a_bisect_under_way_is_not_taken_for_an_end() {
    let rebase = "echo a > n; git add n; git commit -qm a; echo b > n; git commit -qam b; \
                  GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase -q -i HEAD~2 || true";
    for (what, work) in [
        ("rebase", rebase),
        ("bisect", "git bisect start; echo a > n"),
    ] {
        let fixture = Fixture::new("true").stage("A", &[work]);
        let said = fixture.run().expect(1);
        let told = format!("the stage left a {what} unfinished in ");
        assert!(said.stdout.contains(&told), "{said}");
    }
}

// shows: PLN-08
#[test]
fn what_git_is_told_not_to_show_is_merged_all_the_same() {
    let hidden = "git config status.showUntrackedFiles no";
    let fixture = Fixture::new(hidden).stage("A", &["mkdir -p sub; echo new > sub/new"]);
    fixture.run().expect(0);
    assert_eq!(fixture.environment.read("sub/new"), "new\n");
}

// shows: PLN-08
#[test]
fn a_file_that_a_stage_takes_out_of_git_is_out() {
    let fixture = Fixture::new("echo secret > .env").stage(
        "A",
        &["git rm -q --cached .env; echo .env > .gitignore; echo a > a"],
    );
    fixture.run().expect(0);
    assert_eq!(fixture.environment.git(&["ls-files", ".env", "a"]), "a\n");
}

// shows: PLN-08
#[test]
fn a_repository_within_a_stage_is_told_and_not_lost() {
    let nested = "mkdir sub; cd sub; git init -q; echo precious > p; git add p; \
                  git -c user.name=T -c user.email=t@e.i commit -qm p";
    let outside = Fixture::new("true").stage("A", &[&format!("echo a > a.txt; cd ..; {nested}")]);
    let fixture = Fixture::new("true").stage("A", &[nested]);
    for said in [outside.run_in("app"), fixture.run()] {
        let told = "`sub/` is a separate git repository";
        assert!(said.expect(1).stdout.contains(told));
    }
    let trees = fixture
        .environment
        .git(&["worktree", "list", "--porcelain"]);
    let tree = trees
        .lines()
        .filter_map(|line| line.strip_prefix("worktree "))
        .find(|tree| tree.ends_with("-A"));
    assert!(std::path::Path::new(tree.unwrap()).join("sub/p").exists());
}

// shows: PLN-08, PLN-12
#[test]
fn a_worktree_that_its_agent_removed_is_made_again_and_the_others_work_on() {
    let gone =
        "echo k > kept; git add kept; git commit -qm kept; tree=$PWD; cd /; rm -rf \"$tree\"";
    let all_gone = "tree=$PWD; branch=$(git branch --show-current); cd \"$SCRIPTS/../project\"; \
                    git worktree remove --force \"$tree\"; git branch -qD \"$branch\"";
    let fixture = Fixture::new("true")
        .stage("A", &["sleep 1; echo a > a.txt"])
        .stage("B", &[gone, "echo b > b.txt"])
        .stage("C", &[all_gone, "echo c > c.txt"]);
    let said = format!("{}", fixture.run().expect(0));
    let remade = "the worktree of B was gone and is made again";
    assert!(said.contains(remade), "{said}");
    assert!(said.contains("A  done · 1 session ·"), "{said}");
    let all = ["HEAD:a.txt", "HEAD:b.txt", "HEAD:kept", "HEAD:c.txt"];
    fixture.environment.git(&[&["show"][..], &all].concat());
}

// shows: PLN-25
#[test]
fn a_worktree_that_is_made_again_has_what_the_prompt_names() {
    let gone = "tree=$PWD; cd /; rm -rf \"$tree\"";
    let read = "cat .ekiden/context/notes.md > a.txt";
    let mut fixture = Fixture::new("true").stage("A", &[gone, read]);
    fixture.plan.push_str("context = [\"notes.md\"]\n");
    fixture.environment.write("notes.md", "noted\n");
    fixture.run().expect(0);
    assert_eq!(fixture.environment.git(&["show", "HEAD:a.txt"]), "noted\n");
}

// shows: PLN-26
#[test]
fn the_last_line_works_after_the_branch_was_renamed_and_status_repeats_it() {
    let rename = "git -C \"$SCRIPTS/../project\" branch -m main trunk; echo a > a.txt";
    let fixture = Fixture::new("true").stage("A", &[rename]);
    let said = fixture.run().expect(5);
    let command = said.stdout.lines().last().unwrap();
    let command = command.trim_start_matches("next").trim();
    let told = fixture.environment.run(&["status"]).stdout;
    assert!(
        told.contains("complete, not delivered") && told.contains(command),
        "{told}"
    );
    let json = fixture.environment.run(&["status", "--json"]).stdout;
    let state = r#""state":"complete_not_delivered""#;
    assert!(json.contains(state), "{json}");
    fixture.environment.shell(command);
    fixture.environment.git(&["show", "trunk:a.txt"]);
}

// shows: PLN-25
#[test]
fn a_plan_works_in_a_directory_of_which_nothing_is_committed() {
    let fixture = Fixture::new("true").stage("A", &["echo a > a.txt"]);
    fixture.run_in("new").expect(0);
    fixture.environment.git(&["show", "HEAD:new/a.txt"]);
}

// shows: PLN-08, PLN-15
#[test]
fn what_stages_change_outside_the_work_dir_is_reported_and_known_in_conflicts() {
    let done = |stage: &str| format!("git log --all --format=%s | grep -q '^ekiden: {stage} '");
    let wait = format!("until {} && {}; do sleep 0.1; done", done("A"), done("C"));
    let both = "printf 'a\\nb\\n' > ../lock";
    let mut fixture = Fixture::new("true")
        .stage("B", &[&format!("{wait}; echo b > ../lock"), both])
        .stage("C", &["echo c > lock"])
        .stage("A", &["echo a > ../lock; echo a > a.txt"]);
    fixture.plan.push_str("outputs = [\"a.txt\"]\n");
    let said = fixture.run_in("app").expect(0);
    let environment = &fixture.environment;
    let told = "changed files that it had not declared: ../lock";
    assert!(said.stdout.contains(told), "{said}");
    let result = environment.read("app/.ekiden/handoffs/A.md");
    let files = "## Files changed\n\n- a.txt\n- ../lock\n";
    assert!(result.contains(files), "{result}");
    environment.git(&["show", "HEAD:lock", "HEAD:app/lock"]);
    environment.shell(
        "cd app/.ekiden/runs/*/stages/B/sessions/2; grep -q '# Stage A: ' prompt.md; \
         ! grep '# Stage C: ' prompt.md",
    );
}

/// By default, git waits for the disk for little of it.
// shows: DUR-01, PLN-08
#[test]
fn what_git_commits_for_a_plan_is_synced() {
    let fixture = Fixture::new("true").stage("A", &["echo a > a.txt"]);
    let synced = fixture.environment.path("synced");
    fixture.environment.script(
        ".git/hooks/reference-transaction",
        &format!(
            "[ $1 = committed ] || exit 0\nwhile read -r old new ref; do\n  \
             echo \"$ref $(git config core.fsync)\" >> {}\ndone\n",
            synced.display()
        ),
    );
    fixture.run().expect(0);
    let synced = std::fs::read_to_string(synced).unwrap();
    let mut ours = synced
        .lines()
        .filter(|line| line.starts_with("refs/heads/"));
    assert!(ours.clone().count() > 3, "{synced}");
    assert!(
        ours.all(|line| line.ends_with(" committed,reference")),
        "{synced}"
    );
}

// shows: PLN-08
#[test]
fn commits_in_a_submodule_are_not_removed_with_the_worktree() {
    let add = "git init -q ../other && git -C ../other -c user.name=T -c user.email=t@e.i commit -q --allow-empty -m o \
               && git -c protocol.file.allow=always submodule --quiet add ../other other && echo x > HEAD";
    let work = "git -c protocol.file.allow=always submodule --quiet update --init; cd other; echo a > a; git add a; \
                git -c user.name=T -c user.email=t@e.i commit -qm mine";
    let fixture = Fixture::new(add)
        .stage("A", &[work])
        .stage("B", &["echo b > b.txt"]);
    // The second merge is checked out where the first was, without what is in the submodule.
    let recurse = ["config", "submodule.recurse", "true"];
    fixture.environment.git(&recurse);
    let said = fixture.run().expect(0);
    assert!(
        format!("{said}").contains("is kept: a submodule in it has commits"),
        "{said}"
    );
    let trees = fixture
        .environment
        .git(&["worktree", "list", "--porcelain"]);
    let tree = trees
        .lines()
        .filter_map(|line| line.strip_prefix("worktree "))
        .find(|tree| tree.ends_with("-A"));
    let removes = format!("`git worktree remove --force {}`", tree.unwrap());
    assert!(said.stderr.contains(&removes), "{said}");
    let commit = fixture.environment.git(&["rev-parse", "HEAD:other"]);
    fixture.environment.git(&[
        "-C",
        &format!("{}/other", tree.unwrap()),
        "cat-file",
        "-e",
        commit.trim(),
    ]);
}

/// The clone of the second stage does not have the first one's commit, so its setup leaves another one checked out.
// shows: PLN-08
#[test]
fn a_stage_does_not_undo_what_another_one_did_to_a_submodule() {
    let add = "git init -q ../other && git -C ../other -c user.name=T -c user.email=t@e.i commit -q --allow-empty -m o \
               && git -c protocol.file.allow=always submodule --quiet add ../other other";
    let update = "git -c protocol.file.allow=always submodule --quiet update --init";
    let work =
        "cd other; echo a > a; git add a; git -c user.name=T -c user.email=t@e.i commit -qm mine";
    let mut fixture = Fixture::new(add)
        .stage("A", &[&format!("{update}; {work}")])
        .stage("B", &[&format!("{update} || echo b > b.txt")]);
    fixture.plan = fixture
        .plan
        .replace("id = \"B\"\n", "id = \"B\"\nneeds = [\"A\"]\n");
    let base = fixture.environment.git(&["rev-parse", "HEAD:other"]);
    fixture.run().expect(0);
    fixture.environment.git(&["show", "HEAD:b.txt"]);
    let merged = fixture.environment.git(&["rev-parse", "HEAD:other"]);
    assert_ne!(merged, base);
}

/// Git looks at nothing in the place of a submodule that is not checked out, and would remove it with the worktree.
// shows: PLN-08
#[test]
fn files_in_the_place_of_an_empty_submodule_are_kept() {
    let add = "git init -q ../other && git -C ../other -c user.name=T -c user.email=t@e.i commit -q --allow-empty -m o \
               && git -c protocol.file.allow=always submodule --quiet add ../other other \
               && mkdir other-data && touch other-data/x && echo other-data > .gitignore";
    let mut fixture = Fixture::new(add);
    // Lent from a directory whose name only begins in the same way.
    fixture
        .plan
        .push_str("\n[worktree]\ncopy = [\"other-data/x\"]\n");
    let fixture = fixture.stage("A", &["rm .gitmodules; echo mine > other/mine"]);
    let said = fixture.run().expect(0);
    let told = "is kept: files were written in `other`, a submodule that nothing filled there";
    assert!(said.stderr.contains(told), "{said}");
    let trees = fixture
        .environment
        .git(&["worktree", "list", "--porcelain"]);
    let mut trees = trees
        .lines()
        .filter_map(|line| line.strip_prefix("worktree "));
    let tree = trees.find(|tree| tree.ends_with("-A")).unwrap();
    assert!(std::fs::exists(format!("{tree}/other/mine")).unwrap());
}
