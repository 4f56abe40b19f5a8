//! A long relay. That 10,000 sessions take as much memory and time each is measured by the benchmarks.

use super::track::Track;
use crate::handoff::tests::{KNOWLEDGE, NEXT_PROMPT, PROGRESS};
use crate::outcome::Outcome;

/// What is held and what is recorded, after one session.
fn measured(track: &Track, records_before: usize) -> [usize; 3] {
    let held = format!("{:?}", track.relay()).len();
    [
        held,
        track.prompt().len(),
        track.records.len() - records_before,
    ]
}

/// Each does something else and says so; what is worth knowing comes again and again.
// shows: DUR-06
#[test]
fn the_two_thousandth_session_holds_and_records_what_the_hundredth_did() {
    let mut track = Track::begin("max=2000");
    let mut after = Vec::new();
    for session in 1..=2_000 {
        track.forget();
        let before = track.records.len();
        let fact = format!(
            "## Core Knowledge\n\n- Suite {} needs no network.",
            session % 40
        );
        let knowledge = KNOWLEDGE.replace("## Core Knowledge", &fact);
        track.words("up");
        track.leaves(
            &format!("{PROGRESS}\nTest {session} was converted.\n"),
            NEXT_PROMPT,
            &knowledge,
        );
        track.words(&format!("tree:{session} turn ends:done"));
        if [100, 1_999].contains(&session) {
            after.push(measured(&track, before));
        }
    }
    let outcome = track.run.outcome();
    assert!(
        matches!(outcome, Some(Outcome::SessionLimit)),
        "{outcome:?}"
    );
    let [early, late] = after[..] else {
        panic!("{after:?}")
    };
    // Numbers have more digits by then.
    for (early, late) in early.into_iter().zip(late) {
        assert!(late <= early + early / 50, "{after:?}");
    }
}
