//! Recognises commands that run tests.
//!
//! It goes by the usual names of test programs, so it can be wrong. A name that merely contains such a word
//! (`cat test.txt`) does not count. Nor does a test run whose exit code is not the line's: of `pytest | tail` nobody
//! knows whether the tests passed.

const TEST_PROGRAMS: &str = "pytest py.test unittest tox nox jest vitest mocha ava rspec phpunit ctest bats gotestsum \
    playwright cypress";
/// Programs whose subcommand or target decides.
const RUNNERS: &str = "cargo go npm yarn pnpm bun deno make just mvn gradle gradlew dotnet swift mix rake rails \
    zig bazel stack cabal sbt lein composer";
/// Words that may come before the program.
const WRAPPERS: &str =
    "npx uv poetry pipenv bundle run exec time timeout env python python3 -m sudo xvfb-run";

/// Whether the line's exit code is that of a test run.
pub fn runs_tests(line: &str) -> bool {
    let line = line.replace("\\\n", " ");
    let line = line.trim_end_matches([';', ' ', '\n']);
    // A space follows, for the pattern in `go test -run 'A|B'` is no pipe.
    let last = line.rsplit("| ").next().unwrap_or(line);
    let last = last.rsplit([';', '\n']).next().unwrap_or(last);
    let commands = last.split(['&', '(', ')']);
    commands
        .map(|command| command.split_whitespace().collect::<Vec<_>>())
        .any(|words| is_test(&words))
}

fn is_test(words: &[&str]) -> bool {
    let mut words = words.iter().skip_while(|word| {
        word.contains('=')
            || is_in(WRAPPERS, word)
            || word.bytes().all(|byte| byte.is_ascii_digit())
    });
    let Some(program) = words.next() else {
        return false;
    };
    let program = program.rsplit('/').next().unwrap_or(program);
    let target = |word: &&str| names_tests(word) || (program == "make" && *word == "check");
    is_in(TEST_PROGRAMS, program) || (is_in(RUNNERS, program) && words.any(target))
}

fn is_in(words: &str, word: &str) -> bool {
    words.split(' ').any(|known| known == word)
}

/// `test`, `tests`, `test:unit`, `nextest`, `t`
fn names_tests(word: &str) -> bool {
    let mut parts = word.split([':', '-', '_', '/']);
    !word.starts_with('-')
        && (word == "t" || parts.any(|part| matches!(part, "test" | "tests" | "nextest" | "spec")))
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: CHK-08, HND-006
    #[test]
    fn a_test_is_told_by_its_program() {
        for line in [
            "cargo test -p x",
            "cargo t",
            "cd app && npm run test:unit",
            "RUST_LOG=x cargo nextest run 2>&1",
            "yes | make test;\n",
            "go test -run 'TestA|TestB' ./...",
            "cargo test \\\n  -p core",
            "cd app\ncargo test && git commit -m 'it works'",
            "timeout 280 pytest -q",
            "python3 -m pytest",
            "python -m unittest",
            "npx vitest run",
            "(go test ./...)",
            "make test",
            "make check",
            "./gradlew test",
            "bundle exec rspec",
            "poetry run pytest",
            "/usr/bin/ctest",
        ] {
            assert!(runs_tests(line), "{line}");
        }
        for line in [
            "cat test.txt",
            "cargo build",
            "cargo tree",
            "cargo check",
            "ls tests",
            "npm install",
            "git commit -m 'test'",
            "git log --grep 'cargo test'",
            "echo pytest",
            "pytest -q 2>&1 | tail -3",
            "cargo test || true",
            "cargo test; echo done",
            "cargo test > log\ntail log",
            "make -n",
            "",
        ] {
            assert!(!runs_tests(line), "{line}");
        }
    }
}
