//! The rule that would have let a refused call run, in the client's own form.
//!
//! A rule is a proposal to a person. It names the command without its arguments, and never more than was asked
//! for. Programs that run whatever they are given get no rule.

use crate::tools::{Call, ToolKind};

/// Programs whose second word says what they do.
const WITH_SUBCOMMANDS: [&str; 16] = [
    "git", "cargo", "npm", "pnpm", "yarn", "bun", "go", "uv", "pip", "poetry", "bundle", "dotnet",
    "docker", "kubectl", "gh", "make",
];
/// Programs that run what their arguments say: a rule for all their calls would allow everything.
const RUN_ANYTHING: [&str; 10] = [
    "sh", "bash", "zsh", "fish", "env", "sudo", "xargs", "eval", "exec", "nohup",
];

/// The rule for this call.
pub fn rule_for(call: &Call) -> String {
    let rule = match call.kind == ToolKind::Shell {
        true => shell_rule(&call.target),
        false => fetch_rule(call),
    };
    // By each tool's own name: a rule for `Edit` does not let `Write` run.
    rule.unwrap_or_else(|| call.name.clone())
}

fn shell_rule(command: &str) -> Option<String> {
    let mut words = command.split_whitespace();
    let program = words
        .next()
        .filter(|word| is_plain(word) && !RUN_ANYTHING.contains(word))?;
    let second = words
        .next()
        .filter(|word| is_plain(word) && !word.starts_with('-'));
    match second.filter(|_| WITH_SUBCOMMANDS.contains(&program)) {
        Some(second) => Some(format!("Bash({program} {second}:*)")),
        None => Some(format!("Bash({program}:*)")),
    }
}

/// Only the host of the address.
fn fetch_rule(call: &Call) -> Option<String> {
    let host = call
        .target
        .split_once("://")?
        .1
        .split(['/', ':', '?', '#'])
        .next()?;
    (call.name == "WebFetch" && is_plain(host)).then(|| format!("WebFetch(domain:{host})"))
}

fn is_plain(word: &str) -> bool {
    !word.is_empty()
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._/+-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_no_wider_than_what_was_asked() {
        for (tool, target, rule) in [
            ("Bash", "cargo test --workspace", "Bash(cargo test:*)"),
            ("Bash", "git -C x push", "Bash(git:*)"),
            ("Bash", "./run.sh now", "Bash(./run.sh:*)"),
            ("Bash", "sh -c 'rm -rf /'", "Bash"),
            ("Bash", "A=1 make", "Bash"),
            ("Bash", "", "Bash"),
            ("Write", "/w/a.rs", "Write"),
            (
                "WebFetch",
                "https://docs.rs/serde?x#y",
                "WebFetch(domain:docs.rs)",
            ),
            ("WebFetch", "https://a)b/", "WebFetch"),
            ("mcp__x__y", "https://docs.rs/", "mcp__x__y"),
        ] {
            let call = Call {
                id: "t".to_owned(),
                kind: ToolKind::of(tool),
                name: tool.to_owned(),
                target: target.to_owned(),
            };
            assert_eq!(rule_for(&call), rule, "{tool} {target}");
        }
    }
}
