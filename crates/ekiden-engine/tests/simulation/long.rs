//! Relays that are longer than anybody wants to wait for, on the clock that jumps.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use ekiden_core::ends::EndCause;
use ekiden_core::outcome::Outcome;

use crate::world::{Deed, Scenario, World, live, machine};

/// Each session does one item and says so, as long relays do.
// defect: W2
// shows: REL-13
#[test]
fn a_relay_of_200_sessions_runs_to_its_end() {
    let world = Rc::new(RefCell::new(World::default()));
    let scenario = Scenario {
        git: true,
        ..Scenario::of_items(200)
    };
    let outcome = live(&Arc::new(machine(&scenario)), &world, &scenario).unwrap();
    assert_eq!(outcome, Outcome::Complete { verified: false });
    assert_eq!(world.borrow().started.len(), 200);
    assert_eq!(world.borrow().written.len(), 200);
}

/// Three sessions of three attempts, with longer and longer pauses, and not all sessions in a second.
// shows: REL-15
#[test]
fn an_agent_that_does_nothing_stops_after_three_sessions_with_pauses() {
    let deeds = (1..=50).map(|start| (start, Deed::Nothing)).collect();
    let world = Rc::new(RefCell::new(World::default()));
    let scenario = Scenario {
        deeds,
        ..Scenario::of_items(2)
    };
    let outcome = live(&Arc::new(machine(&scenario)), &world, &scenario).unwrap();
    assert_eq!(
        outcome,
        Outcome::TooManyCrashes {
            cause: EndCause::NothingDone
        }
    );
    assert_eq!(world.borrow().started.len(), 9);
    let pauses = 2 + 4 + 4 + 8 + 8 + 16;
    assert!(
        (pauses..pauses * 3).contains(&(world.borrow().now / 1000)),
        "{} ms",
        world.borrow().now
    );
}
