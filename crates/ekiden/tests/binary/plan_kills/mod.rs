//! Plans that are killed, stopped and taken up again: whatever happens, each stage is merged once, nothing
//! is lost, and nothing is left over.

mod kills;
mod repository;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::Value;

use crate::environment::Environment;
use crate::processes::expect_nothing_alive;
use crate::running::{Running, Said, wait_until};

const EXECUTE: [&str; 5] = ["execute", "plan.toml", "--agent", "rehearsal", "--yes"];

/// A project with a plan of four stages: A, then B and C side by side, then D. Each makes the file of its
/// name.
pub(crate) struct Diamond {
    pub(crate) environment: Environment,
    /// What a stage runs to make its file, and how it is validated, where that is not as usual.
    work: BTreeMap<&'static str, String>,
    checks: BTreeMap<&'static str, String>,
    /// More lines of the manifest, by stage, and of its head.
    rules: BTreeMap<&'static str, &'static str>,
    head: &'static str,
}

impl Diamond {
    pub(crate) fn new() -> Self {
        let environment = Environment::with_git();
        environment.git(&["config", "user.name", "Test"]);
        environment.git(&["config", "user.email", "test@example.invalid"]);
        let (work, checks, rules) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self {
            environment,
            work,
            checks,
            rules,
            head: "",
        }
    }

    /// A file outside of every tree, by which tests and stages tell each other something.
    fn gate(&self, name: &str) -> PathBuf {
        self.environment.path(&format!("gate-{name}"))
    }

    /// The stage takes a minute when it works for the first time; its gate is there when it does.
    fn slow(mut self, stage: &'static str) -> Self {
        let (gate, file) = (self.gate(stage), file_of(stage));
        let gate = gate.display();
        let line = format!("[ -e {gate} ] || {{ touch {gate}; sleep 60; }}; echo {stage} > {file}");
        self.work.insert(stage, line);
        self
    }

    /// The stage's validation takes a minute on the whole, for the first time.
    fn slow_merge(mut self, stage: &'static str) -> Self {
        let gate = self.gate(stage);
        let gate = gate.display();
        // Stages have worktrees with their ids behind the run's.
        let wait = format!("[ -e {gate} ] || {{ touch {gate}; sleep 60; }}");
        let check = format!(
            "test -f {} && case $PWD in *-{stage}) ;; *) {wait} ;; esac",
            file_of(stage)
        );
        self.checks.insert(stage, check);
        self
    }

    fn check(mut self, stage: &'static str, command: String) -> Self {
        self.checks.insert(stage, command);
        self
    }

    fn work(mut self, stage: &'static str, command: String) -> Self {
        self.work.insert(stage, command);
        self
    }

    fn rule(mut self, stage: &'static str, line: &'static str) -> Self {
        self.rules.insert(stage, line);
        self
    }

    fn head(mut self, line: &'static str) -> Self {
        self.head = line;
        self
    }

    /// Writes the plan, and commits it.
    fn ready(self) -> Self {
        self.environment.write("plan.toml", &self.manifest());
        self.environment.commit_all();
        self
    }

    fn manifest(&self) -> String {
        let mut text = format!(
            "format = 1\nproject = \"diamond\"\njobs = 2\n{}\n",
            self.head
        );
        for (stage, needs) in [
            ("A", ""),
            ("B", "\"A\""),
            ("C", "\"A\""),
            ("D", "\"B\", \"C\""),
        ] {
            let file = file_of(stage);
            let usual = (format!("echo {stage} > {file}"), format!("test -f {file}"));
            let work = self.work.get(stage).unwrap_or(&usual.0);
            let check = self.checks.get(stage).unwrap_or(&usual.1);
            let rule = self.rules.get(stage).unwrap_or(&"");
            text.push_str(&format!(
                "[[stage]]\nid = \"{stage}\"\nname = \"{stage}\"\nneeds = [{needs}]\n{rule}\nprompt = '''\nMake it.\n\n\
                 - [ ] Item {stage}\n\n  ```sh\n  {work}\n  ```\n'''\n\
                 validation = {{ kind = \"command\", command = '{check}' }}\n"
            ));
        }
        text
    }

    fn start(&self) -> Running {
        self.environment.start(&EXECUTE)
    }

    fn execute(&self) -> Said {
        self.start().end()
    }

    fn resume(&self) -> Said {
        self.environment.run(&["resume"])
    }

    fn wait_for_gates(&self, stages: &[&str]) {
        wait_until("the stages at work", || {
            stages.iter().all(|stage| self.gate(stage).exists())
        });
    }

    /// All is done, once, and nothing is left over.
    #[track_caller]
    fn expect_complete(&self) {
        self.expect_merged();
        self.expect_cleared();
    }

    /// What a run says that it did not deliver is brought by the command on its last line.
    #[track_caller]
    fn follow_last_line(&self, said: &Said) {
        let last = said.stdout.lines().last().unwrap();
        // git itself says to remove the lock of one that was killed.
        let _ = std::fs::remove_file(self.environment.dir().join(".git/index.lock"));
        self.environment
            .shell(last.trim_start_matches("next").trim());
    }

    /// All is done, once.
    #[track_caller]
    fn expect_merged(&self) {
        for stage in ["A", "B", "C", "D"] {
            assert_eq!(self.environment.read(&file_of(stage)).trim(), stage);
        }
        let mut merges: Vec<String> = self
            .environment
            .git(&["log", "--merges", "--format=%s"])
            .lines()
            .map(str::to_owned)
            .collect();
        merges.retain(|subject| !subject.contains("changes of other stages"));
        merges.sort();
        assert_eq!(
            merges,
            ["ekiden: A A", "ekiden: B B", "ekiden: C C", "ekiden: D D"]
        );
        check_attempts(&self.environment.log());
    }

    /// No worktree, no branch and no process of ours is left.
    #[track_caller]
    fn expect_cleared(&self) {
        expect_nothing_alive(&self.environment);
        assert_eq!(self.worktrees(), Vec::<PathBuf>::new());
        let branches = self
            .environment
            .git(&["branch", "--format=%(refname:short)"]);
        assert_eq!(branches.trim(), "main");
        assert_eq!(self.environment.git(&["status", "--porcelain"]), "");
    }

    /// The worktrees of stages and of the whole.
    fn worktrees(&self) -> Vec<PathBuf> {
        let told = self.environment.git(&["worktree", "list", "--porcelain"]);
        let trees = told
            .lines()
            .filter_map(|line| line.strip_prefix("worktree "))
            .map(PathBuf::from);
        trees.skip(1).collect()
    }

    fn worktree_of(&self, stage: &str) -> PathBuf {
        let of_stage = |tree: &PathBuf| tree.to_string_lossy().ends_with(&format!("-{stage}"));
        self.worktrees().into_iter().find(of_stage).unwrap()
    }

    /// The branch of the whole.
    fn branch(&self) -> String {
        format!("ekiden/{}", self.environment.runs().last().unwrap())
    }
}

fn file_of(stage: &str) -> String {
    format!("{}.txt", stage.to_lowercase())
}

/// No attempt of a stage is started twice, and their numbers only rise.
fn check_attempts(log: &[Value]) {
    let mut before: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut stages = BTreeSet::new();
    for effect in log
        .iter()
        .flat_map(|record| record["effects"].as_array().unwrap())
    {
        if effect["effect"]["kind"] != "start_attempt" {
            continue;
        }
        let stage = effect["stage"].as_str().unwrap().to_owned();
        let attempt = &effect["effect"]["attempt"];
        let number = |name: &str| attempt[name].as_u64().unwrap();
        let attempt = (number("session"), number("attempt"));
        assert!(
            before.get(&stage).is_none_or(|before| *before < attempt),
            "{stage} {attempt:?}"
        );
        before.insert(stage.clone(), attempt);
        stages.insert(stage);
    }
    assert_eq!(stages.len(), 4, "{stages:?}");
}
