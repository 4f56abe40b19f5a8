//! `ekiden issue`: shows and creates issues. Also what `ekiden run --issue` takes from one.

use clap::{Args, Subcommand};
use ekiden_core::issue::{Issue, IssueRef, TrackerKind};
use ekiden_core::prompt::issue_task;
use ekiden_core::secrets::mask;
use ekiden_core::settings::RunStarted;
use ekiden_core::text::{clean, shell_word, slug};
use ekiden_core::time::Timestamp;
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_engine::git::branch;
use ekiden_engine::workspace::Workspace;
use ekiden_tracker::{NewIssue, Tracker, of_people};

use super::task::Task;
use super::{Invocation, repository};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::json::Fields;
use crate::output::line::{Line, Tone, one_line};
use crate::settings::flags::{Asking, Typed};
use crate::settings::table;
use crate::tracker::{Trackers, failure};

/// A branch's part that is made of a title, in characters.
const TITLE_CHARS_MAX: usize = 40;

/// List, show and create issues
///
/// Issues are files in .issues/ unless `tracker.kind` says linear or github. Each file has a front matter with title,
/// state, labels and parent, and a text. You can edit the files by hand and keep them in git.
#[derive(Args)]
pub struct IssueArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// List the open issues
    List {
        /// Only those with this label
        #[arg(long, value_name = "NAME")]
        label: Option<String>,
        #[command(flatten)]
        typed: Typed<Asking>,
    },
    /// Show an issue with its sub-issues and comments
    Show {
        /// ANV-123, owner/name#12, #12, an address, or the name of a file
        issue: String,
        #[command(flatten)]
        typed: Typed<Asking>,
    },
    /// Create an issue
    New {
        /// What it is about, in one line
        title: String,
        /// Its text: a file, `-` for standard input, or the text itself
        #[arg(long)]
        text: Option<String>,
        /// The parent issue
        #[arg(long, value_name = "ISSUE")]
        parent: Option<String>,
        #[command(flatten)]
        typed: Typed<Asking>,
    },
}

pub fn issue(args: &IssueArgs, output: &mut Output) -> Result<Exit, Failure> {
    let (What::List { typed, .. } | What::Show { typed, .. } | What::New { typed, .. }) =
        &args.what;
    let invocation = Invocation::new(typed.flags())?;
    let trackers = invocation.trackers(&invocation.workspace_here()?);
    match &args.what {
        What::List { label, .. } => list(&invocation, &trackers, label.as_deref(), output),
        What::Show { issue, .. } => show(&invocation, &trackers, issue, output),
        What::New {
            title,
            text,
            parent,
            ..
        } => {
            let text = text
                .as_ref()
                .map(|text| Task::read_as("text", text, output));
            let text = text.transpose()?.map(|task| task.text);
            new(
                &invocation,
                &trackers,
                title,
                &text.unwrap_or_default(),
                parent.as_deref(),
                output,
            )
        }
    }
}

fn list(
    invocation: &Invocation,
    trackers: &Trackers,
    label: Option<&str>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let kind = kind(trackers);
    let found = trackers
        .open_project(kind)
        .and_then(|tracker| tracker.find(label, None));
    let found = found.map_err(|fault| failure("list issues", kind, &fault))?;
    if kind == TrackerKind::Local {
        warn_of_unusable(trackers, output);
    }
    if invocation.json()? {
        return output.answer_json(&Fields::versioned().with("issues", found));
    }
    if found.is_empty() {
        let text = format!("no open issue in {}", kind.name());
        output.line(text);
        output.line(next(invocation, "ekiden issue new 'TITLE'")?);
    }
    for issue in &found {
        let name = format!("{:<16}  ", one_line(&issue.name));
        let mut rest = format!("  {}", one_line(&issue.state));
        issue
            .labels
            .iter()
            .for_each(|label| rest.push_str(&format!(" · {}", one_line(label))));
        let line = Line::new(Tone::Plain, name).with(Tone::Plain, one_line(&issue.title));
        output.line(line.with(Tone::Quiet, rest).hanging(18));
    }
    Ok(Exit::Done)
}

/// Files that look like issues, but that nothing can name or read.
pub(super) fn warn_of_unusable(trackers: &Trackers, output: &mut Output) {
    for (file, why) in trackers.local().unusable().unwrap_or_default() {
        output.warn(&format!("`{}` {}", one_line(&file), one_line(&why)));
    }
}

fn show(
    invocation: &Invocation,
    trackers: &Trackers,
    name: &str,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let issue = read(trackers, &trackers.named(name)?)?;
    if invocation.json()? {
        return output.answer_json(&Fields::versioned().with("issue", issue));
    }
    issue
        .summary_lines()
        .iter()
        .for_each(|line| output.line(one_line(line)));
    for text in [&issue.parent, &Some(issue.url.clone())]
        .into_iter()
        .flatten()
        .filter(|text| !text.is_empty())
    {
        output.line(Line::new(Tone::Quiet, one_line(text)));
    }
    if !issue.text.trim().is_empty() {
        output.answer(&format!("\n{}\n", clean(issue.text.trim()).text));
    }
    for comment in &issue.comments {
        output.line(Line::default());
        let head = format!("{}  {}", one_line(&comment.author), one_line(&comment.at));
        output.line(Line::new(Tone::Quiet, head));
        output.answer(&format!("{}\n", clean(comment.text.trim()).text));
    }
    output.line(next(invocation, &run_of(name))?);
    Ok(Exit::Done)
}

fn new(
    invocation: &Invocation,
    trackers: &Trackers,
    title: &str,
    text: &str,
    parent: Option<&str>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let parent = parent.map(|parent| trackers.named(parent)).transpose()?;
    let kind = parent
        .as_ref()
        .map_or(kind(trackers), |parent| parent.tracker);
    if kind != TrackerKind::Local {
        invocation.environment.refuse_a_session("make an issue")?;
    }
    if title.trim().is_empty() {
        return Err(Failure::new(Exit::InvalidInput, "the title is empty")
            .hint("say in a few words what is wanted"));
    }
    let tracker = match &parent {
        Some(parent) => trackers.open(parent),
        None => trackers.open_project(kind),
    };
    // If a person asks twice, they want two.
    let key = uuid::Uuid::new_v4().to_string();
    let new = NewIssue {
        key: &key,
        title: &mask(title),
        text: &mask(text),
        parent: parent.as_ref().map(|parent| parent.id.as_str()),
        since: SystemClock.now(),
    };
    let made = tracker.and_then(|tracker| {
        if let Some(parent) = new.parent {
            // GitHub and files would take any parent.
            tracker.issue(parent)?;
        }
        tracker.create(&new)
    });
    let made = made.map_err(|fault| failure("make the issue", kind, &fault))?;
    let made = match kind {
        TrackerKind::Github => format!("#{made}"),
        TrackerKind::Linear | TrackerKind::Local => made,
    };
    if invocation.json()? {
        return output.answer_json(&Fields::versioned().with("issue", made));
    }
    output.line(format!("made {}", one_line(&made)));
    output.line(next(invocation, &run_of(&made))?);
    Ok(Exit::Done)
}

fn next(invocation: &Invocation, command: &str) -> Result<Line, Failure> {
    let there = invocation.in_work_dir(&invocation.workspace_here()?.dir);
    Ok(Line::next(format!("{command}{there}")))
}

/// The command that works on an issue. A shell takes a bare `#12` for a comment.
fn run_of(issue: &str) -> String {
    format!("ekiden run --issue {}", shell_word(&one_line(issue)))
}

/// Where issues are listed and made: files, unless the user set a tracker.
fn kind(trackers: &Trackers) -> TrackerKind {
    trackers.kind().unwrap_or(TrackerKind::Local)
}

/// All of an issue, with the name that we know it by.
fn read(trackers: &Trackers, issue: &IssueRef) -> Result<Issue, Failure> {
    let what = format!("read issue {issue}");
    let read = |tracker: Box<dyn Tracker>| {
        let found = tracker.issue(&issue.id)?;
        Ok(Issue {
            name: issue.to_string(),
            comments: tracker.comments(&issue.id)?,
            ..found
        })
    };
    let found = trackers.open(issue).and_then(read);
    found.map_err(|fault| match issue.tracker {
        TrackerKind::Local => {
            failure(&what, issue.tracker, &fault).hint("`ekiden issue list` shows what there is")
        }
        TrackerKind::Linear | TrackerKind::Github => failure(&what, issue.tracker, &fault),
    })
}

/// Which issue a plan works on.
#[derive(Args, Debug, Default)]
pub struct PlanIssue {
    /// The issue that it works on and reports its progress to: ANV-123, owner/name#12, #12, its address, or the name of a file in .issues/
    #[arg(long, value_name = "ISSUE")]
    pub issue: Option<String>,
    /// Create a sub-issue for each stage, and close it when the stage is done
    #[arg(long, requires = "issue")]
    pub sub_issues: bool,
    /// Work on a new branch, and open a pull request for it when all stages are verified
    #[arg(long)]
    pub pull_request: bool,
}

impl PlanIssue {
    /// Notes the issue and the pull request in the run's first record.
    pub(super) fn settle(
        &self,
        header: &mut RunStarted,
        invocation: &Invocation,
        workspace: &Workspace,
    ) -> Result<(), Failure> {
        if let Some(name) = &self.issue {
            let trackers = invocation.trackers(workspace);
            let issue = trackers.named(name)?;
            // Nothing could report to an issue that is not there, or for which there is no key.
            read(&trackers, &issue)?;
            header.issue = Some(issue);
            header.sub_issues = self.sub_issues;
        }
        match self.pull_request {
            true => repository::fit_pull_request(header, invocation, workspace),
            false => Ok(()),
        }
    }
}

/// What a run takes from an issue.
pub(super) struct OfIssue {
    pub(super) task: Task,
    /// The time of the newest comment in the task, else when the issue was read.
    pub(super) read: Timestamp,
    issue: IssueRef,
    title: String,
}

impl OfIssue {
    /// Reads the issue; `own` is what the user wants of it.
    pub(super) fn read(
        invocation: &Invocation,
        workspace: &Workspace,
        name: &str,
        own: Option<&str>,
        output: &mut Output,
    ) -> Result<Self, Failure> {
        let trackers = invocation.trackers(workspace);
        let issue = trackers.named(name)?;
        let now = SystemClock.now();
        let mut found = read(&trackers, &issue)?;
        let times = found.comments.iter();
        let times = times.filter_map(|comment| Timestamp::parse_rfc3339(&comment.at));
        let read = times.max().unwrap_or(now);
        found.comments = of_people(found.comments);
        let own = own.map(|own| Task::read(own, output)).transpose()?;
        let trust = invocation
            .given
            .get(&table::TRACKER_TRUST)?
            .unwrap_or_default();
        let text = issue_task(&found, own.as_ref().map(|own| own.text.as_str()), &trust);
        let name = one_line(&format!("{issue} {}", found.title));
        Ok(Self {
            task: Task { text, name },
            read,
            issue,
            title: found.title,
        })
    }

    /// Notes the issue in the run's first record, with the branch that the user wants for it.
    pub(super) fn settle(
        self,
        header: &mut RunStarted,
        invocation: &Invocation,
        workspace: &Workspace,
    ) -> Result<(), Failure> {
        let named = invocation.given.get(&table::TRACKER_BRANCH)?;
        let named = named.filter(|_| header.place.branch.is_none() && workspace.git.is_some());
        let named = named.map(|form| branch_of(&form, &self.issue, &self.title));
        if let Some(name) = &named {
            branch::check(workspace, name)?;
            header.place.branch = named;
        }
        header.issue = Some(self.issue);
        header.issue_read = Some(self.read);
        Ok(())
    }
}

/// `feat/ANV-123-log-in-by-mail`
pub(super) fn branch_of(form: &str, issue: &IssueRef, title: &str) -> String {
    let title: String = title.chars().take(TITLE_CHARS_MAX).collect();
    let title = slug(&title);
    let mut form = form.to_owned();
    let says_id = title.starts_with(&issue.id) || issue.id.starts_with(&title);
    if says_id && form.contains("{issue}") {
        // A file is named after its title, which is then shown only once.
        for form_of_title in ["-{title}", "_{title}", "/{title}"] {
            form = form.replace(form_of_title, "");
        }
    }
    // A title may have no letters that a branch can have.
    let title = if title.is_empty() { &issue.id } else { &title };
    form.replace("{issue}", &issue.id).replace("{title}", title)
}

#[cfg(test)]
mod tests {
    use ekiden_core::guard::checkpoint::issue_of_branch;

    use super::*;

    // shows: TRK-07
    #[test]
    fn a_branch_that_is_made_for_an_issue_tells_it() {
        let issue = |tracker, id: &str| IssueRef {
            tracker,
            repo: String::new(),
            id: id.to_owned(),
        };
        let form = "feat/{issue}-{title}";
        let linear = branch_of(
            form,
            &issue(TrackerKind::Linear, "ANV-123"),
            "Log in: by ../mail!",
        );
        assert_eq!(
            (linear.as_str(), issue_of_branch(&linear).as_deref()),
            ("feat/ANV-123-log-in-by-mail", Some("ANV-123"))
        );
        let local = issue(TrackerKind::Local, "make-a-file");
        for title in ["Make a file", "Make a file, and then another one in it"] {
            assert_eq!(branch_of(form, &local, title), "feat/make-a-file");
        }
        for (title, branch) in [
            ("Make a file", "feat/make-a-file"),
            ("\u{767b}\u{5f55}", "feat/make-a-file"),
        ] {
            assert_eq!(branch_of("feat/{title}", &local, title), branch);
        }
        let github = branch_of(form, &issue(TrackerKind::Github, "12"), "Log in");
        assert_eq!(issue_of_branch(&github).as_deref(), Some("#12"));
    }
}
