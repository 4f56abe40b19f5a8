//! The dispatcher, with issues in files and the rehearsal agent.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ekiden_testkit::trackers::{FakeGitHub, FakeLinear, ServiceFault, TrackerServer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::environment::{Environment, items};
use crate::fallback::with_accounts;
use crate::running::{Running, wait_until};

/// A repository with issues, of which some have the label.
fn project(issues: &[(&str, &str)]) -> Environment {
    let environment = Environment::with_git().with("EKIDEN_TRACKER_KIND", "local");
    environment.git(&["config", "user.name", "Me"]);
    environment.git(&["config", "user.email", "me@example.invalid"]);
    for (name, labels) in issues {
        issue(&environment, name, labels);
    }
    environment.write("wish.md", &items(1));
    environment
}

fn issue(environment: &Environment, name: &str, labels: &str) {
    let text =
        format!("---\ntitle: Make {name}\nstate: open\nlabels: {labels}\n---\nWhat is wanted.\n");
    environment.write(&format!(".issues/{name}.md"), &text);
}

fn words<'a>(args: &[&'a str]) -> Vec<&'a str> {
    every("1s", args)
}

fn every<'a>(interval: &'a str, args: &[&'a str]) -> Vec<&'a str> {
    [
        &[
            "dispatch",
            "wish.md",
            "--agent",
            "rehearsal",
            "--every",
            interval,
        ],
        args,
    ]
    .concat()
}

/// The worktrees of issues.
fn trees(environment: &Environment) -> Vec<PathBuf> {
    let projects = environment.path("home/.local/state/ekiden/issues");
    let mut trees = Vec::new();
    for project in std::fs::read_dir(projects).into_iter().flatten().flatten() {
        let entries = std::fs::read_dir(project.path()).unwrap().flatten();
        trees.extend(
            entries
                .map(|entry| entry.path())
                .filter(|path| path.is_dir()),
        );
    }
    trees.sort();
    trees
}

fn status(environment: &Environment, tree: &Path) -> Value {
    let said = environment.run(&["status", "--json", "-d", tree.to_str().unwrap()]);
    let said: Value = serde_json::from_str(&said.stdout).unwrap_or_default();
    said["runs"][0].clone()
}

/// Which issue a worktree is for.
fn issue_of(tree: &Path) -> String {
    let name = tree.file_name().unwrap().to_str().unwrap();
    name.rsplit_once('-').unwrap().0.to_owned()
}

// shows: TRK-10
#[test]
fn each_issue_with_the_label_gets_one_run_in_a_place_of_its_own() {
    let environment = project(&[
        ("login", "ekiden, ui"),
        ("search", "Ekiden"),
        ("other", "ui"),
    ]);
    let before = environment.git(&["status", "--porcelain"]);
    // The end of each run is noticed at once.
    let args = ["--once", "--verify", "test -e item-1.txt", "--pull-request"];
    let said = environment.run(&every("10m", &args)).expect(0);
    for line in [
        "login  taken, on ekiden/login-make-login",
        "search  taken, on ",
    ] {
        assert!(said.stdout.contains(line), "{said}");
    }
    assert_eq!(
        said.stdout.matches(" ended: verification passed").count(),
        2,
        "{said}"
    );
    let places = trees(&environment);
    let issues: Vec<String> = places.iter().map(|tree| issue_of(tree)).collect();
    assert_eq!(issues, ["login", "search"]);
    let branches = environment.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
    assert_eq!(
        branches.lines().collect::<Vec<_>>(),
        [
            "ekiden/login-make-login",
            "ekiden/search-make-search",
            "main"
        ]
    );
    let made = environment.git(&["ls-tree", "--name-only", "ekiden/login-make-login"]);
    assert!(made.contains("item-1.txt"), "{made}");
    // The work dir is as it was, but for what stands in the issues.
    assert_eq!(environment.git(&["status", "--porcelain"]), before);
    wait_until("the issue is told", || {
        environment.read(".issues/login.md").contains("Run ended")
    });
    assert!(!environment.read(".issues/other.md").contains("Run ended"));
    assert!(
        environment.exists(".issues/login-make-login.md"),
        "its pull request"
    );

    let again = environment.run(&words(&["--once"])).expect(0);
    assert!(!again.stdout.contains("taken"), "{again}");
    // Its work done, the label goes and with it the worktree; the branch stays.
    issue(&environment, "login", "");
    environment.run(&words(&["--once"])).expect(0);
    let issues: Vec<String> = trees(&environment)
        .iter()
        .map(|tree| issue_of(tree))
        .collect();
    assert_eq!(issues, ["search"]);
}

/// Each run would refuse it, all night long.
/// In cron two dispatchers take turns, or somebody misspells a label.
// shows: TRK-10
#[test]
fn a_dispatcher_with_another_label_leaves_a_worktree_alone() {
    let environment = project(&[("crash", "bug"), ("login", "feature")]);
    let once = |label: &str| {
        let args = ["--once", "--verify", "true", "--label", label];
        environment.run(&every("10m", &args)).expect(0).stdout
    };
    assert!(once("bug").contains("crash  taken, on"));
    assert!(once("feature").contains("login  taken, on"));
    let both = trees(&environment);
    for label in ["bug", "feature", "bgu"] {
        let said = once(label);
        assert!(!said.contains("taken, on"), "{said}");
        assert_eq!(trees(&environment), both, "{label}");
    }
}

// shows: TRK-10
#[test]
fn what_no_run_could_begin_with_is_refused_at_the_start() {
    let environment = project(&[("login", "ekiden")]);
    insta::assert_snapshot!(environment.told(&words(&["--pull-request"])), @r"
    --- standard error
    error: cannot open a pull request: nothing verifies the run's end
    hint: say how to tell that it is done: `--verify COMMAND`
    --- exit code 78
    ");
    insta::assert_snapshot!(environment.told(&words(&["--branch", "mine"])), @r"
    --- standard error
    error: each run has its own branch
    hint: leave out `--branch`; `tracker.branch` says how they are named
    --- exit code 78
    ");
}

/// The user's worktree may lie on a drive that is not mounted.
// shows: TRK-10
#[test]
fn a_worktree_of_the_users_that_is_not_there_now_stays_known() {
    let environment = project(&[("login", "ekiden")]);
    let theirs = environment.path("drive/theirs");
    let theirs = theirs.to_str().unwrap();
    environment.git(&["worktree", "add", "--quiet", "--detach", theirs]);
    std::fs::rename(environment.path("drive"), environment.path("away")).unwrap();
    environment.run(&words(&["--once"])).expect(0);
    let known = environment.git(&["worktree", "list", "--porcelain"]);
    assert!(known.contains(theirs), "{known}");
}

/// As where git-lfs is set up and not installed. What a run committed on no branch is not removed with its worktree.
// shows: TRK-10
#[test]
fn a_hook_that_fails_behind_a_checkout_stops_no_run_and_commits_on_no_branch_stay() {
    let environment = project(&[("login", "ekiden")]);
    environment.script(".git/hooks/post-checkout", "exit 2\n");
    let work = "git checkout -q --detach; git commit -q --allow-empty -m precious";
    environment.write(
        "wish.md",
        &format!("- [ ] It\n\n  ```sh\n  {work}\n  ```\n"),
    );
    let said = environment.run(&words(&["--once"])).expect(0);
    assert!(said.stdout.contains("login  taken, on "), "{said}");
    let place = trees(&environment).remove(0);
    assert_eq!(status(&environment, &place)["state"], "complete");
    issue(&environment, "login", "");
    environment.run(&words(&["--once"])).expect(0);
    let last = ["-C", place.to_str().unwrap(), "log", "-1", "--format=%s"];
    assert_eq!(environment.git(&last), "precious\n");
}

/// Otherwise a person waits for the run that setting the label again should start.
// shows: TRK-10
#[test]
fn a_worktree_that_stays_is_told_once() {
    let environment = project(&[("login", "ekiden")]);
    environment.run(&words(&["--once"])).expect(0);
    let place = trees(&environment).remove(0);
    std::fs::write(place.join("mine.txt"), "precious").unwrap();
    issue(&environment, "login", "");
    let mut dispatcher = environment.start(&words(&[]));
    dispatcher.wait_for("something in it is not committed: `git -C ");
    // It has looked again by then.
    issue(&environment, "search", "ekiden");
    dispatcher.wait_for("search  taken");
    dispatcher.signal(Signal::INT);
    let said = dispatcher.end().expect(0);
    let told = "login  keeps its worktree: something in it ";
    assert_eq!(said.stdout.matches(told).count(), 1, "{said}");
}

/// It waits for issues that come in, and does not look as if it hung.
// shows: TRK-10
#[test]
fn a_dispatcher_with_nothing_to_do_says_what_it_waits_for() {
    let environment = project(&[("login", "ekidn")]);
    let mut dispatcher = environment.start(&words(&[]));
    dispatcher
        .wait_for("no issue with the label `ekiden` needs a run; ekiden looks again every 1s");
    issue(&environment, "login", "ekiden");
    dispatcher.wait_for("login  taken");
    dispatcher.wait_for("login  run");
    dispatcher.signal(Signal::INT);
    let said = dispatcher.end().expect(0);
    assert_eq!(said.stdout.matches("no issue").count(), 1, "{said}");
}

/// The label goes and comes, and the dispatcher goes with a run at work.
// shows: TRK-10
#[test]
fn a_run_stops_with_its_label_and_goes_on_with_it() {
    let environment = project(&[("login", "ekiden")]).with("EKIDEN_REHEARSAL_STEP_MS", "150");
    environment.write("wish.md", &items(200));
    let mut dispatcher = environment.start(&words(&["-m", "99"]));
    dispatcher.wait_for("login  taken");
    dispatcher.wait_for(" works");
    environment.shell("mv .issues away; sleep 3; mv away .issues");
    let place = trees(&environment).remove(0);
    assert_eq!(status(&environment, &place)["state"], "running");
    issue(&environment, "login", "ui");
    dispatcher.wait_for("login  is asked to hand off and stop");
    dispatcher.wait_for(" is not finished");
    assert_eq!(status(&environment, &place)["state"], "stopped");
    issue(&environment, "login", "ekiden");
    dispatcher.wait_for("login  goes on");
    wait_until("it works", || status(&environment, &place)["pid"].is_u64());
    dispatcher.signal(Signal::TERM);
    dispatcher.wait_for(" is not finished");
    dispatcher.end().expect(0);
    // A stop that a person asks for is not undone.
    let mut dispatcher = environment.start(&words(&[]));
    dispatcher.wait_for("login  goes on");
    wait_until("it works", || status(&environment, &place)["pid"].is_u64());
    environment
        .run(&["stop", "--now", "-d", place.to_str().unwrap()])
        .expect(0);
    dispatcher.wait_for(" ended: it was stopped");
    dispatcher.signal(Signal::INT);
    let said = dispatcher.end().expect(0);
    assert_eq!(said.stdout.matches("goes on").count(), 1, "{said}");
    assert_eq!(trees(&environment).len(), 1);
}

/// The agent needs long to hand off; meanwhile the label goes, too.
// shows: TRK-10
#[test]
fn a_run_that_a_person_has_asked_to_stop_is_not_asked_again() {
    let environment = project(&[("login", "ekiden")]).with("EKIDEN_REHEARSAL_STEP_MS", "150");
    let gate = environment.path("gate");
    let act = format!(
        "[[act]]\nat = \"message\"\ndo = {{ sh = \"until test -e {}; do sleep 0.1; done\" }}\n",
        gate.display()
    );
    environment.write("slow.toml", &act);
    let scenario = environment.path("project/slow.toml");
    let environment = environment.with("EKIDEN_REHEARSAL_SCENARIO", scenario.to_str().unwrap());
    environment.write("wish.md", &items(200));
    let mut dispatcher = environment.start(&words(&["--jobs", "2", "-m", "99"]));
    dispatcher.wait_for(" works");
    let place = trees(&environment).remove(0);
    environment.run(&["stop", "--wait", "0s", "-d", place.to_str().unwrap()]);
    wait_until("the run has heard it", || {
        let log = environment.run(&["log", "-d", place.to_str().unwrap()]);
        log.stdout.contains("is asked to hand off within")
    });
    issue(&environment, "login", "");
    environment.write("wish.md", &items(1));
    issue(&environment, "search", "ekiden");
    // By then it has looked at the first one, too.
    dispatcher.wait_for("search  taken");
    std::fs::write(&gate, "").unwrap();
    dispatcher.wait_for("login  run");
    issue(&environment, "login", "ekiden");
    dispatcher.signal(Signal::INT);
    let said = dispatcher.end().expect(0);
    assert!(!said.stdout.contains("login  is asked"), "{said}");
    let said = environment.run(&words(&["--once"])).expect(0);
    assert!(!said.stdout.contains("login  goes on"), "{said}");
}

// shows: TRK-10
#[test]
fn a_single_round_without_work_says_so() {
    let environment = project(&[]);
    insta::assert_snapshot!(environment.told(&words(&["--once"])), @r"
    no issue with the label `ekiden` needs a run
    --- exit code 0
    ");
}

/// It looks rarely, and there is room for one run.
// shows: TRK-10
#[test]
fn an_issue_whose_run_cannot_begin_keeps_no_other_waiting() {
    let environment = project(&[("a", "ekiden"), ("b", "ekiden")]);
    let environment = environment.with("EKIDEN_TRACKER_BRANCH", "ekiden/{issue}/{title}");
    // A branch in the way of one below it.
    environment.git(&["branch", "ekiden/a"]);
    let mut dispatcher = environment.start(&every("1h", &[]));
    dispatcher.wait_for("a  cannot begin");
    dispatcher.wait_for("b  taken");
    dispatcher.signal(Signal::INT);
    dispatcher.end().expect(0);
}

/// A session left settings that cannot be read.
// shows: TRK-10
#[test]
fn a_run_that_cannot_go_on_keeps_no_other_waiting() {
    let environment = project(&[("a", "ekiden")]).with("EKIDEN_REHEARSAL_STEP_MS", "150");
    environment.write("wish.md", &items(200));
    let mut dispatcher = environment.start(&words(&["-m", "99"]));
    dispatcher.wait_for("a  run ");
    dispatcher.signal(Signal::INT);
    dispatcher.end().expect(0);
    let settings = trees(&environment)[0].join(".ekiden/config.toml");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    std::fs::write(settings, "no settings\n").unwrap();
    environment.write("wish.md", &items(1));
    issue(&environment, "b", "ekiden");
    let environment = environment.with("EKIDEN_REHEARSAL_STEP_MS", "0");
    let said = environment.run(&words(&["--once"])).expect(1);
    assert_eq!(said.stdout.matches("a  cannot begin").count(), 1, "{said}");
    assert!(said.stdout.contains("b  taken"), "{said}");
}

/// In Linear, an issue that is moved to another team gets another name.
// shows: TRK-10
#[test]
fn an_issue_that_was_moved_gets_no_second_run_and_one_in_the_trash_bin_stops_its_own() {
    let mut fake = FakeLinear::with(&["Login"]);
    fake.labels
        .push(("label-1".to_owned(), "ekiden".to_owned()));
    fake.issues[0].labels.push("label-1".to_owned());
    let server = TrackerServer::start(fake);
    let environment = project(&[])
        .with("EKIDEN_TRACKER_KIND", "linear")
        .with("EKIDEN_TRACKER_LINEAR_URL", &server.url("/graphql"))
        .with("LINEAR_API_KEY", "lin_api_key")
        .with("EKIDEN_REHEARSAL_STEP_MS", "150");
    environment.write("wish.md", &items(200));
    let mut dispatcher = environment.start(&words(&["--jobs", "2", "-m", "99"]));
    dispatcher.wait_for("ANV-1  run ");
    {
        let issue = &mut server.fake().service.issues[0];
        issue.former.push("ANV-1".to_owned());
        issue.identifier = "NEW-5".to_owned();
    }
    let asked = |server: &TrackerServer<FakeLinear>| server.fake().asked.len();
    let before = asked(&server);
    wait_until("it has looked again", || asked(&server) > before + 3);
    server.fake().service.issues[0].is_trashed = true;
    dispatcher.wait_for("ANV-1  is asked to hand off and stop");
    dispatcher.wait_for(" is not finished");
    dispatcher.signal(Signal::INT);
    let said = dispatcher.end().expect(0);
    assert!(!said.stdout.contains("NEW-5"), "{said}");
    assert_eq!(trees(&environment).len(), 1);
}

/// A project whose issues are on this GitHub.
fn on_github(server: &TrackerServer<FakeGitHub>) -> Environment {
    project(&[])
        .with("EKIDEN_TRACKER_KIND", "github")
        .with("EKIDEN_TRACKER_GITHUB_URL", &server.url(""))
        .with("EKIDEN_TRACKER_GITHUB_REPO", "me/app")
        .with("GITHUB_TOKEN", "token")
}

/// The same on GitHub, with a pull request at the end.
// shows: TRK-10, TRK-09
#[test]
fn an_issue_on_github_becomes_a_pull_request() {
    let mut fake = FakeGitHub::with("me/app", &["Login", "Search"]);
    fake.issues[1].labels.push("ekiden".to_owned());
    let server = TrackerServer::start(fake);
    let environment = on_github(&server);
    // The address is relative, and the worktrees lie elsewhere.
    environment.git(&["init", "--quiet", "--bare", "../origin.git"]);
    environment.git(&["remote", "add", "origin", "../origin.git"]);
    let args = ["--once", "--pull-request", "--verify", "test -e item-1.txt"];
    let said = environment.run(&words(&args)).expect(0);
    assert!(
        said.stdout.contains("2  taken, on ekiden/2-search"),
        "{said}"
    );
    wait_until("the pull request is there", || {
        let fake = server.fake();
        let opened = fake.service.issues.get(2);
        opened.is_some_and(|issue| {
            issue
                .pull
                .as_ref()
                .is_some_and(|pull| pull.branch == "ekiden/2-search")
        })
    });
    let comments = server.fake().service.issues[1].comments.len();
    assert_eq!(comments, 1);
    server.fake().service.issues[1].labels.clear();
    wait_until("nothing waits", || {
        let said = environment.run(&["tracker", "status", "--json"]).expect(0);
        said.stdout.contains("\"waiting\":[]")
    });
    environment.run(&words(&["--once"])).expect(0);
    assert!(trees(&environment).is_empty());
}

/// A run died after its last record, before it had queued its pull request.
// shows: TRK-10, TRK-09
#[test]
fn what_a_run_could_not_queue_the_next_dispatcher_queues() {
    let mut fake = FakeGitHub::with("me/app", &["Login"]);
    fake.issues[0].labels.push("ekiden".to_owned());
    let server = TrackerServer::start(fake);
    let environment = on_github(&server);
    let pushed = |environment: &Environment| environment.git(&["ls-remote", "origin"]);
    let args = ["--once", "--pull-request", "--verify", "test -e item-1.txt"];
    // There is nowhere to push to yet.
    environment.git(&["remote", "add", "origin", "../origin.git"]);
    environment.run(&words(&args)).expect(0);
    let outbox = environment.path("home/.local/state/ekiden/outbox");
    wait_until("the outbox is gone", || {
        std::fs::remove_dir_all(&outbox).is_ok()
    });
    environment.git(&["init", "--quiet", "--bare", "../origin.git"]);
    environment.run(&words(&args)).expect(0);
    wait_until("the pull request is there", || {
        server.fake().service.issues.len() == 2
    });
    assert!(pushed(&environment).contains("ekiden/1-login"));
}

/// The outbox has forgotten that the tracker has it, and people may have deleted the comment since.
// shows: TRK-10, TRK-06
#[test]
fn what_ended_a_month_ago_is_not_queued_again() {
    let mut fake = FakeGitHub::with("me/app", &["Login"]);
    fake.issues[0].labels.push("ekiden".to_owned());
    let server = TrackerServer::start(fake);
    let environment = on_github(&server);
    environment.run(&words(&["--once"])).expect(0);
    wait_until("nothing waits", || {
        let said = environment.run(&["tracker", "status", "--json"]).expect(0);
        said.stdout.contains("\"waiting\":[]")
    });
    let outbox = environment.path("home/.local/state/ekiden/outbox");
    wait_until("the outbox is gone", || {
        std::fs::remove_dir_all(&outbox).is_ok()
    });
    environment.age_log();
    environment.run(&words(&["--once"])).expect(0);
    for queued in ["waiting", "sent"] {
        assert!(!outbox.join(queued).exists(), "{queued}");
    }
}

// shows: TRK-10, TRK-06
#[test]
fn a_tracker_that_takes_no_more_requests_is_not_asked_until_it_does() {
    let server = TrackerServer::start(FakeGitHub::with("me/app", &["Login"]));
    let environment = on_github(&server);
    let mut dispatcher = environment.start(&words(&[]));
    dispatcher.wait_for("no issue with the label");
    server.fake().fault_from(0, ServiceFault::Limited(3600));
    dispatcher.wait_for("it takes no more requests for 1h");
    let asked = server.fake().asked.len();
    // Three times as long as between two rounds.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(server.fake().asked.len(), asked);
    dispatcher.signal(Signal::INT);
    dispatcher.end().expect(0);
}

// shows: TRK-10, TRK-06
#[test]
fn a_run_that_ends_in_a_limit_of_the_tracker_does_not_end_the_limit() {
    let mut fake = FakeGitHub::with("me/app", &["Login"]);
    fake.issues[0].labels.push("ekiden".to_owned());
    let server = TrackerServer::start(fake);
    let environment = on_github(&server).with("EKIDEN_REHEARSAL_STEP_MS", "1500");
    let mut dispatcher = environment.start(&words(&[]));
    dispatcher.wait_for("taken");
    server.fake().fault_from(0, ServiceFault::Limited(3600));
    dispatcher.wait_for("it takes no more requests for 1h");
    let lists = || {
        let asked = &server.fake().asked;
        let lists = asked.iter().filter(|asked| asked.path.contains("labels="));
        lists.count()
    };
    let before = lists();
    dispatcher.wait_for(" ended: ");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(lists(), before);
    dispatcher.signal(Signal::INT);
    dispatcher.end().expect(0);
}

/// The tracker was away when the run ended, and for longer than the run's own sender waited.
// shows: TRK-10, TRK-06
#[test]
fn what_no_run_sends_any_more_a_dispatcher_sends() {
    let mut fake = FakeGitHub::with("me/app", &["Login"]);
    fake.issues[0].labels.push("ekiden".to_owned());
    let server = TrackerServer::start(fake);
    let environment = on_github(&server);
    let mut dispatcher = environment.start(&words(&[]));
    dispatcher.wait_for(" ended: ");
    wait_until("nothing waits", || {
        let said = environment.run(&["tracker", "status", "--json"]).expect(0);
        said.stdout.contains("\"waiting\":[]")
    });
    // As if nothing had arrived.
    server.fake().service.issues[0].comments.clear();
    let outbox = environment.path("home/.local/state/ekiden/outbox");
    for sent in std::fs::read_dir(outbox.join("sent")).unwrap().flatten() {
        std::fs::rename(sent.path(), outbox.join("waiting").join(sent.file_name())).unwrap();
    }
    wait_until("the comment is there", || {
        server.fake().service.issues[0].comments.len() == 1
    });
    dispatcher.signal(Signal::INT);
    dispatcher.end().expect(0);
}

/// Dispatcher and run die at once; the next dispatcher takes up the run, and takes no issue twice.
// shows: TRK-10
#[test]
fn what_was_under_way_is_taken_up_after_a_kill() {
    let environment = project(&[("login", "ekiden"), ("search", "ekiden")])
        .with("EKIDEN_REHEARSAL_STEP_MS", "100");
    environment.write("wish.md", &items(60));
    let mut dispatcher = environment.start(&words(&["--jobs", "2", "-m", "99"]));
    dispatcher.wait_for("search  taken");
    dispatcher.signal(Signal::KILL);
    dispatcher.end();
    let place = trees(&environment).remove(0);
    wait_until("the run works", || {
        status(&environment, &place)["pid"].is_u64()
    });
    let pid = status(&environment, &place)["pid"].as_i64().unwrap();
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let environment = environment.with("EKIDEN_REHEARSAL_STEP_MS", "0");
    let said = environment
        .run(&words(&["--once", "--jobs", "2"]))
        .expect(0);
    assert!(said.stdout.contains("goes on"), "{said}");
    assert!(!said.stdout.contains("taken"), "{said}");
    let places = trees(&environment);
    assert_eq!(places.len(), 2);
    for place in places {
        let status = status(&environment, &place);
        assert_eq!(status["state"], "complete", "{status}");
    }
}

/// A machine that shuts down asks every process to end. A person's stop counts although the engine was killed before it
/// had stopped.
// shows: TRK-10
#[test]
fn what_a_shutdown_ended_goes_on_and_what_a_person_stopped_does_not_though_it_was_killed() {
    let environment = project(&[("a", "ekiden"), ("b", "ekiden")]);
    let gate = environment.path("gate");
    let wait = format!("until test -e {}; do sleep 0.1; done", gate.display());
    let slow = format!("[[act]]\nat = \"message\"\ndo = {{ sh = \"{wait}\" }}\n");
    environment.write("slow.toml", &slow);
    let scenario = environment.path("project/slow.toml");
    let environment = environment
        .with("EKIDEN_REHEARSAL_SCENARIO", scenario.to_str().unwrap())
        .with("EKIDEN_REHEARSAL_STEP_MS", "100");
    environment.write("wish.md", &items(60));
    let mut dispatcher = environment.start(&words(&["--jobs", "2", "-m", "99"]));
    for issue in ["a", "b"] {
        dispatcher.wait_for(&format!("{issue}  run"));
    }
    dispatcher.signal(Signal::KILL);
    dispatcher.end();
    let places = trees(&environment);
    let end = |place: &Path, signal| {
        let pid = status(&environment, place)["pid"].as_i64().unwrap();
        kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
        wait_until("it is gone", || {
            status(&environment, place)["pid"].is_null()
        });
    };
    end(&places[0], Signal::TERM);
    let stop = ["stop", "--wait", "0s", "-d", places[1].to_str().unwrap()];
    environment.run(&stop);
    wait_until("it is asked to stop", || {
        let log = environment.run(&["log", "-d", places[1].to_str().unwrap()]);
        log.stdout.contains("is asked to hand off within")
    });
    end(&places[1], Signal::KILL);
    std::fs::write(&gate, "").unwrap();
    let environment = environment.with("EKIDEN_REHEARSAL_STEP_MS", "0");
    let said = environment.run(&words(&["--once"])).expect(0);
    assert!(said.stdout.contains("a  goes on"), "{said}");
    assert!(!said.stdout.contains("b  goes on"), "{said}");
    assert!(!said.stdout.contains("taken"), "{said}");
}

/// The most urgent first, one at a time; what another blocks waits for a person to close that.
// shows: TRK-10
#[test]
fn urgent_issues_come_first_and_blocked_ones_wait() {
    let environment = project(&[("a", "ekiden"), ("b", "ekiden"), ("c", "ekiden")]);
    let change = |name: &str, line: &str| {
        let path = format!(".issues/{name}.md");
        let text = environment.read(&path);
        environment.write(&path, &text.replacen("state: open", line, 1));
    };
    change("c", "state: open\npriority: 1");
    change("b", "state: open\nblocked-by: c");
    let said = || environment.run(&words(&["--once"])).expect(0).stdout;
    let of = |said: &str, what: &str| {
        let lines = said.lines().filter(|line| line.contains(what));
        let issues = lines.filter_map(|line| Some(line.split_once("  ")?.0.to_owned()));
        issues.collect::<Vec<_>>()
    };
    let first = said();
    assert_eq!(of(&first, "  taken, "), ["c", "a"]);
    assert_eq!(of(&first, "  waits for another open issue"), ["b"]);
    change("c", "state: done");
    assert_eq!(of(&said(), "  taken, "), ["b"]);
}

/// A person gave it after `--`; the run gets it the same way.
// shows: TRK-10
#[test]
fn a_task_that_begins_with_a_dash_is_the_task_of_each_run() {
    let environment = project(&[("a", "ekiden")]);
    let task = "- [ ] Write it\n\n  ```sh\n  echo made > made.txt\n  ```\n";
    let said = environment.run(&["dispatch", "--agent", "rehearsal", "--once", "--", task]);
    let said = said.expect(0);
    assert!(said.stdout.contains("a  taken, "), "{said}");
}

/// Whoever runs it once as root must learn what is in the way.
// shows: TRK-10
#[test]
fn a_lock_that_cannot_be_opened_is_no_other_dispatcher() {
    let environment = project(&[("a", "ekiden")]);
    environment.run(&words(&["--once"])).expect(0);
    let projects = environment.path("home/.local/state/ekiden/issues");
    let project = std::fs::read_dir(projects).unwrap().next().unwrap();
    let lock = project.unwrap().path().join(".dispatching");
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    let said = environment.run(&words(&["--once"])).expect(74);
    assert!(said.stderr.contains("/.dispatching"), "{said}");
}

/// They would wait for ever.
// shows: TRK-10
#[test]
fn issues_that_block_each_other_are_named() {
    let environment = project(&[("a", "ekiden"), ("b", "ekiden")]);
    for (name, other) in [("a", "b"), ("b", "a")] {
        let path = format!(".issues/{name}.md");
        let line = format!("state: open\nblocked-by: {other}");
        let text = environment.read(&path);
        environment.write(&path, &text.replacen("state: open", &line, 1));
    }
    let said = environment.run(&words(&["--once"])).expect(0);
    assert_eq!(
        said.stdout,
        "a  waits for another open issue\nb  waits for another open issue\n"
    );
}

// shows: TRK-10
#[test]
fn the_budget_of_all_runs_is_held() {
    let environment = project(&[("a", "ekiden"), ("b", "ekiden"), ("c", "ekiden")])
        .with("EKIDEN_REHEARSAL_PRICE", "1000");
    let taken = |total, code| {
        let budgets = ["--run-budget", "1000", "--total-budget", total];
        let said = environment.run(&words(&[&["--once", "--jobs", "3"], &budgets[..]].concat()));
        let said = said.expect(code).stdout;
        let is_held = said.contains("the total budget has no room for another run");
        assert_eq!(is_held, code == 1, "{said}");
        said.matches("  taken, ").count()
    };
    // There is room for one; what it spent leaves none for another.
    assert_eq!(taken("1010", 1), 1);
    // It counts for the next dispatcher, too.
    assert_eq!(taken("1010", 1), 0);
    assert_eq!(taken("9000", 0), 2);
    // Nothing is left that needs it.
    assert_eq!(taken("1010", 0), 0);
    insta::assert_snapshot!(environment.told(&words(&["--total-budget", "9"])), @r"
    --- standard error
    error: `--total-budget` needs a budget of each run, and room for one
    hint: `--run-budget USD` is what each run may cost; it must not exceed the total
    --- exit code 2
    ");
    let no_room = ["--total-budget", "9", "--run-budget", "10"];
    environment.run(&words(&no_room)).expect(2);
}

// shows: TRK-10
#[test]
fn a_run_that_closed_its_issue_counts_for_the_next_call() {
    let environment = project(&[("a", "ekiden"), ("b", "ekiden")])
        .with("EKIDEN_REHEARSAL_PRICE", "1000")
        .with("EKIDEN_TRACKER_ON_COMPLETE", "close");
    let verified = ["--once", "--verify", "test -e item-1.txt"];
    let budgets = ["--run-budget", "1000", "--total-budget", "1010"];
    let call = || {
        let said = environment.run(&words(&[&verified[..], &budgets].concat()));
        said.expect(1).stdout.matches("  taken, ").count()
    };
    assert_eq!(call(), 1);
    let closed = "state: done";
    wait_until("it is closed", || {
        environment.read(".issues/a.md").contains(closed)
    });
    assert_eq!((call(), call()), (0, 0));
    // A person decides that it need not be kept.
    issue(&environment, "a", "");
    call();
    assert!(trees(&environment).is_empty());
}

/// The first one leaves most of its budget.
// shows: TRK-10
#[test]
fn no_room_is_told_only_once_it_is_final_and_each_run_knows_what_the_last_one_learned() {
    let environment =
        project(&[("a", "ekiden"), ("b", "ekiden")]).with("EKIDEN_REHEARSAL_PRICE", "2");
    let budgets = ["--once", "--run-budget", "1000", "--total-budget", "1500"];
    let said = environment.run(&words(&budgets)).expect(0).stdout;
    assert!(!said.contains("no room"), "{said}");
    assert_eq!(said.matches("  taken, ").count(), 2);
    let first = |run: &String| {
        let log = environment.state().join("runs").join(run).join("log.jsonl");
        let log = std::fs::read_to_string(log).unwrap();
        let first: Value = serde_json::from_str(log.lines().nth(1).unwrap()).unwrap();
        first["event"]["prices"].clone()
    };
    let runs = environment.runs();
    let prices = runs.iter().map(first);
    let knows = prices.filter(|prices| prices.as_object().is_some_and(|all| !all.is_empty()));
    assert_eq!(knows.count(), 1);
}

/// In cron, a script must see that something is left.
// shows: TRK-10
#[test]
fn a_single_pass_that_is_stopped_is_not_done() {
    let environment = project(&[("a", "ekiden")]).with("EKIDEN_REHEARSAL_STEP_MS", "150");
    environment.write("wish.md", &items(200));
    let mut dispatcher = environment.start(&words(&["--once", "-m", "99"]));
    dispatcher.wait_for(" works");
    dispatcher.signal(Signal::TERM);
    dispatcher.end().expect(1);
}

// shows: TRK-10
#[test]
fn what_a_run_spent_counts_when_its_worktree_is_gone() {
    let environment = project(&[("a", "ekiden")]).with("EKIDEN_REHEARSAL_PRICE", "1000");
    let budgets = ["--run-budget", "1000", "--total-budget", "1010"];
    let mut dispatcher = environment.start(&words(&budgets));
    dispatcher.wait_for("a  taken");
    dispatcher.wait_for(" ended");
    issue(&environment, "a", "");
    wait_until("its worktree is gone", || trees(&environment).is_empty());
    issue(&environment, "b", "ekiden");
    dispatcher.wait_for("the total budget has no room for another run");
    dispatcher.signal(Signal::INT);
    let said = dispatcher.end().expect(0);
    assert!(!said.stdout.contains("b  taken"), "{said}");
}

// shows: TRK-10
#[test]
fn a_run_that_nobody_wants_any_more_says_how_its_budget_is_freed() {
    let environment = project(&[("a", "ekiden")]).with("EKIDEN_REHEARSAL_STEP_MS", "150");
    environment.write("wish.md", &items(200));
    let budgets = ["--run-budget", "1000", "--total-budget", "1010", "-m", "99"];
    let mut dispatcher = environment.start(&words(&budgets));
    dispatcher.wait_for(" works");
    issue(&environment, "a", "");
    dispatcher.wait_for(" is not finished");
    issue(&environment, "b", "ekiden");
    dispatcher.wait_for("the unfinished run for a holds its budget");
    let place = trees(&environment).remove(0);
    environment.git(&["worktree", "remove", "--force", place.to_str().unwrap()]);
    dispatcher.wait_for("b  taken");
    dispatcher.signal(Signal::TERM);
    dispatcher.end().expect(0);
}

/// The project's own file is not in the worktrees: nobody committed it.
// shows: TRK-10, RUN-03
#[test]
fn budgets_of_the_projects_file_hold_in_each_run() {
    let environment = project(&[("a", "ekiden")]);
    let budgets = "run_budget = 1000\nsession_budget = 500\nrun_tokens = '3M'\n";
    // The run does not know the second agent.
    let of_agents = "[agents.rehearsal]\nbudget = '700.50'\ntokens = '2M'\n\n[agents.mine]\nkind = 'exec'\ncommand = 'true'\nbudget = 1\n";
    environment.write(".ekiden/config.toml", &format!("{budgets}{of_agents}"));
    environment.run(&["config", "approve"]).expect(0);
    environment
        .run(&words(&["--once", "--total-budget", "1010"]))
        .expect(0);
    let bounds = &environment.log()[0]["event"]["settings"]["bounds"];
    assert_eq!(bounds["run"]["micro_usd"], 1_000_000_000, "{bounds}");
    assert_eq!(bounds["run"]["tokens"], 3_000_000, "{bounds}");
    assert_eq!(bounds["session"]["micro_usd"], 500_000_000, "{bounds}");
    let of_agents = json!({"rehearsal": {"micro_usd": 700_500_000, "tokens": 2_000_000}});
    assert_eq!(bounds["agents"], of_agents, "{bounds}");
}

fn commit_settings(environment: &Environment, text: &str) {
    environment.write(".ekiden/config.toml", text);
    environment.git(&["add", "--force", ".ekiden/config.toml"]);
    environment.git(&["commit", "--quiet", "--message=settings"]);
}

/// Also for an agent that only the project's file knows, which is committed.
// shows: TRK-10, RUN-03
#[test]
fn budgets_that_are_typed_hold_in_each_run() {
    let environment = project(&[("a", "ekiden")]).with("EKIDEN_AGENT_TOKENS", "mine=2M");
    commit_settings(
        &environment,
        "[agents.mine]\nkind = 'exec'\ncommand = 'true'\n",
    );
    environment.run(&["config", "approve"]).expect(0);
    environment
        .run(&words(&["--once", "--agent-budget", "mine=5,claude=3"]))
        .expect(0);
    let bounds = &environment.log()[0]["event"]["settings"]["bounds"];
    let of_agents = json!({
        "claude": {"micro_usd": 3_000_000, "tokens": null},
        "mine": {"micro_usd": 5_000_000, "tokens": 2_000_000},
    });
    assert_eq!(bounds["agents"], of_agents, "{bounds}");
}

// shows: TRK-10, SEC-06
#[test]
fn settings_that_are_approved_for_the_project_hold_in_its_worktrees() {
    let environment = project(&[("a", "ekiden")]);
    let settings = |text: &str| commit_settings(&environment, text);
    settings("verify = 'test -e item-1.txt'\n");
    environment.run(&["config", "approve"]).expect(0);
    let said = environment.run(&words(&["--once"])).expect(0);
    assert!(
        said.stdout.contains(" ended: verification passed"),
        "{said}"
    );
    let approved = || {
        let path = environment.path("home/.config/ekiden/approved");
        std::fs::read_to_string(path).unwrap_or_default()
    };
    assert!(approved().contains("/issues/"), "{}", approved());
    issue(&environment, "a", "");
    environment.run(&words(&["--once"])).expect(0);
    assert!(trees(&environment).is_empty());
    assert!(!approved().contains("/issues/"), "{}", approved());
    // What is committed is not what was approved.
    settings("verify = 'touch ../../evil'\n");
    environment.write(".ekiden/config.toml", "verify = 'test -e item-1.txt'\n");
    issue(&environment, "b", "ekiden");
    let said = environment.run(&words(&["--once"])).expect(1);
    assert!(said.stdout.contains("b  cannot begin"), "{said}");
    assert!(trees(&environment).is_empty());
}

// shows: TRK-10, AGT-14
#[test]
fn nothing_is_taken_while_a_limit_is_known() {
    let environment =
        project(&[("login", "ekiden")]).with("EKIDEN_REHEARSAL_SCENARIO", "limit.toml");
    let act = "[[act]]\nat = \"prompt\"\ndo = { limit = 3600 }\n";
    environment.write("limit.toml", act);
    let stop = [
        "run",
        "wish.md",
        "--agent",
        "rehearsal",
        "--on-rate-limit",
        "stop",
    ];
    environment.run(&stop).expect(3);
    let mut dispatcher: Running = environment.start(&words(&[]));
    dispatcher.wait_for("(another run met it); nothing begins before ");
    // Two would take the same issue.
    let second = environment.run(&words(&["--once"])).expect(75);
    assert!(
        second
            .stderr
            .contains("another dispatcher works for this project"),
        "{second}"
    );
    dispatcher.signal(Signal::INT);
    dispatcher.end().expect(0);
    assert!(trees(&environment).is_empty());
}

// shows: TRK-10, REL-39
#[test]
fn an_account_that_is_free_takes_the_issues_meanwhile() {
    let environment = with_accounts(project(&[("login", "ekiden")]), "{ limit = 3600 }");
    let stop = ["--agent", "rehearsal", "--on-rate-limit", "stop"];
    let run = [&["run", "wish.md"][..], &stop].concat();
    environment.run(&run).expect(3);
    let fallback = ["--fallback", "rehearsal:second"];
    let once = ["--once", "--verify", "test -e item-1.txt"];
    let said = environment
        .run(&words(&[&once[..], &fallback].concat()))
        .expect(0);
    assert!(said.stdout.contains("login  taken"), "{said}");
    assert!(
        said.stdout.contains(" ended: verification passed"),
        "{said}"
    );
    let doctor = ["doctor", "--agent", "rehearsal"];
    let said = environment.told(&[&doctor[..], &fallback].concat());
    let works = "runs continue with another agent until then";
    assert!(said.contains(works), "{said}");
    let said = environment.told(&doctor);
    assert!(said.contains("runs wait for it"), "{said}");
}

// shows: TRK-10
#[test]
fn what_cannot_be_dispatched_is_refused_with_a_way_out() {
    let environment = project(&[]).with("EKIDEN_TRACKER_KIND", "linear");
    insta::assert_snapshot!(environment.told(&words(&["--once"])), @r"
    --- standard error
    error: cannot list issues: linear: there is no key: set LINEAR_API_KEY
    hint: or let a program print it: `tracker.credential_command`
    --- exit code 77
    ");
    let elsewhere = Environment::new();
    elsewhere.write("wish.md", "a b\n");
    insta::assert_snapshot!(elsewhere.told(&words(&["--once"])), @r"
    --- standard error
    error: cannot work on issues in parallel: there is no git repository with a commit
    hint: `git init && git commit --allow-empty -m start` makes one
    --- exit code 78
    ");
}
