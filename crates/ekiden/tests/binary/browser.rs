//! The web pages and the report in a real browser: a headless Chromium, driven by `browser/look.mjs`.
//!
//! `npm ci` in `browser/` installs the driver; Chromium is the system's, or the one that `EKIDEN_BROWSER` names. Without them
//! the test says that it was left out, and with `EKIDEN_NEED_BROWSER` it fails. `EKIDEN_SCREENSHOTS` names a directory for what
//! was seen.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::environment::{Environment, items};
use crate::running::{Running, wait_until};

/// What wants to be more than words.
const HOSTILE: [&str; 50] = [
    r##"<script>alert(1)</script>"##,
    r##"</blockquote></main><script src=//x.invalid/a.js></script>"##,
    r##"<script>fetch('//x.invalid')</script>"##,
    r##"<img src=x onerror=alert(1)>"##,
    r##"<img src="//x.invalid/p.png">"##,
    r##"<image href=//x.invalid/p.png>"##,
    r##"<svg/onload=alert(1)>"##,
    r##"</svg><script>alert(1)</script>"##,
    r##"<svg><use href="//x.invalid/a.svg#x"></use></svg>"##,
    r##"<svg><animate onbegin=alert(1)></svg>"##,
    r##"<a href="https://x.invalid">here</a>"##,
    r##"<a href='javascript:alert(1)'>x</a>"##,
    r##"<a ping=https://x.invalid href=#>x</a>"##,
    r##"[here](https://x.invalid)"##,
    r##"![pixel](https://x.invalid/p.png)"##,
    r##"[x](javascript:alert(1))"##,
    r##"<https://x.invalid/auto>"##,
    r##"https://x.invalid/plain"##,
    r##"</title><script>1</script>"##,
    r##"</style><style>body{display:none}</style>"##,
    r##"@import url(//x.invalid/a.css);"##,
    r##"<iframe src=https://x.invalid></iframe>"##,
    r##"<iframe srcdoc="<script>alert(1)</script>"></iframe>"##,
    r##"<meta http-equiv=refresh content=0;url=https://x.invalid>"##,
    r##"<base href=https://x.invalid>"##,
    r##"<form action=https://x.invalid><input name=a autofocus onfocus=alert(1)></form>"##,
    r##"</form><button formaction=https://x.invalid>go</button>"##,
    r##"</textarea><script>alert(1)</script>"##,
    r##""><script>alert(1)</script>"##,
    r##"'><img src=x onerror=alert(1)>"##,
    r##"<link rel=stylesheet href=https://x.invalid/a.css>"##,
    r##"<link rel=preload as=image href=https://x.invalid/p.png>"##,
    r##"<object data=https://x.invalid></object>"##,
    r##"<embed src=https://x.invalid>"##,
    r##"<video src=//x.invalid onerror=alert(1)>"##,
    r##"<audio src=//x.invalid autoplay></audio>"##,
    r##"<details open ontoggle=alert(1)>"##,
    r##"" onmouseover="alert(1)"##,
    r##"' onmouseover='alert(1)"##,
    r##"" style="position:fixed;inset:0"##,
    r##"&lt;script&gt;alert(1)&lt;&#47;script&gt;"##,
    r##"&#60;img src=x onerror=alert(1)&#62;"##,
    r##"{{ 7 * 7 }}"##,
    r##"{% include 'x' %}"##,
    r##"${7*7}"##,
    r##"<!-- <![CDATA[ x ]]>"##,
    r##"</code></pre></td></tr></table><h1>big</h1>"##,
    r##"<marquee>"##,
    r##"<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>"##,
    r##"<plaintext>"##,
];
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
    let words = HOSTILE.join(" ");
    let hostile = format!("{} {words} {}", HUGE.repeat(9), HUGE.repeat(40));
    let reports = [
        run_of(&environment, "hostile", &hostile),
        run_of(&environment, "harmless", HARMLESS),
    ];
    let mut dash = environment.start(&["dash", "--port", "0"]);
    let dash = dash.wait_for_line("http://");
    let pages = [&reports[..], &[dash.trim().to_owned()]].concat();
    let seen = looked_at(&environment, &program, &driver, &pages);
    // Two reports, the index and the two runs on it, in two looks.
    assert_eq!(seen.len(), 10);
    for look in seen.chunks(5) {
        assert_eq!(look[0]["structure"], look[1]["structure"], "the reports");
        assert_eq!(look[3]["structure"], look[4]["structure"], "the runs");
    }
}

/// A dash that ended refuses connections; one that is suspended is as silent as a dead tunnel.
// shows: UIX-05
#[test]
fn a_seventh_page_has_a_connection_and_says_if_the_dash_is_gone() {
    let Some((program, driver)) = browser() else {
        return;
    };
    let environment = Environment::new();
    for signal in ["SIGTERM", "SIGSTOP"] {
        let mut dash = environment.start(&["dash", "--port", "0"]);
        let address = dash.wait_for_line("http://");
        let said = Command::new("node")
            .arg(driver.join("lost.mjs"))
            .arg(&program)
            .args([address.trim(), &dash.pid().as_raw_nonzero().to_string()])
            .arg(signal)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&said.stdout);
        assert!(told.starts_with("false Lost contact"), "{signal}: {said:?}");
    }
}

/// What the browser saw on these pages and those that they link: nothing but what we made.
fn looked_at(
    environment: &Environment,
    program: &Path,
    driver: &Path,
    pages: &[String],
) -> Vec<Value> {
    let looked = Command::new("node")
        .arg(driver.join("look.mjs"))
        .arg(program)
        .arg(std::env::var_os("EKIDEN_SCREENSHOTS").unwrap_or(environment.path("").into()))
        .args(pages)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&looked.stderr);
    assert!(looked.status.success(), "{said}");
    let seen: Vec<Value> = serde_json::from_slice(&looked.stdout).unwrap();
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
        assert!(page["problems"] == serde_json::json!([]), "{page}");
        assert!(page["foreign"] == serde_json::json!([]), "{page}");
        assert_eq!(page["overflow"], 0, "{address} at {}", page["width"]);
        assert_ne!(page["unfolded"], false, "{address}: what was unfolded");
    }
    seen
}

/// Four projects in which something runs or ran, with these words wherever a page shows some: a run that is over, one that
/// asks, a relay and a plan of twelve stages that work. Lives as long as these two do.
fn projects(environment: &Environment, dir: &Path, words: &str) -> [Running; 2] {
    let quoted = serde_json::to_string(words).unwrap();
    let start = |name: &str, file: &str, text: &str, args: &[&str]| {
        let dir = dir.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(file), text).unwrap();
        let question =
            format!("[[act]]\nsession = 1\nat = \"prompt\"\ndo = {{ question = {quoted} }}\n");
        std::fs::write(dir.join("asks.toml"), question).unwrap();
        let mut command = environment.command(args);
        if name == "asks" {
            command.env("EKIDEN_REHEARSAL_SCENARIO", "asks.toml");
        }
        Running::of(command.current_dir(dir).spawn().unwrap())
    };
    let task = format!(
        "{words}\n\n{}",
        items(2).replace("Item", &format!("Item {words}"))
    );
    let run = ["run", "task.md", "--agent", "rehearsal"];
    start("done", "task.md", &task, &run).end().expect(0);
    start("asks", "task.md", &task, &run).end().expect(4);
    let waits = format!("touch started; while [ ! -e go ]; do sleep 0.05; done # {words}");
    let long = items(24).replace(
        "Item 20\n\n  ```sh\n  echo made",
        &format!("Item 20\n\n  ```sh\n  {waits}\n  echo made"),
    );
    let relay = start("relay", "task.md", &long, &run);
    let stages = [
        "", "A", "A", "A", "A", "B", "C", "D", "E", "F G", "H I", "J K",
    ];
    let stages = (b'A'..).map(char::from).zip(stages);
    let stages = stages.map(|(id, needs)| {
        let needs: Vec<&str> = needs.split_whitespace().collect();
        let name = serde_json::to_string(&format!("{id} {words}")).unwrap();
        let line = if id == 'F' { &waits } else { "echo made >> made.txt" };
        format!("[[stage]]\nid = \"{id}\"\nname = {name}\nneeds = {needs:?}\nprompt = '''\n- [ ] It\n\n  ```sh\n  {line}\n  ```\n'''\n\n")
    });
    let plan = format!(
        "format = 1\nproject = {quoted}\n\n{}",
        stages.collect::<String>()
    );
    let args = ["execute", "plan.toml", "--agent", "rehearsal", "--yes"];
    let plan = start("plan", "plan.toml", &plan, &args);
    for name in ["relay", "plan"] {
        wait_until(name, || dir.join(name).join("started").exists());
    }
    [relay, plan]
}

// shows: UIX-05, SEC-03
#[test]
fn hostile_words_change_nothing_on_the_pages_of_runs_at_work() {
    let Some((program, driver)) = browser() else {
        return;
    };
    let environment = Environment::new();
    // At the beginning of a line they would be HTML to the handoff's reader, and no words.
    let words = format!("Words {}", HOSTILE.join(" "));
    // The words are the names of the directories, as far as such names go.
    let dirs = [
        environment.path(&HOSTILE.join("/")),
        environment.path("harmless"),
    ];
    let _working = [
        projects(&environment, &dirs[0], &words),
        projects(&environment, &dirs[1], HARMLESS),
    ];
    let mut dash = environment.start(&["dash", "--port", "0", "--steer"]);
    let address = dash.wait_for_line("http://");
    let seen = looked_at(
        &environment,
        &program,
        &driver,
        &[address.trim().to_owned()],
    );
    assert!(seen.iter().any(|page| page["unfolded"] == true));
    // The index; eight runs, each with its forms; what is asked before each of six is steered, and three that were.
    let text = |page: &Value| page["text"].as_str().unwrap().to_owned();
    for look in seen.chunk_by(|one, other| one["width"] == other["width"]) {
        let (hostile, harmless): (Vec<_>, Vec<_>) = look[1..]
            .iter()
            .partition(|page| text(page).contains("alert(1)"));
        assert_eq!(hostile.len(), harmless.len());
        let kinds = |pages: &[&Value]| -> BTreeSet<String> {
            let structures = pages
                .iter()
                .flat_map(|page| page["structure"].as_array().unwrap());
            structures.map(ToString::to_string).collect()
        };
        assert_eq!(kinds(&hostile), kinds(&harmless));
        let all: String = hostile.iter().map(|page| text(page)).collect();
        assert!(
            all.contains(HOSTILE[3]) && all.contains(HOSTILE[46]),
            "{all}"
        );
    }
}
