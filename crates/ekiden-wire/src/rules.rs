//! The rules that would have let a refused call run, in the client's own form.
//!
//! A rule is a proposal to a person. It names a command without its arguments, and never more than was asked
//! for. Programs that run whatever they are given get no rule.

use crate::excerpt::CUT;
use crate::shell_line::ShellLine;
use crate::tools::{Call, ToolKind};

/// Programs whose second word says what they do.
const WITH_SUBCOMMANDS: [&str; 16] = [
    "git", "cargo", "npm", "pnpm", "yarn", "bun", "go", "uv", "pip", "poetry", "bundle", "dotnet",
    "docker", "kubectl", "gh", "make",
];
/// Programs that run the script or package that their second word names.
const INTERPRETERS: [&str; 9] = [
    "python", "python3", "node", "ruby", "perl", "php", "npx", "bunx", "uvx",
];
/// Programs that run what their arguments say: a rule for all their calls would allow everything.
const RUN_ANYTHING: [&str; 22] = [
    "sh", "bash", "dash", "zsh", "ksh", "fish", "env", "sudo", "doas", "xargs", "eval", "exec",
    "command", "source", ".", "nohup", "setsid", "stdbuf", "timeout", "time", "nice", "ionice",
];

/// The rules for this call: one for each command of a shell line.
pub(crate) fn rules_for(call: &Call) -> Vec<String> {
    let rules = match call.kind == ToolKind::Shell {
        true => shell_rules(&call.target),
        false => fetch_rule(&call.name, &call.target).map(|rule| vec![rule]),
    };
    // By each tool's own name: a rule for `Edit` does not let `Write` run.
    rules.unwrap_or_else(|| vec![call.name.clone()])
}

/// None if one of the commands gets no rule.
fn shell_rules(line: &str) -> Option<Vec<String>> {
    // The last word of a line that was cut may be part of one.
    let line = match line.strip_suffix(CUT.trim_end()) {
        Some(cut) => cut.rsplit_once(' ').map_or("", |(whole, _)| whole),
        None => line,
    };
    let commands = ShellLine::of(line).commands;
    // In the work tree, changing the directory needs no rule.
    let working = commands.iter().filter(|one| !one.starts_with("cd "));
    match working.clone().next() {
        Some(_) => working.map(|command| command_rule(command)).collect(),
        None => Some(vec![command_rule(commands.first()?)?]),
    }
}

fn command_rule(command: &str) -> Option<String> {
    let mut words = command.split_whitespace();
    let program = words
        .next()
        .filter(|word| is_plain(word) && !RUN_ANYTHING.contains(word))?;
    let second = words
        .next()
        .filter(|word| is_plain(word) && !word.starts_with('-'));
    if INTERPRETERS.contains(&program) {
        return Some(format!("Bash({program} {}:*)", second?));
    }
    match second.filter(|_| WITH_SUBCOMMANDS.contains(&program)) {
        Some(second) => Some(format!("Bash({program} {second}:*)")),
        None => Some(format!("Bash({program}:*)")),
    }
}

/// Only the host of the address.
pub(crate) fn fetch_rule(tool: &str, url: &str) -> Option<String> {
    let rest = ["https://", "http://"]
        .iter()
        .find_map(|scheme| url.strip_prefix(scheme))?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    let is_address = is_plain(host) && is_number && !url.contains(char::is_whitespace);
    (tool == "WebFetch" && is_address).then(|| format!("WebFetch(domain:{host})"))
}

pub(crate) fn is_plain(word: &str) -> bool {
    !word.is_empty()
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._/+-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: AGT-15
    #[test]
    fn a_rule_is_no_wider_than_what_was_asked() {
        let cut = format!("make && git commit -m '{}fo …", "x ".repeat(80));
        for (tool, target, rules) in [
            ("Bash", "cargo test --workspace", "Bash(cargo test:*)"),
            ("Bash", "git -C x push", "Bash(git:*)"),
            ("Bash", "./run.sh now", "Bash(./run.sh:*)"),
            ("Bash", "sh -c 'rm -rf /'", "Bash"),
            ("Bash", "timeout 60 make", "Bash"),
            ("Bash", "python3 -c 'import os'", "Bash"),
            (
                "Bash",
                "python3 tools/x.py -v",
                "Bash(python3 tools/x.py:*)",
            ),
            ("Bash", "npx vitest run", "Bash(npx vitest:*)"),
            ("Bash", "A=1 make", "Bash"),
            ("Bash", "", "Bash"),
            (
                "Bash",
                "cd a && cargo test 2>&1 | tail -5",
                "Bash(cargo test:*), Bash(tail:*)",
            ),
            ("Bash", "make; time make", "Bash"),
            ("Bash", "cd /tmp", "Bash(cd:*)"),
            (
                "Bash",
                "git commit -m \"$(cat <<'E'\na; b\nE\n)\"",
                "Bash(git commit:*)",
            ),
            ("Bash", "make > log && ls", "Bash(make:*), Bash(ls:*)"),
            ("Bash", &cut, "Bash(make:*), Bash(git commit:*)"),
            ("Write", "/w/a.rs", "Write"),
            (
                "WebFetch",
                "https://docs.rs/serde?x#y",
                "WebFetch(domain:docs.rs)",
            ),
            ("WebFetch", "https://a)b/", "WebFetch"),
            (
                "WebFetch",
                "https://docs.rs:8080",
                "WebFetch(domain:docs.rs)",
            ),
            ("WebFetch", "https://docs.rs:x@example.com/", "WebFetch"),
            ("WebFetch", "https://docs.rs@example.com/", "WebFetch"),
            ("WebFetch", "read https://docs.rs/", "WebFetch"),
            ("mcp__x__y", "https://docs.rs/", "mcp__x__y"),
        ] {
            let call = Call {
                id: "t".to_owned(),
                kind: ToolKind::of(tool),
                name: tool.to_owned(),
                target: target.to_owned(),
            };
            assert_eq!(rules_for(&call).join(", "), rules, "{tool} {target}");
        }
    }
}
