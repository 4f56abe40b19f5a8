//! `cargo xtask requirements`: what is promised, and the tests that show it.
//!
//! ```text
//! docs/requirements.toml ─► list ──┐
//!                                  ├─► faults, target/requirements.md
//! // shows: REL-07 ───────► claims ┘
//! ```
//!
//! A promise that is declared done without a test, a claim of an unknown promise, and a claim that no
//! test follows are faults.

mod claims;
mod list;
mod page;

use crate::shell;
use crate::tidy::{Fault, Tree, report};

use claims::Claims;
use list::List;

const LIST: &str = "docs/requirements.toml";
const PAGE: &str = "requirements.md";

/// Writes the page, then checks what it says. The page is written even if something is wrong.
pub(crate) fn write() -> Result<(), String> {
    let (list, claims) = read()?;
    let path = shell::target_dir().join(PAGE);
    shell::write(&path, &page::render(&list, &claims))?;
    shell::say(&format!(
        "{}: {}",
        path.display(),
        page::summary(&list, &claims)
    ));
    report(faults(&list, &claims))
}

pub(crate) fn run_check() -> Result<(), String> {
    let (list, claims) = read()?;
    report(faults(&list, &claims))
}

fn read() -> Result<(List, Claims), String> {
    let list = List::parse(&shell::read(&shell::root().join(LIST))?)?;
    let claims = Claims::of(&Tree::read(shell::root())?, &list);
    Ok((list, claims))
}

fn faults(list: &List, claims: &Claims) -> Vec<Fault> {
    let undone = list
        .requirements
        .iter()
        .filter(|one| one.done && claims.tests_of(&one.id).is_empty());
    let undone = undone.map(|one| {
        Fault::of(
            LIST,
            format!("{} is declared done, but no test shows it", one.id),
        )
    });
    undone.chain(claims.faults.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_declared_done_is_shown() {
        if let Err(faults) = run_check() {
            panic!("{faults}");
        }
    }

    #[test]
    fn a_promise_without_a_test_is_a_fault_once_it_is_declared_done() {
        let toml = "[[area]]\nid = \"REL\"\ntitle = \"t\"\n\
            [[requirement]]\nid = \"REL-01\"\ntext = \"a\"\nfrom = [\"new\"]\ndone = true\n\
            [[requirement]]\nid = \"REL-02\"\ntext = \"b\"\nfrom = [\"new\"]\ndone = false\n";
        let list = List::parse(toml).unwrap();
        let claims = Claims::of(&Tree::of(&[]), &list);
        let what: Vec<String> = faults(&list, &claims)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            what,
            ["docs/requirements.toml: REL-01 is declared done, but no test shows it"]
        );
    }
}
