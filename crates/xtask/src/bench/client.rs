//! What ekiden adds to the real client: the gap between two clients, and CPU compared to theirs.

use serde::Deserialize;

use super::{Row, median};
use crate::shell::{self, Program};

/// From a client's exit to the next one's exec.
const GAP_MS_MAX: f64 = 10.0;
/// ekiden's CPU in a session of sixty tool turns, as a share of the client's.
const CPU_PERCENT_MAX: f64 = 1.0;

/// The output of `ekiden`'s bench.
#[derive(Debug, Deserialize)]
struct Figures {
    /// Each gap by the clients' clock.
    exec_ms: Vec<f64>,
    /// The same gaps by the log.
    logged_ms: Vec<f64>,
    /// The gaps of a `rehearsal` relay by the log.
    rehearsal_ms: Vec<f64>,
    ekiden_cpu_ms: f64,
    client_cpu_ms: f64,
}

/// `None`, with a message, if the client is not installed.
pub(super) fn measure() -> Result<Vec<Row>, String> {
    let measure = Program::cargo(&[
        "bench",
        "--locked",
        "--package",
        "ekiden",
        "--bench",
        "client",
    ]);
    let told: Option<Figures> = serde_json::from_str(&measure.output()?)
        .map_err(|error| format!("cannot understand what `{measure}` says: {error}"))?;
    let Some(figures) = told else {
        shell::say("left out: the real client (`cargo xtask real-client` installs it)");
        return Ok(Vec::new());
    };
    Ok(vec![gap(&figures), cpu(&figures)])
}

fn gap(figures: &Figures) -> Row {
    let exec = median(figures.exec_ms.clone());
    let (logged, rehearsal) = (
        median(figures.logged_ms.clone()),
        median(figures.rehearsal_ms.clone()),
    );
    Row {
        what: "from client to client: exit to exec".to_owned(),
        figure: format!("{exec:.1} ms"),
        baseline: format!(
            "by the log {logged:.0} ms, with `rehearsal` {rehearsal:.0} ms, {:.1} times",
            logged / rehearsal
        ),
        promise: format!("at most {GAP_MS_MAX} ms"),
        kept: exec <= GAP_MS_MAX,
    }
}

fn cpu(figures: &Figures) -> Row {
    let percent = 100.0 * figures.ekiden_cpu_ms / figures.client_cpu_ms;
    Row {
        what: "a session of 60 tool turns: own CPU".to_owned(),
        figure: format!("{:.1} ms", figures.ekiden_cpu_ms),
        baseline: format!("the client {:.0} ms, {percent:.2} %", figures.client_cpu_ms),
        promise: format!("at most {CPU_PERCENT_MAX} %"),
        kept: percent <= CPU_PERCENT_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_slow_or_too_much_is_found() {
        let figures = |exec_ms, ekiden_cpu_ms| Figures {
            exec_ms: vec![exec_ms],
            logged_ms: vec![6.0],
            rehearsal_ms: vec![4.0],
            ekiden_cpu_ms,
            client_cpu_ms: 4_000.0,
        };
        let (good, bad) = (figures(10.0, 40.0), figures(10.1, 40.1));
        assert!(gap(&good).kept && cpu(&good).kept);
        assert!(!gap(&bad).kept && !cpu(&bad).kept);
        assert!(
            !gap(&Figures {
                exec_ms: Vec::new(),
                ..good
            })
            .kept,
            "nothing measured is nothing kept"
        );
        assert_eq!(
            gap(&bad).baseline,
            "by the log 6 ms, with `rehearsal` 4 ms, 1.5 times"
        );
        assert_eq!(cpu(&bad).baseline, "the client 4000 ms, 1.00 %");
    }
}
