//! The page, made of the list and the claims.

use super::claims::Claims;
use super::list::{List, Requirement};

const HEAD: &str = "\
# Requirements

What a user of ekiden can rely on, and the tests that show it. **done** is promised; *shown* has tests, but
more is to come before it is promised; the rest is where ekiden wants to go. The words in brackets name the
programs before ekiden that had it.
";

/// The whole page.
pub(super) fn render(list: &List, claims: &Claims) -> String {
    let mut page = format!("{HEAD}\n{}.\n", summary(list, claims));
    for area in &list.areas {
        page.push_str(&format!("\n## {}: {}\n\n", area.id, area.title));
        for requirement in list.of(area) {
            page.push_str(&entry(requirement, claims.tests_of(&requirement.id)));
        }
    }
    page
}

/// How many there are, in one line.
pub(super) fn summary(list: &List, claims: &Claims) -> String {
    let done = list.requirements.iter().filter(|one| one.done).count();
    let shown = list
        .requirements
        .iter()
        .filter(|one| !claims.tests_of(&one.id).is_empty())
        .count();
    format!(
        "{done} of {} are done; tests show {shown}",
        list.requirements.len()
    )
}

fn entry(requirement: &Requirement, tests: &[String]) -> String {
    let Requirement {
        id,
        text,
        from,
        done,
        note,
    } = requirement;
    let state = match (done, note) {
        (true, Some(note)) => format!(" **done** ({note}):"),
        (true, None) => " **done**:".to_owned(),
        (false, _) if tests.is_empty() => String::new(),
        (false, _) => " *shown*:".to_owned(),
    };
    let tests: String = tests.iter().map(|test| format!("  - `{test}`\n")).collect();
    format!("- {id}{state} {text} [{}]\n{tests}", from.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Tree;

    #[test]
    fn a_page_tells_state_and_tests() {
        let toml = "[[area]]\nid = \"REL\"\ntitle = \"The relay\"\n\
            [[requirement]]\nid = \"REL-01\"\ntext = \"One thing\"\nfrom = [\"cs\", \"ck\"]\ndone = true\nnote = \"half\"\n\
            [[requirement]]\nid = \"REL-02\"\ntext = \"Another\"\nfrom = [\"new\"]\ndone = false\n";
        let list = List::parse(toml).unwrap();
        let text = ["// shows: REL-01", "#[test]", "fn a() {"].join("\n");
        let claims = Claims::of(&Tree::of(&[("crates/a/src/b.rs", &text)]), &list);
        let page = render(&list, &claims);
        let page = page.strip_prefix(HEAD).unwrap();
        expect_test::expect![[r"

            1 of 2 are done; tests show 1.

            ## REL: The relay

            - REL-01 **done** (half): One thing [cs, ck]
              - `crates/a/src/b.rs::a`
            - REL-02 Another [new]
        "]]
        .assert_eq(page);
    }
}
