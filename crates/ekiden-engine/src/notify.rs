//! Desktop notifications: `notify-send` on Linux, `osascript` on macOS.
//!
//! There is no shell, and no text can become an option, markup or a script: it is an argument behind the
//! end of options, markup in it is escaped, and secrets are masked. Where no notification can be seen, as in a container or
//! over ssh, there is none, which is not an error.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ekiden_agent::child::{ChildEnd, ChildSpec};
use ekiden_agent::task;
use ekiden_core::ids::RunId;
use ekiden_core::limits;
use ekiden_core::secrets::mask;
use ekiden_core::text::{in_full, one_line};

/// Variables by which programs find the desktop on Linux, and which programs started on a desktop have on
/// macOS. Without it no notification can be seen.
const DESKTOP: &[&str] = if cfg!(target_os = "macos") {
    &["TERM_PROGRAM", "__CFBundleIdentifier"]
} else {
    &["DBUS_SESSION_BUS_ADDRESS", "WAYLAND_DISPLAY", "DISPLAY"]
};
/// The most that is read of a notifier's error message, in bytes.
const OUTPUT_BYTES_MAX: usize = 4096;
/// The most of a line that a notification shows, in characters.
const LINE_CHARS_MAX: usize = 120;
const SCRIPT: [&str; 3] = [
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
];

/// A program and its arguments.
type Command = (&'static str, Vec<OsString>);

pub(crate) async fn notify(
    keeper: PathBuf,
    dir: PathBuf,
    run: RunId,
    text: String,
) -> Result<(), String> {
    let Some((program, args)) = command(&title(&dir, &run), &text) else {
        return Ok(());
    };
    let spec = ChildSpec {
        args,
        ..ChildSpec::new(keeper, program, dir)
    };
    let over = tokio::time::sleep(limits::NOTIFY_TIMEOUT.into());
    let done = task::run_output(spec, b"", over, OUTPUT_BYTES_MAX).await;
    let output = done.map_err(|error| in_full(&error))?;
    if output.end == ChildEnd::Exited(0) {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "`{program}` failed: {}",
        one_line(&said, LINE_CHARS_MAX)
    ))
}

fn command(title: &str, text: &str) -> Option<Command> {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let show = if cfg!(target_os = "macos") {
        osascript
    } else {
        notify_send
    };
    DESKTOP.iter().any(is_set).then(|| show(title, &mask(text)))
}

fn notify_send(title: &str, text: &str) -> Command {
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let args = ["--app-name=ekiden", "--", title, &text];
    ("notify-send", args.map(OsString::from).to_vec())
}

fn osascript(title: &str, text: &str) -> Command {
    let script = SCRIPT.into_iter().flat_map(|line| ["-e", line]);
    (
        "osascript",
        script
            .chain(["--", title, text])
            .map(OsString::from)
            .collect(),
    )
}

/// The directory and the run, by the digits that name it in most places.
fn title(dir: &Path, run: &RunId) -> String {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let name = one_line(&name, LINE_CHARS_MAX);
    format!("ekiden: {name}, run {:.4}", run.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words((program, args): Command) -> String {
        let args: Vec<String> = args
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        format!("{program} | {}", args.join(" | "))
    }

    // shows: REL-19
    #[test]
    fn no_text_becomes_an_option_markup_or_a_script() {
        let (title, text) = ("ekiden: --hint=x", "--help <b>\" & do shell script \"x");
        expect_test::expect![[r#"
            notify-send | --app-name=ekiden | -- | ekiden: --hint=x | --help &lt;b&gt;" &amp; do shell script "x
            osascript | -e | on run argv | -e | display notification (item 2 of argv) with title (item 1 of argv) | -e | end run | -- | ekiden: --hint=x | --help <b>" & do shell script "x"#]]
            .assert_eq(&[words(notify_send(title, text)), words(osascript(title, text))].join("\n"));
    }

    // shows: REL-19
    #[test]
    fn a_notification_says_where_in_one_line() {
        let run = RunId::from_bits(0x7f3a_0b1c);
        assert_eq!(
            title(Path::new("/home/me/my\n\u{1b}[31mproject"), &run),
            "ekiden: my project, run 7f3a"
        );
    }
}
