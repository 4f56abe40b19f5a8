//! A JSON object on one line whose `type` comes first.
//!
//! Readers on both sides tell lines apart by their first bytes, so we write them the way the client does.

use serde_json::Value;

/// `{"type":"…"[,"subtype":"…"],…}` with the members of `body`, which must be an object, and a line
/// end.
pub fn typed_line(kind: &str, subtype: Option<&str>, body: &Value) -> String {
    let body = body.to_string();
    let members = body.strip_prefix('{').unwrap_or(&body);
    let subtype = subtype
        .map(|subtype| format!(r#","subtype":"{subtype}""#))
        .unwrap_or_default();
    let comma = if members == "}" { "" } else { "," };
    format!("{{\"type\":\"{kind}\"{subtype}{comma}{members}\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_type_comes_first() {
        assert_eq!(typed_line("a", None, &json!({})), "{\"type\":\"a\"}\n");
        assert_eq!(
            typed_line("system", Some("init"), &json!({"x": {}, "a": "\n"})),
            "{\"type\":\"system\",\"subtype\":\"init\",\"a\":\"\\n\",\"x\":{}}\n"
        );
    }
}
