//! A terminal that takes nothing: ctrl-s, or a connection that hangs through the night.

use std::time::Duration;

use ekiden_testkit::pty::Pty;

use crate::environment::Environment;

// shows: UIX-02
#[test]
fn a_run_goes_on_though_nobody_reads_what_it_says() {
    let environment = Environment::new().with("TERM", "xterm");
    let slow: String = (1..=6)
        .map(|item| format!("- [ ] Item {item}\n\n  ```sh\n  sleep 0.3\n  ```\n\n"))
        .collect();
    environment.write("task.md", &slow);
    let words = ["run", "task.md", "--agent", "rehearsal"];
    let mut pty = Pty::spawn(environment.command(&words)).unwrap();
    let begun = pty.wait_until(Duration::from_secs(60), |pty| {
        pty.written().contains("session 1")
    });
    assert!(begun, "{}", pty.written());
    pty.stall().unwrap();
    assert!(
        pty.wait(Duration::ZERO).is_none(),
        "it was over before: {}",
        pty.written()
    );
    let end = pty.wait(Duration::from_secs(120));
    assert_eq!(end.and_then(|end| end.code()), Some(0), "{}", pty.written());
    let log = environment.told(&["log"]);
    assert!(log.contains("complete (not verified)"), "{log}");
}
