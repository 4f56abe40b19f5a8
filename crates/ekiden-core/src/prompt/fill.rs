//! Fills the `{name}` slots of a text.

/// The text with each `{name}` replaced by its value, in one pass: a value with braces in it is not
/// filled again. Panics if the text names a slot that has no value: the catalogue and its caller disagree, and a prompt
/// with a hole in it must not be sent. Every text has a golden test that fills it.
pub(super) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(template.len() * 2);
    let mut rest = template;
    while let Some((before, name, after)) = next_slot(rest) {
        let value = values.iter().find(|(known, _)| *known == name);
        let (_, value) =
            value.unwrap_or_else(|| panic!("a prompt text has no value for the slot `{name}`"));
        text.push_str(before);
        text.push_str(value);
        rest = after;
    }
    text.push_str(rest);
    text
}

/// The next slot: the text before it, its name, the text after it.
pub(super) fn next_slot(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let open = from + text[from..].find('{')?;
        let inner = &text[open + 1..];
        let length = inner
            .bytes()
            .take_while(|b| b.is_ascii_lowercase() || *b == b'_')
            .count();
        if length > 0 && inner[length..].starts_with('}') {
            return Some((&text[..open], &inner[..length], &inner[length + 1..]));
        }
        from = open + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_is_filled_once() {
        assert_eq!(
            fill("{a}-{b} {a}", &[("a", "{b}"), ("b", "2")]),
            "{b}-2 {b}"
        );
        assert_eq!(fill("fn x() { {} {A} }", &[]), "fn x() { {} {A} }");
    }

    #[test]
    #[should_panic(expected = "no value for the slot `left_over`")]
    fn a_slot_left_over_is_a_mistake() {
        let _ = fill("text {left_over}", &[("other", "x")]);
    }
}
