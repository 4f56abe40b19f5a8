//! The cost of plans: reading a large one, deciding, and the gap between a stage and the one that needs it.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::{Row, median};
use crate::shell::{self, Program};

const LOAD_MS_MAX: f64 = 1_000.0;
/// Flat, except that everything is weighed again each time twice as many stages are over.
const COST_TIMES_MAX: f64 = 2.0;
/// Without git.
const GAP_MS_MAX: f64 = 20.0;
/// As a multiple of the bare git commands.
const GIT_TIMES_MAX: f64 = 3.0;
/// Stages of a chain, each of which needs the one before.
const CHAIN: usize = 20;
/// How often each chain is run.
const ROUNDS: usize = 3;

/// The output of `ekiden-core`'s bench.
#[derive(Debug, Deserialize)]
struct Figures {
    load_ms: Vec<f64>,
    /// Only parsing, by the library that reading uses first.
    parse_ms: Vec<f64>,
    /// For each stage that ends, of 100, 1,000 and 10,000.
    cost_ns: Vec<f64>,
    /// The worst time of a random plan, as a multiple of the lower bound for any order.
    worst: f64,
    mean: f64,
    /// Plans that took longer than (2 - 1/m) times that.
    beyond: usize,
}

pub(super) fn measure() -> Result<Vec<Row>, String> {
    let measure = Program::cargo(&[
        "bench",
        "--locked",
        "--package",
        "ekiden-core",
        "--bench",
        "plan",
    ]);
    let figures: Figures = serde_json::from_str(&measure.output()?)
        .map_err(|error| format!("cannot understand what `{measure}` says: {error}"))?;
    let mut rows = vec![load(&figures), cost(&figures), order(&figures)];
    rows.extend(chains()?);
    Ok(rows)
}

// shows: PLN-20
fn load(figures: &Figures) -> Row {
    let (load, parse) = (
        median(figures.load_ms.clone()),
        median(figures.parse_ms.clone()),
    );
    Row {
        what: "a manifest of 10,000 stages: read and checked".to_owned(),
        figure: format!("{load:.0} ms"),
        baseline: format!("parsing alone {parse:.0} ms, {:.1} times", load / parse),
        promise: format!("less than {LOAD_MS_MAX:.0} ms"),
        kept: load < LOAD_MS_MAX,
    }
}

// shows: PLN-20
fn cost(figures: &Figures) -> Row {
    let (first, last) = (
        figures.cost_ns.first().copied().unwrap_or(f64::NAN),
        figures.cost_ns.last().copied().unwrap_or(f64::NAN),
    );
    let all: Vec<String> = figures
        .cost_ns
        .iter()
        .map(|cost| format!("{cost:.0}"))
        .collect();
    Row {
        what: "deciding, for each stage that ends, of 100, 1,000, 10,000".to_owned(),
        figure: format!("{} ns", all.join(", ")),
        baseline: format!("of 100 {first:.0} ns, {:.1} times", last / first),
        promise: format!("at most {COST_TIMES_MAX} times"),
        kept: last / first <= COST_TIMES_MAX,
    }
}

// shows: PLN-19
fn order(figures: &Figures) -> Row {
    Row {
        what: "1,000 random plans: time by the order that was chosen".to_owned(),
        figure: format!(
            "{:.1} % above the bound on average, {:.2} times at worst",
            (figures.mean - 1.0) * 100.0,
            figures.worst
        ),
        baseline: "longest chain, or all work divided".to_owned(),
        promise: "never beyond (2 - 1/m) times".to_owned(),
        kept: figures.beyond == 0,
    }
}

fn chains() -> Result<Vec<Row>, String> {
    let place = shell::target_dir().join("bench/plan");
    let (mut plain, mut git, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    // Alternating, so that a busy moment affects all three.
    for _ in 0..ROUNDS {
        plain.extend(gaps(&place.join("plain"), Place::Plain)?);
        git.extend(gaps(&place.join("git"), Place::Git)?);
        bare.extend(bare_git(&place.join("bare"))?);
    }
    let (plain, git, bare) = (median(plain), median(git), median(bare));
    Ok(vec![
        Row {
            what: "from a stage's end to the next one's agent, without git".to_owned(),
            figure: format!("{plain:.0} ms"),
            baseline: "-".to_owned(),
            promise: format!("at most {GAP_MS_MAX:.0} ms"),
            kept: plain <= GAP_MS_MAX,
        },
        Row {
            what: "the same with git".to_owned(),
            figure: format!("{git:.0} ms"),
            baseline: format!(
                "its git commands alone {bare:.0} ms, {:.1} times",
                git / bare
            ),
            promise: format!("at most {GIT_TIMES_MAX} times"),
            kept: git / bare <= GIT_TIMES_MAX,
        },
    ])
}

/// Where a chain runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Plain,
    Git,
    /// With the live view.
    Terminal,
}

/// The gaps of a chain, by the log: from the end of a stage's last attempt to the start of the next stage's
/// first.
pub(super) fn gaps(dir: &Path, place: Place) -> Result<Vec<f64>, String> {
    let home = dir.join("home");
    let project = dir.join("project");
    shell::clear(&home)?;
    shell::clear(&project)?;
    shell::write(&project.join("plan.toml"), &chain())?;
    if place == Place::Git {
        begin_repository(&project)?;
    }
    let ekiden = shell::target_dir().join("release/ekiden");
    let (manifest, state) = (project.join("plan.toml"), home.join("state"));
    let words = [
        "execute",
        "--agent",
        "rehearsal",
        "--yes",
        "--no-notify",
        "--work-dir",
    ];
    let run = Program::new(ekiden, &words).arg(&project).arg(&manifest);
    let run = run
        .with("EKIDEN_REHEARSAL_STEP_MS", "0")
        .with("EKIDEN_STATE_DIR", &state)
        // The build directory lies in a repository that has nothing to do with them.
        .with("GIT_CEILING_DIRECTORIES", dir);
    let run = run.with("HOME", home);
    match place {
        Place::Plain | Place::Git => run.output()?,
        Place::Terminal => run.on_terminal().output()?,
    };
    let log =
        log_below(&state).ok_or_else(|| format!("there is no log below {}", state.display()))?;
    Ok(gaps_in(&shell::read(&log)?))
}

fn gaps_in(log: &str) -> Vec<f64> {
    let (mut ended, mut gaps) = (None, Vec::new());
    for record in log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
    {
        let time = record["time"].as_f64();
        match record["event"]["event"]["event"]["kind"].as_str() {
            Some("ended") => ended = time,
            Some("started") => {
                gaps.extend(ended.take().zip(time).map(|(ended, time)| time - ended));
            }
            _ => {}
        }
    }
    gaps
}

fn chain() -> String {
    let stages = (0..CHAIN).map(|at| {
        let needs = if at == 0 { String::new() } else { format!("needs = [\"S{}\"]\n", at - 1) };
        format!("[[stage]]\nid = \"S{at}\"\nname = \"Stage {at}\"\n{needs}prompt = '''\n- [ ] It\n  ```sh\n  echo {at} > {at}.txt\n  ```\n'''\n\n")
    });
    format!(
        "format = 1\nproject = \"chain\"\n\n{}",
        stages.collect::<String>()
    )
}

pub(super) fn begin_repository(dir: &Path) -> Result<(), String> {
    for words in [
        &["init", "--quiet", "--initial-branch=main"][..],
        &["config", "user.name", "Bench"],
        &["config", "user.email", "bench@example.invalid"],
        &["add", "--all"],
        &["commit", "--quiet", "--message", "begin"],
    ] {
        git(dir, words)?;
    }
    Ok(())
}

/// The commands that a stage cannot avoid between its agent's end and the next one's start: its commit, the
/// merge on a separate tree, moving the branch, a new tree, and a look at it.
fn bare_git(dir: &Path) -> Result<Vec<f64>, String> {
    let (project, whole) = (dir.join("project"), dir.join("whole"));
    shell::clear(dir)?;
    shell::write(&project.join("begin"), "begin\n")?;
    begin_repository(&project)?;
    let whole_name = whole.display().to_string();
    git(&project, &["branch", "all"])?;
    git(
        &project,
        &["worktree", "add", "--quiet", "--detach", &whole_name, "all"],
    )?;
    let mut times = Vec::new();
    for at in 0..CHAIN {
        let tree = dir.join(format!("tree-{at}"));
        let (tree_name, branch) = (tree.display().to_string(), format!("stage-{at}"));
        git(
            &project,
            &[
                "worktree", "add", "--quiet", "-b", &branch, &tree_name, "all",
            ],
        )?;
        shell::write(&tree.join(format!("{at}.txt")), "text\n")?;
        let next = dir.join(format!("next-{at}")).display().to_string();
        let (done, took) = shell::timed(|| {
            git(&tree, &["add", "--all"])?;
            git(&tree, &["commit", "--quiet", "--message", "stage"])?;
            git(&tree, &["status", "--porcelain"])?;
            git(&whole, &["checkout", "--quiet", "--detach", "all"])?;
            git(
                &whole,
                &["merge", "--quiet", "--no-ff", "--message", "merge", &branch],
            )?;
            git(&whole, &["update-ref", "refs/heads/all", "HEAD"])?;
            git(&whole, &["diff", "--name-only", "HEAD^1", "HEAD"])?;
            git(
                &project,
                &[
                    "worktree",
                    "add",
                    "--quiet",
                    "-b",
                    &format!("next-{at}"),
                    &next,
                    "all",
                ],
            )?;
            git(Path::new(&next), &["status", "--porcelain"])
        });
        done?;
        times.push(took.as_secs_f64() * 1e3);
    }
    Ok(times)
}

fn git(dir: &Path, words: &[&str]) -> Result<(), String> {
    // What it commits is to survive a power cut, as what ekiden commits does.
    let synced = [
        "-c",
        "core.fsync=committed,reference",
        "-c",
        "core.fsyncMethod=batch",
    ];
    let at_dir = Program::new("git", &synced).arg("-C").arg(dir);
    words.iter().fold(at_dir, Program::arg).output().map(|_| ())
}

fn log_below(dir: &Path) -> Option<PathBuf> {
    for entry in dir.read_dir().ok()?.flatten() {
        let path = entry.path();
        if path.file_name().is_some_and(|name| name == "log.jsonl") {
            return Some(path);
        }
        if let Some(found) = path.is_dir().then(|| log_below(&path)).flatten() {
            return Some(found);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_reaches_from_an_agents_end_to_the_next_ones_start() {
        let record = |time: u32, kind: &str| {
            format!(
                "{{\"time\":{time},\"event\":{{\"kind\":\"stage\",\"event\":{{\"event\":{{\"kind\":\"{kind}\"}}}}}}}}\n"
            )
        };
        let log = [
            record(1, "started"),
            record(5, "ended"),
            record(6, "archived"),
            record(12, "started"),
        ];
        assert_eq!(gaps_in(&log.concat()), [7.0]);
    }

    #[test]
    fn one_plan_beyond_the_bound_is_one_too_many() {
        let figures = |beyond| Figures {
            load_ms: vec![300.0],
            parse_ms: vec![100.0],
            cost_ns: vec![1_000.0, 1_100.0, 1_900.0],
            worst: 1.4,
            mean: 1.02,
            beyond,
        };
        assert!(order(&figures(0)).kept && !order(&figures(1)).kept);
        assert!(load(&figures(0)).kept && cost(&figures(0)).kept);
        assert_eq!(
            order(&figures(0)).figure,
            "2.0 % above the bound on average, 1.40 times at worst"
        );
    }
}
