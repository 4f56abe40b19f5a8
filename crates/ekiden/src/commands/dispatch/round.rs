//! What a round of the dispatcher does, decided from the issues that want work and the existing worktrees.

use super::place::{IssueWorktree, Standing};

/// What is to be done, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The place's run hands off and stops: nobody wants it any more.
    Stop(usize),
    /// The place is no longer needed.
    Clear(usize),
    /// The place's run goes on.
    Resume(usize),
    /// A run for this one of the issues that want work.
    Take(usize),
}

/// Whether anybody wants an issue worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Yes,
    /// It could not go on, and is tried again after a pause.
    Later,
    No,
    /// The tracker does not say: everything stays as it is.
    Unknown,
}

/// The steps of a round. `wanted` are the ids of issues that want work, those to begin with first. Each place comes
/// with whether its issue is wanted. At most `jobs` runs work at a time; the budget has room for `room` new ones.
pub(super) fn steps(
    wanted: &[String],
    places: &[(&IssueWorktree, Wanted)],
    jobs: usize,
    room: usize,
) -> Vec<Step> {
    let mut steps = Vec::new();
    for (at, (place, wants)) in places.iter().enumerate() {
        let step = match &place.standing {
            Standing::Works(_) => Some(Step::Stop(at)),
            Standing::Over(_, outcome) if outcome.is_complete() => Some(Step::Clear(at)),
            Standing::Empty
            | Standing::Begins
            | Standing::Stops(_)
            | Standing::CutOff(_)
            | Standing::Over(..)
            | Standing::Unreadable(_) => None,
        };
        steps.extend(step.filter(|_| *wants == Wanted::No));
    }
    let at_work = places.iter().filter(|(place, _)| place.is_at_work());
    let free = jobs.saturating_sub(at_work.count());
    // Work that was begun comes before new work.
    let cut_off = |(at, (place, wants)): (usize, &(&IssueWorktree, Wanted))| {
        let goes_on = matches!(place.standing, Standing::CutOff(_)) && *wants == Wanted::Yes;
        goes_on.then_some(Step::Resume(at))
    };
    let resumed = places.iter().enumerate().filter_map(cut_off);
    let is_taken = |id: &String| {
        let is_its = |(place, _): &&(&IssueWorktree, Wanted)| place.issue == *id;
        places
            .iter()
            .filter(is_its)
            .any(|(place, _)| place.standing != Standing::Empty)
    };
    let new = wanted.iter().enumerate().filter(|(_, id)| !is_taken(id));
    let new = new.map(|(at, _)| Step::Take(at)).take(room);
    let begun = resumed.chain(new);
    steps.extend(begun.take(free));
    steps
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use ekiden_core::ids::RunId;
    use ekiden_core::outcome::Outcome;
    use ekiden_core::time::Timestamp;
    use ekiden_engine::workspace::Workspace;

    use super::super::place::IssueRun;
    use super::*;

    fn place(issue: &str, standing: Standing) -> IssueWorktree {
        IssueWorktree {
            label: None,
            issue: issue.to_owned(),
            tree: PathBuf::from("/t"),
            workspace: Workspace::at(PathBuf::from("/t"), None, PathBuf::new()),
            standing,
        }
    }

    fn work() -> IssueRun {
        IssueRun {
            run: RunId::from_bits(7),
            issue: None,
            spent_micro_usd: 3,
            last: Timestamp(0),
        }
    }

    fn over(outcome: Outcome) -> Standing {
        Standing::Over(work(), outcome)
    }

    fn ids(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    fn decided(wanted: &[&str], places: &[(IssueWorktree, Wanted)], jobs: usize) -> Vec<Step> {
        let places: Vec<(&IssueWorktree, Wanted)> = places
            .iter()
            .map(|(place, wants)| (place, *wants))
            .collect();
        steps(&ids(wanted), &places, jobs, usize::MAX)
    }

    // shows: TRK-10
    #[test]
    fn issues_are_taken_in_order_as_far_as_there_is_room() {
        assert_eq!(
            decided(&["a", "b", "c"], &[], 2),
            [Step::Take(0), Step::Take(1)]
        );
        let works = [(place("a", Standing::Works(work())), Wanted::Yes)];
        assert_eq!(decided(&["a", "b", "c"], &works, 2), [Step::Take(1)]);
        assert_eq!(decided(&["a", "b"], &works, 1), []);
        let begins = [(place("a", Standing::Begins), Wanted::Yes)];
        assert_eq!(decided(&["a"], &begins, 2), []);
        let two = steps(&ids(&["a", "b"]), &[], 2, 1);
        assert_eq!(two, [Step::Take(0)], "there is money for one");
    }

    // shows: TRK-10
    #[test]
    fn a_run_that_may_go_on_takes_its_whole_budget() {
        let takes = |standing| place("a", standing).takes_micro_usd(10);
        assert_eq!((takes(Standing::Begins), takes(Standing::Empty)), (10, 0));
        assert_eq!(takes(Standing::CutOff(work())), 10);
        assert_eq!(takes(Standing::Unreadable("damaged".to_owned())), 10);
        assert_eq!(takes(over(Outcome::SessionLimit)), 3);
    }

    // shows: TRK-10
    #[test]
    fn no_issue_is_taken_twice() {
        for outcome in [
            Outcome::Complete { verified: true },
            Outcome::SessionLimit,
            Outcome::Blocked {
                question: "which?".to_owned(),
            },
        ] {
            let there = [(place("a", over(outcome)), Wanted::Yes)];
            assert_eq!(decided(&["a"], &there, 2), []);
        }
        let unreadable = Standing::Unreadable("damaged".to_owned());
        assert_eq!(
            decided(&["a"], &[(place("a", unreadable), Wanted::Yes)], 2),
            []
        );
        // A worktree whose run never began is used.
        let empty = [(place("a", Standing::Empty), Wanted::Yes)];
        assert_eq!(decided(&["a"], &empty, 2), [Step::Take(0)]);
    }

    // shows: TRK-10
    #[test]
    fn what_was_cut_off_goes_on_before_anything_new() {
        let places = [
            (place("b", Standing::CutOff(work())), Wanted::Yes),
            (place("c", Standing::CutOff(work())), Wanted::Unknown),
            (place("d", Standing::CutOff(work())), Wanted::No),
        ];
        assert_eq!(decided(&["a", "b"], &places, 1), [Step::Resume(0)]);
        assert_eq!(
            decided(&["a", "b"], &places, 9),
            [Step::Resume(0), Step::Take(0)]
        );
    }

    // shows: TRK-10
    #[test]
    fn a_run_that_could_not_go_on_leaves_its_room_to_others_until_it_is_tried_again() {
        let places = [(place("a", Standing::CutOff(work())), Wanted::Later)];
        assert_eq!(decided(&["b"], &places, 1), [Step::Take(0)]);
    }

    // shows: TRK-10
    #[test]
    fn what_nobody_wants_stops_and_what_has_served_is_cleared() {
        let places = [
            (place("a", Standing::Works(work())), Wanted::No),
            (place("b", Standing::Works(work())), Wanted::Unknown),
            (
                place("c", over(Outcome::Complete { verified: true })),
                Wanted::No,
            ),
            (place("d", over(Outcome::SessionLimit)), Wanted::No),
        ];
        assert_eq!(decided(&[], &places, 9), [Step::Stop(0), Step::Clear(2)]);
    }
}
