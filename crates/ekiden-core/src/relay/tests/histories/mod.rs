//! Recorded relays, good and bad, and what is decided about each: the rules of [`crate::judge`] over
//! whole histories, through the relay itself.
//!
//! A history is a row of sessions, `TREE CHECK ITEMS NOTES`, with `xN` for N alike:
//!
//! | tree | | check | |
//! |---|---|---|---|
//! | `+` | another, not committed | `f` `F` | fails, fails in another way |
//! | `c` | another, committed | `p` | passes |
//! | `=` | the same | `t` | takes too long |
//! | `e` | the same, a commit without content | `-` | there is none |
//! | `<` `r` | that of two sessions before; by a commit | | |
//! | `~` | a file that only tells the time was touched | | |
//! | `?` | cannot be looked at | | |
//!
//! Items are `open/done`; `9/0-` ticks one in each further session of the row; `-` is no list. Notes are
//! named as in [`super::histories::pages`]. Settings are words as everywhere in these tests, `green` is a
//! verification that passes before session 1.

mod pages;

use super::track::Track;
use crate::relay::{Phase, ReviewStep};

type Row = (&'static str, &'static str, &'static str, &'static str);

/// Relays that make progress. None of them may be stopped.
const GOOD: &[Row] = &[
    (
        "a file a session, one number of the notes changes",
        "git check",
        "+ f 30/0- count x30",
        "goes on",
    ),
    (
        "notes and progress grow from session to session",
        "git check",
        "+ f - grow x14",
        "goes on",
    ),
    (
        "a refactoring of the same files, almost the same notes",
        "git check green",
        "+ p - line x12",
        "goes on",
    ),
    (
        "commits with ever the same notes",
        "git check",
        "c f - same x12",
        "goes on",
    ),
    (
        "commits that take back and try anew",
        "git check",
        "c f - new x2; r f - words x8",
        "goes on",
    ),
    (
        "restates the task and works",
        "git check",
        "+ f - restates x8",
        "goes on",
    ),
    (
        "reads for a session, then works",
        "git check",
        "= f 5/0 new; + f 5/0- new x5",
        "goes on",
    ),
    (
        "two sessions to think, one to work",
        "git check",
        "= f - new; c f - new; = f - new x2; c f - new; = f - new x2; c f - new",
        "goes on",
    ),
    (
        "undoes one wrong way",
        "git check",
        "+ f - new x2; < f - words; + f - new x3",
        "goes on",
    ),
    (
        "ticks off a list without a change of the tree",
        "git",
        "= - 8/0- count x8",
        "goes on",
    ),
    (
        "finds more items than it began with",
        "git",
        "= - 5/0 new; = - 12/0 new; = - 11/1- new x9",
        "goes on",
    ),
    (
        "the check gets on, outside the tree",
        "git check",
        "= f - new; = F - new; = t - new; + f - new",
        "goes on",
    ),
    (
        "a list without a tree: no git",
        "",
        "+ - 6/0- count x6",
        "goes on",
    ),
    (
        "no git and no list, but files",
        "",
        "+ - - same x9",
        "goes on",
    ),
    (
        "rescues between good sessions",
        "git check",
        "+ f - new; + f - none; + f - new; = f - none; + f - new; + f - none",
        "goes on",
    ),
    (
        "two crashes, then work, twice",
        "git check",
        "= f - crash x2; + f - new; = f - crash x2; + f - new",
        "goes on",
    ),
    (
        "a usage limit in every session",
        "git check",
        "+ f - limited x6",
        "goes on",
    ),
    (
        "nothing but usage limits for a while",
        "git check",
        "+ f - new; = f - limited; = f - limited; + f - limited",
        "goes on",
    ),
    (
        "is vetoed, mends, is done",
        "git check",
        "+ f - claim x2; + p - claim",
        "complete after 3",
    ),
    (
        "is done without a claim",
        "git check",
        "+ f 3/0- new x3; + p 0/3 new",
        "complete after 4",
    ),
    (
        "already green, works, claims",
        "git check green",
        "+ p 6/0- count x5; = p 1/5 claim",
        "complete after 6",
    ),
    (
        "already green, and nothing was to do",
        "git check green",
        "= p - claim",
        "complete after 1",
    ),
    (
        "already green, two idle sessions before the claim",
        "git check green",
        "+ p - new; = p - words x2; = p - claim",
        "complete after 4",
    ),
    (
        "research: notes that grow",
        "git research",
        "= - - grow x12",
        "goes on",
    ),
    (
        "research: a fact a session",
        "git research",
        "= - - facts x10",
        "goes on",
    ),
    (
        "research: new progress under the same notes",
        "git research",
        "= - - told x10",
        "goes on",
    ),
    (
        "research: new notes",
        "research",
        "= - - new x10",
        "goes on",
    ),
    (
        "research: restates the task",
        "research",
        "= - - restates x8",
        "goes on",
    ),
    (
        "research: a list and one number",
        "research",
        "= - 9/0- count x9",
        "goes on",
    ),
    (
        "research: other words",
        "research",
        "= - - words x8",
        "goes on",
    ),
    (
        "a person who wants no stall rule",
        "git check stall=0",
        "= f - words x9",
        "goes on",
    ),
    (
        "a person with more patience",
        "git check stall=6",
        "= f - words x6; + f - new; = f - words x5",
        "goes on",
    ),
    (
        "an agent by files alone, quick and without a handoff",
        "git exec",
        "+ - - quick x9",
        "goes on",
    ),
    (
        "an agent by files alone, slow and silent",
        "exec",
        "+ - - silent x9",
        "goes on",
    ),
    (
        "the check says the same, a list gets shorter",
        "git check",
        "= f 6/0- same x6",
        "goes on",
    ),
    (
        "a rescue after each good session",
        "git check",
        "+ f - words; = f - none; + f - words; = f - none; + f - words",
        "goes on",
    ),
    (
        "takes a commit back, and finds another way",
        "git check",
        "c f - new; r f - new; c f - new x2; r f - new; c f - new x3",
        "goes on",
    ),
    (
        "already green, works off a list elsewhere",
        "git check green",
        "= p 8/0- new x7; = p 0/8 claim",
        "complete after 8",
    ),
    (
        "one session works, two look on, ever again",
        "git check",
        "+ f - words; = f - words x2; + f - words; = f - words x2; + f - words",
        "goes on",
    ),
    (
        "limits and crashes between good sessions",
        "git check",
        "+ f - limited; = f - crash x2; + f - limited; = f - crash; + f - new",
        "goes on",
    ),
    (
        "research: a check that keeps failing",
        "git check research",
        "= f - new x8",
        "goes on",
    ),
    (
        "research: says the same twice, then goes on",
        "research",
        "= - - same x3; = - - new x2; = - - same x3; = - - new",
        "goes on",
    ),
    (
        "a vetoed claim in every second session",
        "git check",
        "+ f - claim; + f - new; + f - claim; + f - new; + p - claim",
        "complete after 5",
    ),
];

/// Relays that make no progress. Each must be stopped, no later than this.
const BAD: &[Row] = &[
    (
        "the very same handoff",
        "git check",
        "= f - same x9",
        "stuck after 4",
    ),
    (
        "the same, but for a number",
        "git check",
        "= f 7/2 count x9",
        "stuck after 4",
    ),
    (
        "the same, but for one line",
        "git check",
        "= f - line x9",
        "stuck after 4",
    ),
    (
        "restates task and notes",
        "git check",
        "= f - echoes x9",
        "stuck after 4",
    ),
    (
        "the same without git",
        "check",
        "= f - same x9",
        "stuck after 4",
    ),
    (
        "the same without a check",
        "git",
        "= - - same x9",
        "stuck after 4",
    ),
    (
        "works, then repeats itself",
        "git check",
        "+ f 9/0- new x4; = f 5/4 same x9",
        "stuck after 8",
    ),
    (
        "repeats itself through rescues",
        "git check stall=0",
        "= f - same x2; = f - none; = f - same x9",
        "stuck after 5",
    ),
    (
        "the same although nobody wants a stall rule",
        "git check stall=0",
        "= f - same x9",
        "stuck after 4",
    ),
    (
        "grows, but nothing moves",
        "git check stall=0",
        "= f - grow x9",
        "stuck after 7",
    ),
    (
        "research: the very same",
        "research",
        "= - - same x9",
        "stuck after 4",
    ),
    (
        "research: one line turns about",
        "research",
        "= - - line x9",
        "stuck after 4",
    ),
    (
        "research: repeats after a good beginning",
        "git research",
        "= - - new x5; = - - same x9",
        "stuck after 9",
    ),
    (
        "other words for the same nothing",
        "git check",
        "= f - words x9",
        "stalled after 4",
    ),
    (
        "two handoffs in turn",
        "git check",
        "= f - turns x9",
        "stalled after 4",
    ),
    (
        "new notes every time, and no work",
        "git check",
        "= f - new x9",
        "stalled after 4",
    ),
    (
        "works, then only talks",
        "git check",
        "c f 9/0- new x5; = f 5/4 words x9",
        "stalled after 8",
    ),
    (
        "touches a file that tells the time",
        "git check",
        "~ f - words x9",
        "stalled after 4",
    ),
    (
        "commits without content",
        "git check",
        "e f - words x9",
        "stalled after 4",
    ),
    (
        "a check that flaps",
        "git check claim",
        "= f - words; = p - words; = f - words; = p - words x6",
        "stalled after 5",
    ),
    (
        "does and undoes",
        "git check",
        "+ f - new x2; < f - words x9",
        "stalled after 5",
    ),
    (
        "opens what it ticked",
        "git check",
        "= f 5/0 words; = f 4/1 words; = f 5/0 words; = f 4/1 words; = f 5/0 words x4",
        "stalled after 5",
    ),
    (
        "items vanish until none is left",
        "git",
        "= - 9/0 words; = - 6/0 words; = - 3/0 words; = - 0/0 words x9",
        "stalled after 7",
    ),
    (
        "claims what the check denies",
        "git check",
        "= f - claim x9",
        "stalled after 4",
    ),
    (
        "fills its window and leaves nothing",
        "git check",
        "= f - none x9",
        "stuck after 3",
    ),
    (
        "already green, never claims, does nothing",
        "git check green",
        "= p - words x9",
        "stalled after 4",
    ),
    (
        "an impatient person",
        "git check stall=1",
        "= f - words x9",
        "stalled after 2",
    ),
    (
        "items grow and nothing else",
        "git",
        "= - 5/0 words; = - 6/0 words; = - 7/0 words; = - 8/0 words x9",
        "stalled after 4",
    ),
    (
        "no git, nothing moves",
        "",
        "= - - words x9",
        "stalled after 4",
    ),
    (
        "an agent by files alone that only talks",
        "git exec",
        "= - - spoke x9",
        "stuck after 3",
    ),
    ("crashes", "git check", "= f - crash x9", "crashed after 3"),
    (
        "works, then crashes, though it changes files",
        "git check",
        "+ f - new; + f - crash x9",
        "crashed after 4",
    ),
    (
        "an agent by files alone that does nothing",
        "git exec",
        "= - - quick x9",
        "crashed after 3",
    ),
    (
        "does nothing where nothing can be seen",
        "exec",
        "? - - quick x9",
        "crashed after 3",
    ),
    (
        "touches the time, and repeats itself",
        "git check",
        "~ f - same x9",
        "stuck after 4",
    ),
    (
        "commits nothing, and repeats itself",
        "git check",
        "e f - same x9",
        "stuck after 4",
    ),
    (
        "claims and talks in turn",
        "git check",
        "= f - claim; = f - words; = f - claim; = f - words x6",
        "stalled after 4",
    ),
    (
        "limits hide that nothing moves",
        "git check",
        "= f - limited x9",
        "stalled after 4",
    ),
    (
        "rescues and talk in turn",
        "git check",
        "= f - none; = f - words; = f - none; = f - words x6",
        "stalled after 4",
    ),
    (
        "items go and come back",
        "git",
        "= - 9/0 words; = - 2/0 words; = - 9/0 words; = - 2/0 words; = - 9/0 words x6",
        "stalled after 5",
    ),
    (
        "research: restates the task and no more",
        "research",
        "= - - echoes x9",
        "stuck after 4",
    ),
    (
        "research: the same through rescues",
        "research",
        "= - - same; = - - none; = - - same x9",
        "stuck after 5",
    ),
    (
        "works long, then loops among trees it had",
        "git check",
        "+ f - new x3; < f - words; < f - words; < f - words x9",
        "stalled after 6",
    ),
];

/// What cannot be seen decides nothing, so only the limit of sessions ends these.
const UNSEEN: &[Row] = &[
    (
        "the tree cannot be looked at",
        "git check",
        "? f - words x9",
        "goes on",
    ),
    (
        "for a while",
        "git check",
        "= f - words; ? f - words x4; = f - words x3",
        "stalled after 8",
    ),
    (
        "the same notes all the while",
        "git check",
        "? f - same x9",
        "goes on",
    ),
];

// shows: REL-08, REL-13, REL-14, REL-15
#[test]
fn no_good_relay_is_stopped() {
    compare(GOOD);
    let stopped = |row: &&Row| row.3 != "goes on" && !row.3.starts_with("complete");
    assert_eq!(GOOD.iter().find(stopped), None);
}

// shows: REL-08, REL-13, REL-14, REL-15
#[test]
fn every_bad_relay_is_stopped_in_time() {
    compare(BAD);
    assert_eq!(BAD.iter().find(|row| row.3 == "goes on"), None);
}

// shows: REL-13, REL-14
#[test]
fn what_cannot_be_seen_stops_nothing() {
    compare(UNSEEN);
}

fn compare(rows: &[Row]) {
    let wrong: String = rows
        .iter()
        .map(|(name, given, sessions, verdict)| (name, verdict, play(given, sessions)))
        .filter(|(_, verdict, found)| **verdict != found)
        .map(|(name, verdict, found)| format!("{name}: {found}, not {verdict}\n"))
        .collect();
    assert!(wrong.is_empty(), "{wrong}");
}

/// Lets the sessions happen. The verdict is how the run ended, if it did.
fn play(given: &str, sessions: &str) -> String {
    let green = given.contains("green");
    let mut player = Player {
        track: Track::begin(&format!("judged max=60 {}", given.replace("green", ""))),
        trees: vec!["start".to_owned()],
        author: pages::Author::default(),
    };
    player.track.words("tree:start");
    player.look("survey:", if green { 'p' } else { 'f' });
    for row in sessions.split(';') {
        for session in of_row(row) {
            player.session(&session);
            if let Some(verdict) = player.verdict() {
                player.track.assert_folds();
                return verdict;
            }
        }
    }
    player.track.assert_folds();
    "goes on".to_owned()
}

/// A session of a row.
#[derive(Debug, Clone)]
struct Session<'a> {
    tree: char,
    check: char,
    items: Option<(usize, usize)>,
    notes: &'a str,
}

fn of_row(row: &str) -> Vec<Session<'_>> {
    let mut words = row.split_whitespace();
    let mut word = || words.next().unwrap_or_default();
    let (tree, check, items, notes, times) = (word(), word(), word(), word(), word());
    let ticks = usize::from(items.len() > 1 && items.ends_with('-'));
    let items = items.trim_end_matches('-').split_once('/');
    let items = items.map(|(open, done)| {
        (
            open.parse::<usize>().unwrap(),
            done.parse::<usize>().unwrap(),
        )
    });
    let first = |text: &str| text.chars().next().unwrap();
    let times = times
        .strip_prefix('x')
        .map_or(1, |times| times.parse().unwrap());
    (0..times)
        .map(|n| Session {
            tree: first(tree),
            check: first(check),
            items: items.map(|(open, done)| (open - n * ticks, done + n * ticks)),
            notes,
        })
        .collect()
}

struct Player {
    track: Track,
    /// The tree after each session, and before the first.
    trees: Vec<String>,
    author: pages::Author,
}

impl Player {
    fn session(&mut self, session: &Session<'_>) {
        self.works(session);
        self.work_tree(session.tree);
        let survey = match session.tree {
            '?' => "survey:failed",
            'c' | 'e' | 'r' => "survey:one",
            _ => "survey:",
        };
        self.look(survey, session.check);
    }

    fn works(&mut self, session: &Session<'_>) {
        let track = &mut self.track;
        match session.notes {
            "crash" => track.words("crashes"),
            "none" => track.words("up works ends:full"),
            "quick" => track.words("up ends:empty"),
            "silent" => track.words("up ends:silent"),
            "spoke" => track.words("up ends:spoke"),
            notes => {
                if notes == "limited" {
                    track.words("up works ends:limit=60 wake");
                }
                track.words("up");
                let pages = self.author.write(notes, session.items);
                track.leaves(&pages.progress, &pages.next_prompt, &pages.knowledge);
                // What is asked about once is asked about: such agents leave it as it is.
                track.words("turn heard turn ends:done")
            }
        };
    }

    fn work_tree(&mut self, how: char) {
        let session = self.trees.len();
        let before = |sessions: usize| self.trees[session.saturating_sub(sessions)].clone();
        let tree = match how {
            '+' | 'c' => format!("tree-{session}"),
            '<' | 'r' => before(2),
            '=' | 'e' | '~' | '?' => before(1),
            how => panic!("no such tree: {how}"),
        };
        self.track.words(&format!("tree:{tree}"));
        if how == '~' {
            self.track
                .words(&format!("tree:touched-{session} substance:{tree}"));
        }
        self.trees.push(tree);
    }

    /// Answers every survey and check, and lets waits pass, until the next session begins.
    fn look(&mut self, survey: &str, check: char) {
        let check = match check {
            'f' => "verify:fail",
            'F' => "verify:other",
            'p' => "verify:pass",
            't' => "verify:late",
            _ => "verify:missing",
        };
        loop {
            match &self.track.relay().phase {
                Phase::Reviewing {
                    step: ReviewStep::Commit,
                    ..
                } => self.track.words("commit"),
                Phase::Reviewing {
                    step:
                        ReviewStep::Survey | ReviewStep::BeforeReviewer | ReviewStep::AfterReviewer,
                    ..
                } => self.track.words(survey),
                Phase::Reviewing {
                    step: ReviewStep::Verification,
                    ..
                } => self.track.words(check),
                Phase::Waiting { .. } => self.track.words("wake"),
                Phase::Planned | Phase::Running(_) | Phase::Paused { .. } | Phase::Ended { .. } => {
                    return;
                }
            };
        }
    }

    fn verdict(&self) -> Option<String> {
        use crate::outcome::Outcome;
        let after = self.trees.len() - 1;
        let word = match self.track.relay().outcome()? {
            Outcome::Complete { .. } => "complete",
            Outcome::Stuck { .. } => "stuck",
            Outcome::Stalled { .. } => "stalled",
            Outcome::TooManyCrashes { .. } => "crashed",
            other @ (Outcome::Undelivered { .. }
            | Outcome::Blocked { .. }
            | Outcome::SessionLimit
            | Outcome::Stopped { .. }
            | Outcome::LimitTooFar { .. }
            | Outcome::Denied { .. }
            | Outcome::RateLimited { .. }
            | Outcome::BudgetSpent { .. }
            | Outcome::WindowTooFull { .. }
            | Outcome::NoCheck { .. }
            | Outcome::NoWorktree { .. }
            | Outcome::NotMerged { .. }
            | Outcome::Unmerged { .. }
            | Outcome::NotDone { .. }
            | Outcome::StagesFailed { .. }
            | Outcome::AgentFailed { .. }) => panic!("{other:?}"),
        };
        Some(format!("{word} after {after}"))
    }
}
