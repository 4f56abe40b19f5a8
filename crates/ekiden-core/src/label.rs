//! Labels: the labels of a worker in a fleet, and those that a stage of a plan requires.

/// The rule for labels, for people.
pub const LABEL_RULE: &str = "a label has at most 32 letters, digits, `-`, `_` and `.`";
const LABEL_CHARS_MAX: usize = 32;

pub fn is_label(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=LABEL_CHARS_MAX).contains(&text.len()) && text.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_one_short_word() {
        for good in ["gpu", "linux-arm64", "a100_80.gb", &"x".repeat(32)] {
            assert!(is_label(good), "{good}");
        }
        for bad in ["", "a,b", "a+b", "a b", "ä", &"x".repeat(33)] {
            assert!(!is_label(bad), "{bad}");
        }
    }
}
