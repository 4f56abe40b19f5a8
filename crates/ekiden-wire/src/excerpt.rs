//! A bounded piece of a text that may be large.

use serde_json::Value;

/// How much of a text's beginning and end is kept, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) head: usize,
    pub(crate) tail: usize,
}

/// Shows where something was left out.
pub(crate) const CUT: &str = " … ";

/// The excerpt of a JSON string; of the JSON itself if it is something else.
pub(crate) fn of_json(value: &Value, bounds: Bounds) -> String {
    match value.as_str() {
        Some(text) => of_text(text, bounds),
        None => of_text(&value.to_string(), bounds),
    }
}

/// The excerpt of a plain text. The end begins with a whole word.
pub(crate) fn of_text(text: &str, bounds: Bounds) -> String {
    if text.len() <= bounds.head + bounds.tail {
        return text.to_owned();
    }
    let head = &text[..text.floor_char_boundary(bounds.head)];
    let end = &text[text.ceil_char_boundary(text.len() - bounds.tail)..];
    let tail = end.split_once(' ').map_or("", |(_, words)| words);
    let cut = format!("{}{CUT}{tail}", head.trim_end());
    cut.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds { head: 10, tail: 12 };

    #[test]
    fn short_texts_are_whole_and_long_ones_keep_both_ends() {
        assert_eq!(of_text("a\nb", BOUNDS), "a\nb");
        let long = "0123456789 and much more, the end";
        assert_eq!(of_text(long, BOUNDS), "0123456789 … the end");
        assert_eq!(of_json(&serde_json::json!({"a": 1}), BOUNDS), r#"{"a":1}"#);
    }

    proptest! {
        #[test]
        fn an_excerpt_is_bounded_and_made_of_the_text(text in "(.|\n|\u{1F600}){0,80}") {
            let excerpt = of_text(&text, BOUNDS);
            prop_assert!(excerpt.len() <= BOUNDS.head + BOUNDS.tail + CUT.len());
            prop_assert!(excerpt.split(CUT).next().is_some_and(|head| text.starts_with(head) || head.contains('…')));
        }
    }
}
