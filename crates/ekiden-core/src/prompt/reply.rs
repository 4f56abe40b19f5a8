//! The JSON object in a model's reply, even inside a fence or with text around it.

/// How many objects are tried before ekiden gives up on the reply: each costs a scan to its end.
const TRIES_MAX: usize = 256;

/// The largest object in the reply that is inside no other. An object at the beginning of a JSON fence, or of
/// any fence, comes first. Braces are counted outside strings. The reader decides whether it is valid JSON,
/// since it can name the place of a fault.
pub fn extract_json(reply: &str) -> Option<&str> {
    let size = |(fenced, object): &(u8, &str)| (*fenced, object.len());
    Some(objects(reply).max_by_key(size)?.1)
}

/// The objects that are inside no other, each with how strongly it is marked as the intended one.
pub(super) fn objects(reply: &str) -> impl Iterator<Item = (u8, &str)> {
    let mut from = 0;
    let found = (0..TRIES_MAX).map_while(move |_| {
        let begin = from + reply[from..].find('{')?;
        let length = end_of_object(&reply[begin..]);
        from = begin + length.unwrap_or(1);
        Some(length.map(|_| (fenced(&reply[..begin]), &reply[begin..from])))
    });
    found.flatten()
}

/// How strongly the line before an object marks it as the intended one.
fn fenced(before: &str) -> u8 {
    let line = before.trim_end().lines().last().unwrap_or_default().trim();
    let fence = line.strip_prefix("```");
    let is_json = |info: &str| info.trim().to_lowercase().starts_with("json");
    fence.map_or(0, |info| 1 + u8::from(is_json(info)))
}

/// The length of the object that begins here; `None` if it never ends.
fn end_of_object(text: &str) -> Option<usize> {
    let (mut depth, mut string, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if string => escaped = true,
            b'"' => string = !string,
            b'{' if !string => depth += 1,
            b'}' if !string => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // shows: PLN-07
    #[test]
    fn the_object_is_found_in_fences_and_among_words() {
        let cases = [
            ("{\"a\": 1}", Some("{\"a\": 1}")),
            (
                "Here it is {x}:\n\n{\"a\": {\"b\": \"}\"}} and that is all.",
                Some("{\"a\": {\"b\": \"}\"}}"),
            ),
            (
                "```json\n{\"a\": 1}\n```\nlonger: {\"aaaaaaaaaaaaaaaa\": 2}",
                Some("{\"a\": 1}"),
            ),
            (
                "```sh\necho {}\n```\n```JSON title\n{\"a\": \"```\"}\n```",
                Some("{\"a\": \"```\"}"),
            ),
            ("```\n{\"a\": 1}\n```", Some("{\"a\": 1}")),
            ("~~~\n{\"a\": \"\\\"}\"}\n~~~", Some("{\"a\": \"\\\"}\"}")),
            ("an open { and then {\"a\": 1}", Some("{\"a\": 1}")),
            ("```json\n{\"a\": 1}", Some("{\"a\": 1}")),
            ("{\"a\": [1, }", Some("{\"a\": [1, }")),
            ("no object", None),
            ("{\"a\": 1", None),
        ];
        for (reply, object) in cases {
            assert_eq!(extract_json(reply), object, "{reply}");
        }
    }

    #[test]
    fn many_braces_are_given_up() {
        assert_eq!(extract_json(&"{".repeat(100_000)), None);
        assert_eq!(extract_json(&"{\"".repeat(50_000)), None);
    }

    proptest! {
        // shows: PLN-07
        #[test]
        fn an_object_is_found_in_whatever_fence_and_words(
            before in "[^{`]{0,40}", after in "\\PC{0,40}", keys in proptest::collection::vec(any::<String>(), 0..5),
        ) {
            let object: serde_json::Map<String, serde_json::Value> =
                keys.into_iter().map(|key| (key.clone(), serde_json::json!({ "text": key }))).collect();
            let object = serde_json::to_string_pretty(&object).unwrap();
            let reply = format!("{before}\n```json\n{object}\n```\n{after}");
            prop_assert_eq!(extract_json(&reply), Some(object.as_str()));
        }

        // shows: PLN-07
        #[test]
        fn any_reply_is_read(reply in any::<String>(), pieces in proptest::collection::vec("[{}\"\\\\`\nä]{0,8}", 0..20)) {
            for text in [reply, pieces.concat()] {
                let found = extract_json(&text);
                let whole = found.is_none_or(|object| object.starts_with('{') && object.ends_with('}'));
                prop_assert!(whole, "{:?}", found);
            }
        }
    }
}
