//! `ekiden dash --steer`: what its pages can ask of a run, and of whom nothing is taken.

use serde_json::Value;

use crate::dash::{Answer, Dash, asked};
use crate::environment::{Environment, items};
use crate::running::{Running, wait_until};

const RUN: [&str; 4] = ["run", "task.md", "--agent", "rehearsal"];

impl Dash {
    fn steering(environment: &Environment) -> Self {
        Self::started(environment.start(&["dash", "--port", "0", "--steer"]))
    }

    /// A form as a browser sends it.
    fn form(&self, path: &str, headers: &[(&str, &str)], form: &str) -> String {
        let headers: String = headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        format!(
            "POST {}{path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n{headers}\r\n{form}",
            self.base,
            self.host,
            form.len()
        )
    }

    fn send(&self, run: &str, form: &str) -> Answer {
        let origin = format!("http://{}", self.host);
        let headers = [("Cookie", self.cookie.as_str()), ("Origin", &origin)];
        asked(
            &self.host,
            &self.form(&format!("run/{run}/steer"), &headers, form),
        )
    }

    /// Sends what a page of ours has in its forms.
    fn token(&self, run: &str) -> String {
        let page = self.page(&format!("run/{run}/steer")).body;
        hidden(&page, "token")
    }

    /// Asks for this, and says yes where it is asked to confirm.
    fn steer(&self, run: &str, wish: &str) -> Answer {
        let form = format!("token={}&{wish}", self.token(run));
        let really = self.send(run, &form);
        assert_eq!(really.status(), "200", "{}", really.body);
        self.send(run, &format!("{form}&confirmed=true"))
    }
}

/// The value of a hidden input.
fn hidden(page: &str, name: &str) -> String {
    let (_, rest) = page
        .split_once(&format!("name=\"{name}\" value=\""))
        .unwrap();
    rest.split('"').next().unwrap().to_owned()
}

/// A run whose first item is done as soon as there is a file `go`.
fn at_work(environment: &Environment) -> Running {
    let waits = "touch started; while [ ! -e go ]; do sleep 0.02; done; echo made";
    environment.write("task.md", &items(4).replacen("echo made", waits, 1));
    let run = environment.start(&RUN);
    wait_until("work", || environment.exists("started"));
    run
}

fn steered(environment: &Environment) -> Vec<Value> {
    let events = environment.log().into_iter();
    let events = events.map(|record| record["event"].clone());
    let steered = events.filter(|event| event["kind"] == "steered");
    steered.map(|event| event["steering"].clone()).collect()
}

// shows: UIX-05
#[test]
fn a_page_pauses_changes_limits_and_stops_after_a_confirmation() {
    let environment = Environment::with_git();
    let run = at_work(&environment);
    let dash = Dash::steering(&environment);
    let id = dash.address(&environment.runs()[0]);
    let link = format!("<a href=\"{id}/steer\">");
    assert!(dash.page(&format!("run/{id}")).body.contains(&link));
    let form = format!("token={}&wish=pause", dash.token(&id));
    let really = dash.send(&id, &form);
    assert!(
        really
            .body
            .contains("<h1>Pause after the session at work?</h1>")
    );
    assert!(
        really.body.contains("ekiden pause --work-dir "),
        "{}",
        really.body
    );
    assert_eq!(hidden(&really.body, "wish"), "pause");
    assert_eq!(steered(&environment), [Value::Null; 0], "it only asked");

    let paused = dash.steer(&id, "wish=pause");
    assert_eq!(paused.status(), "303", "{}", paused.body);
    let page = format!("{}run/{id}", dash.base);
    assert_eq!(paused.header("location"), Some(page.as_str()));
    let limits = "wish=limits&max_sessions=7&run_budget=&session_timeout=+";
    assert_eq!(dash.steer(&id, limits).status(), "303");
    assert_eq!(dash.steer(&id, "wish=unpause").status(), "303");
    let wrong = dash.steer(&id, "wish=limits&max_sessions=many");
    assert_eq!(wrong.status(), "409");
    assert!(wrong.body.contains("That did not happen"), "{}", wrong.body);
    assert!(wrong.body.contains("--max-sessions"), "{}", wrong.body);
    let none = dash.steer(&id, "wish=limits&max_sessions=");
    assert!(none.body.contains("no limit is named"), "{}", none.body);
    assert_eq!(dash.steer(&id, "wish=stop_now").status(), "303");
    run.end();
    let kinds = steered(&environment);
    let kinds: Vec<&str> = kinds
        .iter()
        .map(|one| one["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["pause", "change_limits", "unpause", "stop"]);
    let late = dash.send(&id, &format!("{form}&confirmed=true"));
    assert!(late.body.contains("is not running"), "{}", late.body);
    let page = dash.page(&format!("run/{id}/steer")).body;
    assert!(
        page.contains("ekiden resume") && !page.contains("<form"),
        "{page}"
    );
}

// shows: UIX-05
#[test]
fn a_page_answers_what_a_run_asks_and_it_goes_on() {
    let environment = Environment::with_git().with("EKIDEN_REHEARSAL_SCENARIO", "scenario.toml");
    let act = "[[act]]\nsession = 1\nat = \"prompt\"\ndo = { question = \"Keep it & go on?\" }\n";
    environment.write("scenario.toml", act);
    environment.write("task.md", &items(1));
    environment.run(&RUN).expect(4);
    let dash = Dash::steering(&environment);
    let id = dash.address(&environment.runs()[0]);
    let page = dash.page(&format!("run/{id}/steer")).body;
    assert!(page.contains("<h2>It asks</h2>"), "{page}");
    assert!(page.contains("Keep it &amp; go on?"), "{page}");
    let stage = hidden(&page, "stage");
    let words = "--Keep+it%2C+%22by+trigger%22.%0D%0AAnd+%3Cb%3E.";
    let question = hidden(&page, "question");
    let answer = format!("wish=answer&stage={stage}&question={question}&words={words}");
    let really = dash.send(&id, &format!("token={}&{answer}", dash.token(&id)));
    assert!(really.body.contains("And &lt;b&gt;."), "{}", really.body);
    let asked = "<blockquote>Keep it &amp; go on?</blockquote>";
    assert!(really.body.contains(asked), "{}", really.body);
    let answered = dash.steer(&id, &answer);
    assert_eq!(answered.status(), "303", "{}", answered.body);
    wait_until("the end", || {
        dash.page(&format!("run/{id}"))
            .body
            .contains("complete (not verified)")
    });
    let page = dash.page(&format!("run/{id}")).body;
    assert!(page.contains("git -C "), "{page}");
    wait_until("the next command", || {
        let page = dash.page(&format!("run/{id}/steer")).body;
        page.contains("Next: <code>ekiden log ")
    });
    let prompt = environment.kept(2, "prompt.md");
    assert!(prompt.contains("--Keep it, \"by trigger\"."), "{prompt}");
    assert!(prompt.contains("And <b>."), "{prompt}");
}

// shows: UIX-05
#[test]
fn an_answer_reaches_no_other_question_than_the_page_showed() {
    let environment = Environment::with_git().with("EKIDEN_REHEARSAL_SCENARIO", "scenario.toml");
    let asks = |session: u32, question: &str| {
        format!(
            "[[act]]\nsession = {session}\nat = \"prompt\"\ndo = {{ question = \"{question}\" }}\n"
        )
    };
    environment.write(
        "scenario.toml",
        &[asks(1, "Keep it?"), asks(2, "Delete all?")].concat(),
    );
    environment.write("task.md", &items(1));
    environment.run(&RUN).expect(4);
    let dash = Dash::steering(&environment);
    let id = dash.address(&environment.runs()[0]);
    let page = dash.page(&format!("run/{id}/steer")).body;
    let [token, stage, question] = ["token", "stage", "question"].map(|name| hidden(&page, name));
    environment.run(&["answer", "no"]).expect(4);
    for confirmed in ["", "&confirmed=true"] {
        let form = format!(
            "token={token}&wish=answer&stage={stage}&question={question}&words=yes{confirmed}"
        );
        let refused = dash.send(&id, &form);
        assert_eq!(refused.status(), "409", "{}", refused.body);
        assert!(
            refused.body.contains("the question has changed"),
            "{}",
            refused.body
        );
    }
    let page = dash.page(&format!("run/{id}/steer")).body;
    assert!(page.contains("Delete all?"), "{page}");
}

// shows: MEM-12
#[test]
fn tasks_calls_and_questions_are_shown_without_their_secrets() {
    let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let environment = Environment::with_git();
    let item = format!(": {secret}; touch started; while [ ! -e go ]; do sleep 0.02; done");
    let task = format!("Push with {secret}\n\n- [ ] It\n\n  ```sh\n  {item}\n  ```\n");
    let run = environment.start(&["run", &task, "--agent", "rehearsal"]);
    wait_until("work", || environment.exists("started"));
    let dash = Dash::steering(&environment);
    let id = dash.address(&environment.runs()[0]);
    let pages = ["", &format!("run/{id}"), &format!("run/{id}/steer")];
    let pages: String = pages.map(|path| dash.page(path).body).concat();
    for shown in [
        "Push with [masked: ",
        ": [masked: github token]; touch started",
    ] {
        assert!(pages.contains(shown), "{shown} in {pages}");
    }
    assert!(!pages.contains(&secret), "{pages}");
    environment.write("go", "");
    run.end().expect(0);

    let environment = Environment::with_git().with("EKIDEN_REHEARSAL_SCENARIO", "scenario.toml");
    let act = format!(
        "[[act]]\nsession = 1\nat = \"prompt\"\ndo = {{ question = \"May I push with {secret}?\" }}\n"
    );
    environment.write("scenario.toml", &act);
    environment.write("task.md", &items(1));
    environment.run(&RUN).expect(4);
    let dash = Dash::steering(&environment);
    let id = dash.address(&environment.runs()[0]);
    let form = dash.page(&format!("run/{id}/steer")).body;
    assert!(form.contains("May I push with [masked: "), "{form}");
    assert!(!form.contains(&secret), "{form}");
}

// shows: SEC-03
#[test]
fn only_our_own_forms_steer_and_only_if_it_was_allowed() {
    let environment = Environment::with_git();
    let run = at_work(&environment);
    let dash = Dash::steering(&environment);
    let id = dash.address(&environment.runs()[0]);
    let token = dash.token(&id);
    let path = format!("run/{id}/steer");
    let own = format!("http://{}", dash.host);
    let (cookie, origin) = (("Cookie", dash.cookie.as_str()), ("Origin", own.as_str()));
    let sent = |headers: &[(&str, &str)], token: &str| {
        let form = format!("token={token}&wish=pause&confirmed=true");
        asked(&dash.host, &dash.form(&path, headers, &form))
            .status()
            .to_owned()
    };
    assert_eq!(sent(&[origin], &token), "401", "no cookie");
    assert_eq!(sent(&[cookie], &token), "403", "no origin");
    assert_eq!(sent(&[cookie, ("Origin", "null")], &token), "403");
    assert_eq!(
        sent(&[cookie, ("Origin", "http://evil.example")], &token),
        "403"
    );
    assert_eq!(sent(&[cookie, origin], ""), "403");
    assert_eq!(sent(&[cookie, origin], &token[1..]), "403");
    assert_eq!(
        sent(&[cookie, origin, ("Sec-Fetch-Site", "same-site")], &token),
        "403"
    );
    let long = format!("token={token}&wish=answer&words={}", "x".repeat(300_000));
    assert_eq!(dash.send(&id, &long).status(), "413");
    assert_eq!(
        dash.send(&id, &format!("token={token}&wish=destroy"))
            .status(),
        "422"
    );
    // A link cannot steer.
    let link = dash.page(&format!("{path}?token={token}&wish=pause&confirmed=true"));
    assert!(link.body.contains("<h1>Steer run"));
    let looking = Dash::started(environment.start(&["dash", "--port", "0"]));
    assert!(!looking.page(&format!("run/{id}")).body.contains("/steer"));
    assert_eq!(looking.page(&path).status(), "401");
    assert_eq!(looking.send(&id, "token=&wish=pause").status(), "401");
    assert_eq!(steered(&environment), [Value::Null; 0]);
    assert_eq!(sent(&[cookie, origin], &token), "303", "the right one");
    drop(run);
}

/// Even one that was given the cookie and the token.
// shows: SEC-03
#[test]
#[cfg(target_os = "linux")]
fn a_session_steers_through_no_page() {
    let environment = Environment::with_git();
    // The second one is orphaned before it asks, and the keeper adopts it.
    let work = "touch started; while [ ! -e request ]; do sleep 0.02; done; ./ask.sh inside; (setsid sh -c 'sleep 0.2; ./ask.sh orphan; touch asked' &); while [ ! -e asked ]; do sleep 0.02; done";
    environment.write(
        "task.md",
        &format!("- [ ] Ask\n\n  ```sh\n  {work}\n  ```\n"),
    );
    let run = environment.start(&RUN);
    wait_until("work", || environment.exists("started"));
    let dash = Dash::steering(&environment);
    let id = dash.address(&environment.runs()[0]);
    let (host, port) = dash.host.split_once(':').unwrap();
    let origin = format!("http://{}", dash.host);
    let headers = [("Cookie", dash.cookie.as_str()), ("Origin", &origin)];
    let form = format!("token={}&wish=pause", dash.token(&id));
    let request = dash.form(&format!("run/{id}/steer"), &headers, &form);
    environment.write("ready", &request);
    let asks = format!("bash -c 'exec 3<>/dev/tcp/{host}/{port}; cat ready >&3; cat <&3' > \"$1\"");
    environment.script("ask.sh", &asks);
    environment.shell("./ask.sh outside && touch request");
    let outside = environment.read("outside");
    assert!(
        outside.contains("Pause after the session at work?"),
        "{outside}"
    );
    run.end().expect(0);
    for name in ["inside", "orphan"] {
        let answer = environment.read(name);
        assert!(answer.starts_with("HTTP/1.1 403"), "{name}: {answer}");
        assert!(
            answer.contains("comes from a session of ekiden"),
            "{answer}"
        );
    }
    let dash = "- [ ] Serve\n\n  ```sh\n  \"$EKIDEN\" dash --port 0 --steer > served 2>&1; echo $? >> served\n  ```\n";
    environment.write("serve.md", dash);
    let environment = environment.with("EKIDEN", env!("CARGO_BIN_EXE_ekiden"));
    environment
        .run(&["run", "serve.md", "--agent", "rehearsal", "--new"])
        .expect(0);
    let served = environment.read("served");
    assert!(
        served.contains("a session of ekiden cannot let pages steer"),
        "{served}"
    );
    assert!(served.ends_with("77\n"), "{served}");
}

// shows: UIX-05
#[test]
fn the_browser_is_opened_with_an_address_that_works_once() {
    let environment = Environment::new();
    environment.script("bin/xdg-open", "echo \"$1\" > \"$OPENED\"\n");
    environment.script("bin/open", "echo \"$1\" > \"$OPENED\"\n");
    let bin = environment.dir().join("bin");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let opened = environment.dir().join("opened");
    let environment = environment
        .with("PATH", &path)
        .with("OPENED", opened.to_str().unwrap());
    let mut running = environment.start(&["dash", "--port", "0", "--open"]);
    let printed = running.wait_for_line("http://");
    wait_until("the browser", || environment.read("opened").ends_with('\n'));
    let address = environment.read("opened");
    assert_ne!(address.trim(), printed.trim());
    let (host, path) = address
        .trim()
        .strip_prefix("http://")
        .unwrap()
        .split_once('/')
        .unwrap();
    let enter = || {
        asked(
            host,
            &format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        )
    };
    assert_eq!(enter().status(), "303");
    assert_eq!(enter().status(), "403");
    let missing = environment.with("PATH", "/nowhere");
    let dash = Dash::started(missing.start(&["dash", "--port", "0", "--open"]));
    dash.running.signal(rustix::process::Signal::TERM);
    let said = dash.running.end();
    assert!(said.stderr.contains("; open the address"), "{said}");
}
