//! The web pages and the report in a real browser: a headless Chromium, driven by `browser/look.mjs`.
//!
//! `npm ci` in `browser/` installs the driver; Chromium is the system's, or the one that `EKIDEN_BROWSER` names. Without them
//! the test says that it was left out, and with `EKIDEN_NEED_BROWSER` it fails.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::environment::Environment;

/// What wants to be more than words, on one line.
const HOSTILE: &str = r#"<script>alert(1)</script> </blockquote></main><script src=//x.invalid/a.js></script> <img src=x onerror=alert(1)> <svg/onload=alert(1)> </svg><script>alert(1)</script> <a href="https://x.invalid">here</a> <a href='javascript:alert(1)'>x</a> [here](https://x.invalid) ![pixel](https://x.invalid/p.png) https://x.invalid/plain </title><script>1</script> </style><style>body{display:none}</style> @import url(//x.invalid/a.css); <iframe src=https://x.invalid></iframe> <meta http-equiv=refresh content=0;url=https://x.invalid> <base href=https://x.invalid> <form action=https://x.invalid><input name=a autofocus onfocus=alert(1)></form> <link rel=stylesheet href=https://x.invalid/a.css> <object data=https://x.invalid></object> <video src=//x.invalid onerror=alert(1)> <details open ontoggle=alert(1)> " onmouseover="alert(1) ' onmouseover='alert(1) &lt;script&gt; {{ 7 * 7 }} {% include 'x' %} ${7*7} <!-- <![CDATA[ x ]]> </code></td></tr></table><h1>big</h1> <marquee> <math><mtext><table><mglyph><style><img src=x onerror=alert(1)>"#;
/// A word that no line can break by itself.
const HUGE: &str = "unbreakable";
const HARMLESS: &str = "Plain words.";

/// Hands off with the words that lie beside it.
const AGENT: &str = r#"cat > /dev/null
echo "$EKIDEN_HANDOFF" >> sessions.txt
N=$(wc -l < sessions.txt)
W=$(cat words)
cd "$EKIDEN_HANDOFF" || exit 1
cat > PROGRESS.md << END
STATUS: IN_PROGRESS

## Done
- item $N: true $W

## Stopped at
Between two items. $W

## Issues
None that matter. $W

## Open items
- [x] one $W
- [ ] two $W
END
cat > NEXT_PROMPT.md << END
## Task
Go on. $W

## State
Item $N is done, and what is left is in the list of items of the task, which is the only one. $W

## Resume at
1. the next item of the list $W

## What works
true $W

## What to avoid
false $W

## How to verify
true
END
cat > KNOWLEDGE.md << END
## Core Knowledge
- Item $N takes no time. $W
END
"#;

/// The browser's program and the driver's directory, where both are there.
fn browser() -> Option<(PathBuf, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    let driver = root.join("browser");
    let named = std::env::var_os("EKIDEN_BROWSER").map(PathBuf::from);
    let usual = ["/usr/bin/chromium", "/usr/bin/chromium-browser"].map(PathBuf::from);
    let program = named
        .into_iter()
        .chain(usual)
        .find(|program| program.is_file());
    let is_installed = driver.join("node_modules/playwright-core").is_dir();
    let found = program.filter(|_| is_installed).map(|it| (it, driver));
    if found.is_none() {
        let why = "left out: pages in a browser (needs Chromium, and `npm ci` in browser/)\n";
        assert!(std::env::var_os("EKIDEN_NEED_BROWSER").is_none(), "{why}");
        let _ = std::io::stderr().write_all(why.as_bytes());
    }
    found
}

/// Runs an agent that says this, and answers with the report that it left.
fn run_of(environment: &Environment, name: &str, words: &str) -> String {
    let dir = environment.path(name);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("agent.sh"), AGENT).unwrap();
    std::fs::write(dir.join("words"), words).unwrap();
    std::fs::write(dir.join("task.md"), format!("Make the items. {words}\n")).unwrap();
    let args = [
        "run",
        "task.md",
        "--agent-command",
        "sh agent.sh",
        "--max-sessions",
        "2",
    ];
    environment.run_in(name, &args).expect(3);
    let runs = dir.join(".ekiden/runs").read_dir().unwrap();
    let run = runs.map(|run| run.unwrap().path()).next().unwrap();
    format!("file://{}", run.join("report.html").display())
}

// shows: UIX-05, SEC-03, REL-27
#[test]
fn hostile_words_change_nothing_in_a_browser() {
    let Some((program, driver)) = browser() else {
        return;
    };
    let environment = Environment::new();
    let hostile = format!("{} {HOSTILE} {}", HUGE.repeat(9), HUGE.repeat(40));
    let reports = [
        run_of(&environment, "hostile", &hostile),
        run_of(&environment, "harmless", HARMLESS),
    ];
    let mut dash = environment.start(&["dash", "--port", "0"]);
    let address = dash.wait_for_line("http://");
    let looked = Command::new("node")
        .arg(driver.join("look.mjs"))
        .arg(program)
        .arg(environment.path(""))
        .args(&reports)
        .arg(address.trim())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&looked.stderr);
    assert!(looked.status.success(), "{said}");
    let seen: Vec<Value> = serde_json::from_slice(&looked.stdout).unwrap();
    // Two reports, the index and the two runs on it, in two looks.
    assert_eq!(seen.len(), 10);
    for page in &seen {
        let address = page["address"].as_str().unwrap();
        let origin = address.split('/').take(3).collect::<Vec<_>>().join("/");
        let requests = page["requests"].as_array().unwrap();
        for request in requests.iter().map(|request| request.as_str().unwrap()) {
            assert!(
                request == address || origin != "file://" && request.starts_with(&origin),
                "{address} asks for {request}"
            );
        }
        let scripts = page["scripts"].as_array().unwrap();
        let own = |script: &Value| script.as_str().unwrap().ends_with("/script.js");
        assert!(scripts.iter().all(own), "{address}: {scripts:?}");
        assert!(page["trouble"] == serde_json::json!([]), "{page}");
        assert_eq!(page["overflow"], 0, "{address} at {}", page["width"]);
    }
    for look in seen.chunks(5) {
        assert_eq!(look[0]["structure"], look[1]["structure"], "the reports");
        assert_eq!(look[3]["structure"], look[4]["structure"], "the runs");
    }
}
